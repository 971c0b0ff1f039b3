"""Insertion and deletion curves of an ordering, over the share of the image's area."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from whymask.arrays import Floats
from whymask.errors import WhymaskError


@dataclass(frozen=True, eq=False, repr=False)
class Curves:
    """The replay of an ordering: regions enter an empty image, or leave the full one, one by one.

    After t regions, areas[t - 1] of the image is kept (or removed), insertion[t - 1] is the score of the image with
    only these regions and deletion[t - 1] the score of the image without them. Curves start at 0%: insertion from
    the empty image, which is deletion[-1], deletion from the full one, insertion[-1].

    >>> curves = Curves(np.array([.25, .5, .75, 1]), np.array([.2, .8, .9, .7]), np.array([.6, .3, .2, .1]))
    >>> round(curves.insertion_auc, 3), round(curves.deletion_auc, 3), round(curves.at(0.3), 3), curves.high
    (0.575, 0.375, 0.32, 0.9)
    """

    areas: Floats  # (n,) rising to 1
    insertion: Floats  # (n,)
    deletion: Floats  # (n,)
    forwards: int = 0  # masked images sent for the replay; those a search had scored already are not sent again

    def __post_init__(self) -> None:
        if not (self.areas.shape == self.insertion.shape == self.deletion.shape) or self.areas.ndim != 1:
            raise WhymaskError("areas, insertion and deletion must be arrays of the same length.")

    @property
    def x(self) -> Floats:
        """Area shares with the 0% point, (n + 1,)."""
        return np.concatenate([[0.0], self.areas])

    @property
    def insertion_curve(self) -> Floats:
        """Insertion scores with the 0% point, (n + 1,)."""
        return np.concatenate([self.deletion[-1:], self.insertion])

    @property
    def deletion_curve(self) -> Floats:
        """Deletion scores with the 0% point, (n + 1,)."""
        return np.concatenate([self.insertion[-1:], self.deletion])

    @property
    def insertion_auc(self) -> float:
        """Area under the insertion curve; higher is better."""
        return _area(self.insertion_curve, self.x)

    @property
    def deletion_auc(self) -> float:
        """Area under the deletion curve; lower is better."""
        return _area(self.deletion_curve, self.x)

    @property
    def high(self) -> float:
        """The highest insertion score, the empty image included; higher is better."""
        return float(self.insertion_curve.max())

    def at(self, area: float) -> float:
        """at@area: the insertion score at that area, linear between regions; the paper's @30 and @50."""
        return float(np.interp(area, self.x, self.insertion_curve))

    def best(self, area: float) -> float:
        """best@area: the highest insertion score up to that area, which is in none of the paper's tables.

        Regions count, the empty image does not; when even the first region is larger, it is that region's score.
        """
        reached = self.insertion[self.areas <= area + 1e-12]
        return float(reached.max() if len(reached) else self.insertion[0])

    def prefix(self, share: float = 0.8) -> int:
        """How many regions, from the first on, it takes to reach this share of the whole image's score."""
        return int(np.argmax(self.insertion >= share * self.insertion[-1])) + 1

    def as_dict(self) -> dict[str, Any]:
        """The curves, and the numbers of `summary`."""
        points = {name: getattr(self, name).tolist() for name in ("areas", "insertion", "deletion")}
        return {**self.summary(), **points, "forwards": self.forwards}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The curves that `as_dict` wrote."""
        areas, insertion, deletion = (np.array(data[name]) for name in ("areas", "insertion", "deletion"))
        return cls(areas, insertion, deletion, data["forwards"])

    def summary(self) -> dict[str, float]:
        """Every number of the paper's tables, with its protocol in its name; and best@30, best@50."""
        return {
            "insertion_auc": self.insertion_auc,
            "deletion_auc": self.deletion_auc,
            "at@30": self.at(0.3),
            "at@50": self.at(0.5),
            "high": self.high,
            "best@30": self.best(0.3),
            "best@50": self.best(0.5),
        }

    def __repr__(self) -> str:
        return f"<Curves of {len(self.areas)} regions: {self}>"

    def __str__(self) -> str:
        return (
            f"insertion AUC {self.insertion_auc:.3f}, deletion AUC {self.deletion_auc:.3f}, "
            f"at@30 {self.at(0.3):.3f}, at@50 {self.at(0.5):.3f}, highest {self.high:.3f} "
            f"(replay: {self.forwards} forwards)"
        )


def _area(values: Floats, x: Floats) -> float:
    """Under the straight lines through the points: numpy's trapezoid, which numpy 1 calls by another name."""
    return float(np.sum(np.diff(x) * (values[1:] + values[:-1]) / 2))
