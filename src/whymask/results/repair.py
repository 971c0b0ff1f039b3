"""The result of an attempt to repair an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whymask.metrics.repair import Mistake, RepairOutcome, correction_region
from whymask.results.caption import checks, made, quoted, size
from whymask.results.figure import repair_figure, said
from whymask.results.mask import EvidenceMask
from whymask.results.plotting import Width, letters, wrapped
from whymask.results.storage import Arrays, Header, are_regions
from whymask.results.verdict import Thresholds, Verdict, judge
from whymask.utils.archive import require
from whymask.utils.text import displayed, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN = ("given", "given_score", "answer", "repaired", "blank_repaired")
LISTS = ("order", "scores", "right")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Repair(EvidenceMask):
    """The regions to keep so that the model gives the wanted answer, and its answer to them.

    They are the mask of a mask method, or the shortest prefix of a full search that is answered as wanted; where none
    is, the prefix on which the wanted answer scores highest.
    """

    given: str  # the answer to the whole image
    given_score: float  # the probability of that answer (of its first token)
    answer: str  # the answer to the image that keeps only the regions
    repaired: bool
    order: tuple[int, ...] = ()  # all regions, where a full search ordered them
    scores: tuple[float, ...] = ()  # of the wanted answer, on the prefix of 1 ... n regions of that order
    right: tuple[bool, ...] = ()  # whether that prefix is answered as wanted
    blank_repaired: bool | None = None  # whether a blank image is answered as wanted too, where that is known

    kind: ClassVar[str] = "repair"

    @property
    def removed(self) -> float | None:
        """The minimal correction region: the least share of the area to remove, over all prefixes; else None."""
        if not self.order:
            return None
        return correction_region(np.cumsum(self.image.partition.areas[list(self.order)]), self.right)

    def judge(self, at: Thresholds | None = None) -> Verdict:
        """The verdict: a repair is enough where the model gives the wanted answer, and nothing explains that away."""
        if not self.repaired:
            said = f"shown only these regions, the model says {self.answer!r}"
            return Verdict("not_enough", f"Not repaired: {said}.")
        if self.blank_repaired:
            scores = (
                f"{self.target.label!r} scores {self.image.blank_score:.2f} on it, {self.score:.2f} on these regions"
            )
            return Verdict("blank_suffices", f"Repaired, but a blank image repairs the answer too: {scores}.")
        at = at or Thresholds()
        found = judge(
            full=self.score,  # the whole image is answered wrongly: its score is no measure
            score=self.score,
            removed=self.removed_score,
            blank=self.image.blank_score,
            controls=self.controls,
            fill=self.provenance.get("fill", ""),
            at=replace(at, least=min(at.least, self.score)),  # the answer is right, however low it scores
            answer=self.target.label,
        )
        if found.code == "redundant":
            rest = f"{self.removed_score:.2f}, these regions {self.score:.2f}"
            return found._replace(
                sentence=f"Repaired, but the rest of the image supports the answer too: it scores {rest}."
            )
        if found.code != "enough":
            return found._replace(sentence=f"Repaired, but {found.sentence[0].lower()}{found.sentence[1:]}")
        return found._replace(sentence=f"Repaired: shown only these regions, the model says {self.answer!r}.")

    def outcome(self, mistake: Mistake | None = None) -> RepairOutcome:
        """The values that `metrics.repairs` averages."""
        return RepairOutcome(self.repaired, self.removed, self.ledger.mec, mistake)

    def figure(self, width: Width = "page") -> Figure:
        """Before and after: the original with its answer, the kept regions with theirs.

        Below them the wanted answer's score on both and on a blank image: where that scores high too, the regions
        prove little.
        """
        kept = f"only {len(self.regions)} of {self.n} regions, {self.area:.0%} of the image"
        across = letters(40, width)
        titles = (
            f"whole image\n{said(self.given, self.given_score, across)}",
            f"{wrapped(kept, across)}\n{self.says(across)}",
        )
        scores = (
            f'"{self.target.label}" scores {self.image.full_score:.2f} on the whole image, '
            f"{self.score:.2f} on these regions and {self.image.blank_score:.2f} on a blank image"
        )
        return repair_figure(self, self.regions, titles, scores, self.verdict.sentence, width)

    def caption(self) -> str:
        """What the panels of the figure show, from left to right, then below, with all numbers."""
        return " ".join([
            "A wrong answer and the evidence for the right one.",
            f"The whole image, on which the model says {quoted(self.given)} ({self.given_score:.2f}),",
            f"with the evidence outlined; and the image with only the evidence, {size(self.regions, self)},",
            f"on which it says {quoted(self.answer)}.",
            f"{quoted(self.title)} scores {self.full_score:.2f} on the whole image,",
            f"{self.score:.2f} on the evidence, {self.removed_score:.2f} without it.",
            checks(self.blank_score, self.controls), displayed(self.verdict.sentence), made(self),
        ])  # fmt: skip

    def says(self, width: int = 40) -> str:
        """The answer to the kept regions, in lines of this width for a figure, and the score of the wanted answer."""
        if self.repaired:
            return said(self.answer, self.score, width)
        return f'{said(self.answer, None, width)}, "{wrapped(self.target.label, width)}" {self.score:.2f}'

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        lists = {name: list(getattr(self, name)) for name in LISTS}
        return super().as_dict() | {name: getattr(self, name) for name in PLAIN} | lists | {"removed": self.removed}

    @classmethod
    def _check(cls, header: Header, n: int) -> list[Any]:
        order, scores, right = (header[name] for name in LISTS)
        require(are_regions(order, n) and len(order) in (0, n), "its order does not name every region once")
        require(len(scores) == len(right) == len(order), "its scores have another length than its order")
        flags = [header["repaired"], header.get("blank_repaired") or False, *right]
        require(all(isinstance(flag, bool) for flag in flags), "a flag is neither true nor false")
        require(all(isinstance(header[name], str) for name in ("given", "answer")), "an answer is missing")
        return [*super()._check(header, n), header["given_score"], *scores]

    @classmethod
    def _fields(cls, header: Header, arrays: Arrays) -> dict[str, Any]:
        lists = {name: tuple(header[name]) for name in LISTS}
        return super()._fields(header, arrays) | {name: header.get(name) for name in PLAIN} | lists

    @property
    def remarks(self) -> list[str]:
        """Sentences about the result, besides its numbers."""
        remarks = self._places(self.regions)
        if self.order:
            count = sum(self.right)
            longest = f"; the longest of them removes {self.removed:.1%} of the area" if count else ""
            remarks.append(f"{count} of {self.n} prefixes are answered {self.target.label!r}{longest}.")
        return [*remarks, *super().remarks]

    def _brief(self) -> str:
        answers = f"{shortened(self.given)!r} becomes {shortened(self.answer)!r}"
        return f"{answers} on {len(self.regions)} of {self.n} regions, {self.verdict.code}"

    def __str__(self) -> str:
        question, wanted = self.provenance.get("question"), repr(self.target.label)
        who = "The model" if question is None else f"Asked {question!r}, the model"
        shown = (
            f"Shown only {len(self.regions)} of {self.n} regions ({self._regions(self.regions)}), {self.area:.1%} of "
            f"what it sees, it {'still ' if self.answer == self.given else ''}says {self.answer!r}: {wanted} scores "
            f"{self.score:.2f}, against {self.image.full_score:.2f} on the whole image and "
            f"{self.image.blank_score:.2f} on a blank one."
        )
        return f"{self.verdict} {who} says {self.given!r} ({self.given_score:.2f}). {shown} {self._end()}"
