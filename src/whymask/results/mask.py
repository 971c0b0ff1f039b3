"""The result of a mask method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.interop.coco import to_coco_rle
from whymask.results.base import Explanation
from whymask.results.caption import checks, made, quoted, size
from whymask.results.figure import mask_figure
from whymask.results.plotting import Width
from whymask.results.storage import TOLERANCE, Arrays, Header, are_regions, is_number
from whymask.results.verdict import ROUNDING, Controls, Thresholds, Verdict, judge, measured
from whymask.search.measured import interval
from whymask.utils.archive import require
from whymask.utils.text import displayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OTHERS = 1000  # further masks in a file


@dataclass(frozen=True, eq=False, repr=False)
class EvidenceMask(Explanation):
    """A few regions that are enough for the answer."""

    regions: tuple[int, ...]  # in their internal order where that is known, else ascending
    ordered: bool
    score: float  # score of the image that keeps only these regions
    removed_score: float  # score of the image without them
    frontier: Mapping[int, float] = field(default_factory=dict)  # number of regions -> best score the search found
    goal: float | None = None  # the score to reach, where the search was for the smallest mask
    local_optimum: bool = False  # every swap of one region was tried, and none improves the score
    alternatives: tuple[EvidenceMask, ...] = ()  # further masks that share few regions, where requested
    controls: Controls | None = None  # scores that show whether `score` can be believed

    kind: ClassVar[str] = "mask"

    def with_alternatives(self, others: Sequence[tuple[Sequence[int], float, float]]) -> EvidenceMask:
        """The same mask with alternatives, each (regions, score, removed_score)."""
        bare = replace(self, ordered=False, goal=None, local_optimum=False, alternatives=(), controls=None, scored=None)
        return replace(
            self,
            alternatives=tuple(
                replace(bare, regions=tuple(regions), score=score, removed_score=removed)
                for regions, score, removed in others
            ),
        )

    @property
    def verdict(self) -> Verdict:
        """What to make of the mask: a code, and a sentence for people."""
        return self.judge()

    def judge(self, at: Thresholds | None = None) -> Verdict:
        """The verdict by other thresholds; results/verdict.py says what they mean."""
        found = judge(
            full=self.image.full_score,
            score=self.score,
            removed=self.removed_score,
            blank=self.image.blank_score,
            area=self.area,
            goal=self.goal,
            controls=self.controls,
            fill=self.provenance.get("fill", ""),
            at=at,
            answer=self.target.label,
        )
        if self.answers is None:
            return found
        at = at or Thresholds()
        needed = max(at.least, at.share * self.image.full_score if self.goal is None else self.goal)
        return measured(found, score=self.score, needed=needed, answers=self.answers)

    @property
    def answers(self) -> int | None:
        """How many answers each score is measured from; None where scores are probabilities."""
        answers = self.provenance.get("answers")
        return answers if isinstance(answers, int) and answers > 0 else None

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Where each score lies with 95% confidence, where they are measured from answers; else empty.

        The answers are none of those by which the search has chosen the mask.
        """
        if self.answers is None:
            return {}
        scores = {
            "score": self.score,
            "removed_score": self.removed_score,
            "full_score": self.full_score,
            "blank_score": self.blank_score,
        }
        return {name: interval(score, self.answers) for name, score in scores.items()}

    @property
    def sufficient(self) -> bool | None:
        """Whether the mask reaches the goal, where there is one: a score, or that the answer is kept."""
        if self.controls and self.controls.kept:
            return self.controls.kept.alone
        return None if self.goal is None else self.score >= self.goal - ROUNDING

    @property
    def chosen(self) -> Bools:
        """(n,) the regions as a boolean row."""
        return np.isin(np.arange(self.n), self.regions)

    @property
    def mask(self) -> Bools:
        """(H, W) the pixels of the model's grid that are kept."""
        return self.image.pixels(self.regions)

    @property
    def area(self) -> float:
        """Share of the grid the regions cover."""
        return float(self.image.partition.areas[list(self.regions)].sum())

    @property
    def share(self) -> float | None:
        """The score of the mask over the score of the whole image."""
        return self.score / self.image.full_score if self.image.full_score else None

    def figure(self, width: Width = "page") -> Figure:
        """The photo, its evidence, the image with only the evidence, and without it."""
        return mask_figure(self, self.regions, self.score, self.removed_score, self.verdict.sentence, width)

    def caption(self) -> str:
        """What the panels of the figure show, from left to right, then below, with all numbers."""
        share = "" if self.share is None else f" ({self.share:.0%} of the score of the whole image)"
        return " ".join([
            f"The evidence for {quoted(self.title)}, which scores {self.full_score:.2f} on the whole image.",
            f"The photo; the evidence, {size(self.regions, self)};",
            f"the image with only the evidence, which scores {self.score:.2f}{share};",
            f"and without it, which scores {self.removed_score:.2f}.",
            checks(self.blank_score, self.controls), displayed(self.verdict.sentence), made(self),
        ])  # fmt: skip

    def photo_mask(self) -> Bools:
        """(h, w) the evidence on the photo's own pixels, rotated as its EXIF says.

        The resizing and the crop of the model's preprocessing are undone. What a crop removes is not seen, so it is no
        evidence; `photo_heatmap` marks it.
        """
        return self._on_photo(self.mask)

    def to_coco_rle(self, *, photo: bool = False) -> dict[str, Any]:
        """The mask as COCO's compressed run lengths: on the model's grid, or on the photo's own pixels."""
        return dict(to_coco_rle(self.photo_mask() if photo else self.mask))

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
        if self.intervals:
            own["intervals"] = {name: list(ends) for name, ends in self.intervals.items()}
        if self.panels:
            own["by_image"] = self.by_image(self.regions)
        own["controls"] = None if self.controls is None else self.controls.as_dict()
        return {"verdict": self.verdict._asdict()} | super().as_dict() | own

    @classmethod
    def _check(cls, header: Header, n: int) -> list[Any]:
        others = header.get("alternatives", [])
        require(len(others) <= OTHERS, "it has too many alternatives")
        for one in (header, *others):
            require(are_regions(one["regions"], n), "its mask names a region twice, or one that is not there")
        frontier, goal = header.get("frontier", {}), header.get("goal")
        require(all(0 <= int(size) <= n for size in frontier), "its frontier has sizes that no mask has")
        require(goal is None or is_number(goal, -TOLERANCE, 1 + TOLERANCE), "its goal is not a score")
        flags = (header["ordered"], header.get("local_optimum", False))
        require(all(isinstance(flag, bool) for flag in flags), "a flag is neither true nor false")
        controls = header.get("controls")
        shown: list[Any] = []
        if controls is not None:
            require(len(controls["fills"]) + len(controls["null"]) <= OTHERS, "it has too many controls")
            shown = [controls["flat"], controls["shuffled"], *controls["fills"].values(), *controls["null"].values()]
            kept = controls.get("kept")
            if kept:
                given = [value for name, value in kept.items() if name not in ("fills", "null")]
                given += [*kept["fills"].values(), *kept["null"].values()]
                require(all(isinstance(value, bool) for value in given), "a flag is neither true nor false")
        return [
            *shown,
            *frontier.values(),
            *(one[name] for one in (header, *others) for name in ("score", "removed_score")),
        ]

    @classmethod
    def _fields(cls, header: Header, arrays: Arrays) -> dict[str, Any]:
        names = ("ordered", "score", "removed_score", "goal", "local_optimum")
        given = super()._fields(header, arrays) | {name: header[name] for name in names if name in header}
        given["regions"] = tuple(header["regions"])
        given["controls"] = None if header.get("controls") is None else Controls.from_dict(header["controls"])
        given["frontier"] = {int(k): score for k, score in header.get("frontier", {}).items()}
        others = [(one["regions"], one["score"], one["removed_score"]) for one in header.get("alternatives", [])]
        return given | {"alternatives": EvidenceMask(**given).with_alternatives(others).alternatives}

    @property
    def remarks(self) -> list[str]:
        """Sentences about the result, besides its numbers."""
        remarks = [*self._places(self.regions), *super().remarks]
        low, high = self.intervals.get("score", (self.score, self.score))
        doubtful = self.goal is not None and low < self.goal <= high  # measured again, it may be on the other side
        if self.sufficient is False and not doubtful and "k_max" in self.provenance["parameters"]:
            most = min(self.provenance["parameters"]["k_max"] or self.n, self.n)
            wanted = "keeps the answer" if self.goal is None else f"reaches the required score, {self.goal:.2f}"
            remarks.append(f"No mask of up to {most} regions was found that {wanted}.")
        elif self.sufficient and self.complete and "k_max" in self.provenance["parameters"]:
            remarks.append("No smaller mask was found that is sufficient.")
        if self.local_optimum:
            remarks.append("No swap of one region improves the score.")
        return remarks

    def __str__(self) -> str:
        share = "" if self.image.full_score < 0.05 else f" ({self.share:.0%} of the full score)"
        verb = "scores" if len(self.regions) == 1 else "score"
        more = "".join(
            f" Another mask ({self._regions(other.regions)}) scores {other.score:.2f}." for other in self.alternatives
        )
        which = f" ({self._regions(self.regions)})" if self.regions else ""
        return (
            f"{self.verdict} {self._answer()} {len(self.regions)} of {self.n} regions{which}, "
            f"{self.area:.1%} of what the model sees, {verb} {self.score:.2f} alone{share}; "
            f"the rest of the image scores {self.removed_score:.2f}.{more} {self._end()}"
        )

    def _brief(self) -> str:
        scores = f"{len(self.regions)} of {self.n} regions score {self.score:.2f} of {self.full_score:.2f}"
        return f"{scores}, {self.verdict.code}"

    def _regions(self, regions: Sequence[int]) -> str:
        return ", ".join(map(str, self.names(regions)))
