"""What comes back: evidence masks and orderings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whymask.errors import WhymaskError
from whymask.imaging import Box, Canvas
from whymask.metrics.curves import Curves
from whymask.models.base import SCORE, Target
from whymask.objective import Bools, Floats, Ledger
from whymask.partition import Partition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Scene:
    """What was explained: the image as the model saw it, its regions, and the answer."""

    photo: Canvas  # (h, w, 3) the whole image, at a size for viewing
    canvas: Canvas  # (H, W, 3) the part the model saw, on its input grid
    fill: Canvas  # (H, W, 3) what it saw where regions were masked
    box: Box  # where the canvas lies on the photo
    partition: Partition
    target: Target
    prediction: str | None  # what the model answers on the whole canvas, where it names its answers
    full_score: float  # score of the whole canvas
    blank_score: float  # score of the fill alone


@dataclass(frozen=True, eq=False)
class Explanation(ABC):
    """Common part of masks and orderings."""

    scene: Scene
    ledger: Ledger
    provenance: Mapping[str, Any]  # method, parameters, seed, model, partition, versions: how to get this again
    complete: bool  # False when the budget ended the search

    kind: ClassVar[str]

    @property
    def target(self) -> Target:
        """The answer that is explained."""
        return self.scene.target

    @property
    def n(self) -> int:
        """Number of regions of the image."""
        return self.scene.partition.n

    def names(self, regions: Sequence[int]) -> list[int]:
        """The regions by the numbers of the user's own label map, where there is one."""
        values = self.scene.partition.values
        return list(regions) if values is None else [values[region] for region in regions]

    @abstractmethod
    def figure(self) -> Figure:
        """The picture of this result."""

    def savefig(self, path: str | PathLike[str]) -> Path:
        """Write the picture of this result: .png, .pdf or .svg."""
        from whymask.views.figure import save_figure

        return save_figure(self.figure(), Path(path))

    def show(self) -> None:
        """Show the picture of this result: below the cell of a notebook, elsewhere in the system's image viewer."""
        from whymask.views.figure import show_figure

        show_figure(self.figure())

    def save(self, path: str | PathLike[str]) -> Path:
        """Write everything into one .npz file (arrays and JSON, no pickle); an interrupted save leaves no file."""
        from whymask.saved import write

        return write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Any:
        """The mask or ordering that `save` wrote."""
        from whymask.saved import read

        return read(path)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "target": asdict(self.scene.target),
            "prediction": self.scene.prediction,
            "label_values": self.scene.partition.values,
            "n": self.n,
            "box": list(self.scene.box),
            "full_score": self.scene.full_score,
            "blank_score": self.scene.blank_score,
            "complete": self.complete,
            "ledger": self.ledger.as_dict(),
            "provenance": dict(self.provenance),
        }

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was found, besides its numbers."""
        early = "ended the search early" if self.ledger.mec else "was too small for the search to begin"
        return [] if self.complete else [f"The budget {early}."]

    def _answer(self) -> str:
        """What the model says, and what was asked about where that is something else."""
        scene, question = self.scene, self.provenance.get("question")
        if scene.target.label == SCORE:
            return f"The score of the whole image is {scene.full_score:.2f}."
        label = repr(scene.target.label)
        who = "The model" if question is None else f"Asked {question!r}, the model"
        if scene.prediction == scene.target.label:
            return f"{who} says {label}, which scores {scene.full_score:.2f} on the whole image."
        says = "" if scene.prediction is None else f"{who} says {scene.prediction!r}; explained is "
        return f"{says}{label}: it scores {scene.full_score:.2f} on the whole image."

    def _end(self) -> str:
        """What else was found, and what it took."""
        seconds = self.provenance.get("seconds")
        time = "" if seconds is None else f" in {seconds:.1f} s"
        backward = "backward passes and " if self.provenance.get("needs") == "gradients" else ""
        return " ".join([*self.remarks, f"It took {backward}{self.ledger}{time}."])


@dataclass(frozen=True, eq=False)
class EvidenceMask(Explanation):
    """A few regions that are enough for the answer."""

    regions: tuple[int, ...]  # in their internal order where that is known, else ascending
    ordered: bool
    score: float  # score of the image that keeps only these regions
    removed_score: float  # score of the image without them
    frontier: Mapping[int, float] = field(default_factory=dict)  # number of regions -> best score the search has seen
    goal: float | None = None  # the score that would be enough, where the search was for the smallest mask
    local_optimum: bool = False  # every exchange of one region has been tried, and none is better
    alternatives: tuple[EvidenceMask, ...] = ()  # further masks that share few regions, where they were asked for

    kind: ClassVar[str] = "mask"

    def with_alternatives(self, others: Sequence[tuple[Sequence[int], float, float]]) -> EvidenceMask:
        """The same mask and others beside it, each (regions, score, removed_score)."""
        bare = replace(self, ordered=False, goal=None, local_optimum=False, alternatives=())
        return replace(
            self,
            alternatives=tuple(
                replace(bare, regions=tuple(regions), score=score, removed_score=removed)
                for regions, score, removed in others
            ),
        )

    @property
    def sufficient(self) -> bool | None:
        """Whether the mask reaches the goal, where there is one."""
        return None if self.goal is None else self.score >= self.goal - 1e-6

    @property
    def chosen(self) -> Bools:
        """(n,) the regions as a boolean row."""
        return np.isin(np.arange(self.n), self.regions)

    @property
    def mask(self) -> Bools:
        """(H, W) the pixels of the model's grid that are kept."""
        return self.scene.partition.pixels(self.chosen)

    @property
    def area(self) -> float:
        """Share of the grid the regions cover."""
        return float(self.scene.partition.areas[list(self.regions)].sum())

    @property
    def share(self) -> float | None:
        """Kept score over the score of the whole image."""
        return self.score / self.scene.full_score if self.scene.full_score else None

    def figure(self) -> Figure:
        """The photo, its evidence, the image with only the evidence, and without it."""
        from whymask.views.figure import mask_figure

        return mask_figure(self)

    def to_coco_rle(self) -> dict[str, Any]:
        """The mask as COCO's compressed run lengths."""
        from whymask.interop.coco import to_coco_rle

        return dict(to_coco_rle(self.mask))

    def heatmap(self) -> Floats:
        """(H, W) 1 on the evidence, 0 elsewhere."""
        return self.mask.astype(np.float64)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        own = {
            "regions": list(self.regions),
            "ordered": self.ordered,
            "score": self.score,
            "share": self.share,
            "removed_score": self.removed_score,
            "area": self.area,
            "frontier": {str(k): score for k, score in self.frontier.items()},
            "goal": self.goal,
            "local_optimum": self.local_optimum,
            "alternatives": [
                {"regions": list(other.regions), "score": other.score, "removed_score": other.removed_score}
                for other in self.alternatives
            ],
        }
        return super().as_dict() | own

    @classmethod
    def restore(cls, header: dict[str, Any], common: dict[str, Any]) -> EvidenceMask:
        """From what `as_dict` tells and what all kinds share."""
        names = ("ordered", "score", "removed_score", "goal", "local_optimum")
        first = cls(
            **common,
            regions=tuple(header["regions"]),
            frontier={int(k): score for k, score in header.get("frontier", {}).items()},
            **{name: header[name] for name in names if name in header},
        )
        others = header.get("alternatives", [])
        return first.with_alternatives([(o["regions"], o["score"], o["removed_score"]) for o in others])

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was found, besides its numbers."""
        told = super().remarks
        if self.sufficient is False:
            most = min(self.provenance["parameters"]["k_max"], self.n)
            told.append(f"No mask of up to {most} regions was found that keeps the {self.goal:.2f} asked for.")
        elif self.sufficient and self.complete:
            told.append("No smaller mask was found that is enough.")
        if self.local_optimum:
            told.append("No exchange of one region makes it better.")
        return told

    def __str__(self) -> str:
        share = f", {self.share:.0%} of it" if self.share is not None and self.scene.full_score >= 0.05 else ""
        more = "".join(
            f" Another mask ({self._regions(other.regions)}) keeps {other.score:.2f}." for other in self.alternatives
        )
        return (
            f"{self._answer()} {len(self.regions)} of {self.n} regions ({self._regions(self.regions)}), "
            f"{self.area:.1%} of what the model sees, keep {self.score:.2f}{share}; "
            f"everything else scores {self.removed_score:.2f}.{more} {self._end()}"
        )

    def _regions(self, regions: Sequence[int]) -> str:
        return ", ".join(map(str, self.names(regions)))


@dataclass(frozen=True, eq=False)
class Ordering(Explanation):
    """All regions, most important first."""

    order: tuple[int, ...]
    seed_regions: tuple[int, ...]  # the initialiser's mask it grew from, as far as known in internal order, or empty
    kept: int  # how many of them were placed first (Eq. 5)
    map: Floats | None = None  # (H, W) the importance of every pixel, by methods that have one
    curves: Curves | None = None  # its replay, where there was one

    kind: ClassVar[str] = "ordering"

    def top(self, k: int) -> tuple[int, ...]:
        """The k most important regions."""
        if not 1 <= k <= self.n:
            raise WhymaskError(f"k must be between 1 and the number of regions, {self.n}, not {k}.")
        return self.order[:k]

    @property
    def areas(self) -> Floats:
        """(n,) share of the grid that each prefix covers."""
        return np.cumsum(self.scene.partition.areas[list(self.order)])

    def with_curves(self, curves: Curves) -> Ordering:
        """The same ordering, together with its replay."""
        return replace(self, curves=curves)

    @property
    def prefix(self) -> int:
        """The prefix to look at first: the shortest that keeps 80 % of the whole score, else that of the seed."""
        return self.curves.prefix() if self.curves else self.kept or min(8, self.n)

    @property
    def flat(self) -> bool:
        """Whether the method had nothing to tell: its map is the same everywhere, and the regions are in no order."""
        return self.map is not None and bool(self.map.min() == self.map.max())

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was found, besides its numbers."""
        nothing = f"The method's map is the same everywhere: it tells nothing about the {self.n} regions."
        return [*([nothing] if self.flat else []), *super().remarks]

    def figure(self) -> Figure:
        """Every region's rank, the image with only the prefix, without it, and both curves where there is a replay."""
        from whymask.views.figure import ordering_figure

        return ordering_figure(self)

    def heatmap(self) -> Floats:
        """(H, W) from 1 on the first region down to 1/n on the last: rank, not magnitude (which is in `map`)."""
        value = np.empty(self.n)
        value[list(self.order)] = 1 - np.arange(self.n) / self.n
        return value[self.scene.partition.labels]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        return super().as_dict() | {
            "order": list(self.order),
            "seed_regions": list(self.seed_regions),
            "kept": self.kept,
            "flat": self.flat,
            "curves": None if self.curves is None else self.curves.as_dict(),
        }

    @classmethod
    def restore(cls, header: dict[str, Any], common: dict[str, Any]) -> Ordering:
        """From what `as_dict` tells and what all kinds share."""
        curves = header.get("curves")
        return cls(
            **common,
            order=tuple(header["order"]),
            seed_regions=tuple(header["seed_regions"]),
            kept=header["kept"],
            curves=None if curves is None else Curves.from_dict(curves),
        )

    def __str__(self) -> str:
        first = ", ".join(map(str, self.names(self.order[:8]))) + (", ..." if self.n > 8 else ".")
        order = "" if self.flat else f" Its {self.n} regions, most important first: {first}"
        return f"{self._answer()}{order} {self._end()}"
