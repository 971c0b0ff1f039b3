"""The result of a full search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.metrics.curves import Curves
from whymask.results.base import Explanation
from whymask.results.caption import made, quoted, size
from whymask.results.figure import ordering_figure
from whymask.results.plotting import Width
from whymask.results.storage import TOLERANCE, Arrays, Header, are_regions, is_count, is_number
from whymask.utils.archive import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Ordering(Explanation):
    """All regions, most important first."""

    order: tuple[int, ...]
    initial_mask: tuple[int, ...]  # the initialiser's mask, in its internal order where that is known; else empty
    kept: int  # how many regions of it the ordering starts with (Eq. 5)
    map: Floats | None = None  # (H, W) the importance of every pixel, where the method computes one
    curves: Curves | None = None  # its replay, where there is one

    kind: ClassVar[str] = "ordering"

    def top(self, k: int) -> tuple[int, ...]:
        """The k most important regions."""
        if not 1 <= k <= self.n:
            raise WhymaskError(f"k must be between 1 and the number of regions, {self.n}, not {k}.")
        return self.order[:k]

    @property
    def areas(self) -> Floats:
        """(n,) share of the grid that each prefix covers."""
        return np.cumsum(self.image.partition.areas[list(self.order)])

    def with_curves(self, curves: Curves) -> Ordering:
        """The same ordering, together with its replay."""
        return replace(self, curves=curves)

    @property
    def prefix(self) -> int:
        """The prefix to show first: that keeps 80% of the full score, or the initial mask without a replay."""
        return self.curves.prefix() if self.curves else self.kept or min(8, self.n)

    @property
    def flat(self) -> bool:
        """Whether the method's map is constant, so that the order of the regions means nothing."""
        return self.map is not None and bool(self.map.min() == self.map.max())

    @property
    def remarks(self) -> list[str]:
        """Sentences about the result, besides its numbers."""
        constant = f"The method's map is constant: it does not rank the {self.n} regions."
        places = self._places(self.order[: self.prefix], first=True)
        return [*places, *([constant] if self.flat else []), *super().remarks]

    def figure(self, width: Width = "page") -> Figure:
        """Every region's rank, the image with only the prefix, without it, and both curves where there is a replay."""
        return ordering_figure(self, self.heatmap(), self.order[: self.prefix], self.curves, width)

    def caption(self) -> str:
        """What the panels of the figure show, from left to right, then below, with all numbers."""
        first, curves = self.order[: self.prefix], self.curves
        parts = [
            f"The {self.n} regions of the image in their order of importance for {quoted(self.title)},",
            f"which scores {self.full_score:.2f} on the whole image and {self.blank_score:.2f} on a blank one.",
            "The photo, each region coloured by its rank;",
        ]
        if curves is None:
            parts.append(f"the image with only the first {size(first, self)}; and without them.")
        else:
            alone, rest = curves.insertion[len(first) - 1], curves.deletion[len(first) - 1]
            parts += [
                f"the image with only the first {size(first, self)}, which score {alone:.2f};",
                f"without them, {rest:.2f};",
                "and the score over the share of the area as regions are inserted into a blank image",
                f"(area under the curve {curves.insertion_auc:.3f}; {curves.at(0.3):.2f} at 30% of the area,",
                f"{curves.at(0.5):.2f} at 50%, {curves.high:.2f} at most)",
                f"and deleted from the whole one ({curves.deletion_auc:.3f}).",
            ]
        return " ".join([*parts, *self.remarks, made(self)])

    def heatmap(self) -> Floats:
        """(H, W) from 1 on the first region down to 1/n on the last: rank, not magnitude (which is in `map`)."""
        value = np.empty(self.n)
        value[list(self.order)] = 1 - np.arange(self.n) / self.n
        return value[self.image.partition.labels]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        return super().as_dict() | {
            "order": list(self.order),
            "initial_mask": list(self.initial_mask),
            "kept": self.kept,
            "flat": self.flat,
            "curves": None if self.curves is None else self.curves.as_dict(),
        }

    def _arrays(self) -> Arrays:
        return super()._arrays() | ({} if self.map is None else {"map": self.map})

    @classmethod
    def _check(cls, header: Header, n: int) -> list[Any]:
        order, initial, kept, curves = header["order"], header["initial_mask"], header["kept"], header.get("curves")
        require(are_regions(order, n) and len(order) == n, "its order does not name every region once")
        require(are_regions(initial, n), "its initial mask names a region twice, or one that is not there")
        require(is_count(kept) and kept <= n, "it keeps more regions than there are")
        if curves is None:
            return []
        areas, insertion, deletion = (curves[name] for name in ("areas", "insertion", "deletion"))
        require(len(areas) == len(insertion) == len(deletion) == n, "its curves have another length than its order")
        rising = all(is_number(area, 0, 1 + TOLERANCE) for area in areas) and sorted(areas) == areas
        require(rising and is_count(curves["forwards"]), "its curves are not over the area")
        return [*insertion, *deletion]

    @classmethod
    def _fields(cls, header: Header, arrays: Arrays) -> dict[str, Any]:
        curves = header.get("curves")
        return super()._fields(header, arrays) | {
            "order": tuple(header["order"]),
            "initial_mask": tuple(header["initial_mask"]),
            "kept": header["kept"],
            "map": arrays["map"].astype(np.float64) if "map" in arrays else None,
            "curves": None if curves is None else Curves.from_dict(curves),
        }

    def _brief(self) -> str:
        return f"{self.n} regions in order, by {self.provenance['method']}"

    def __str__(self) -> str:
        first = ", ".join(map(str, self.names(self.order[:8]))) + (", ..." if self.n > 8 else ".")
        order = "" if self.flat else f" Its {self.n} regions, most important first: {first}"
        return f"{self._answer()}{order} {self._end()}"
