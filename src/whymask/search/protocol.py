"""What searches and the driver say to each other.

A search is a generator: it yields an `Ask`, receives F of the asked sets as float64 (B,), and returns a
`Selection` (an initialiser) or a `Ranking` (a full search). One for several targets receives F as (B, T), and returns
`Masks`. It sees no model, image, device or progress bar;
baselines that use gradients get the image from `Problem.differentiable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import WhymaskError, whole
from whymask.search.archive import Archive
from whymask.search.objective import LedgerStage, Objective

if TYPE_CHECKING:
    from whymask.models.differentiable import Differentiable


Needs = Literal["sets", "nested", "pixels", "gradients"]
"""What a search works on: any set function, one on nested regions, an image, or one on a model with gradients."""


@dataclass(frozen=True, eq=False)
class Problem:
    """All a search may know: the regions U = {0, ..., n - 1} and the seed of its random choices."""

    n: int
    seed: int | tuple[int, ...] = 0
    centroids: Floats | None = None  # (n, 2) as (x / W, y / H)
    areas: Floats | None = None  # (n,) shares of the image; equal shares when not given
    labels: NDArray[np.int32] | None = None  # (H, W) the region of every pixel, for methods that mask pixels
    differentiable: Callable[[], Differentiable] | None = None  # the image on its model, for methods that use gradients
    parents: NDArray[np.intp] | None = None  # (n,) the coarse region that each lies in, where they are nested
    archive: Archive = field(default_factory=Archive)  # everything this search has asked for, kept by its driver

    def __post_init__(self) -> None:
        whole("the number of regions", self.n, 1)
        for part in self.seed if isinstance(self.seed, tuple) else (self.seed,):
            whole("a seed", part, 0)
        centroids, areas = self.centroids, self.areas
        if centroids is not None and (centroids.shape != (self.n, 2) or not np.isfinite(centroids).all()):
            raise WhymaskError(f"centroids must be finite and of shape ({self.n}, 2), not {centroids.shape}.")
        if areas is not None and (areas.shape != (self.n,) or not (areas >= 0).all() or areas.sum() > 1 + 1e-6):
            raise WhymaskError(f"areas must be {self.n} shares of the image: none negative, together at most 1.")
        parents = self.parents
        if parents is not None and (
            parents.shape != (self.n,) or set(parents.tolist()) != set(range(int(parents.max()) + 1))
        ):
            raise WhymaskError(f"parents must give each of the {self.n} regions its coarse one, from 0 without gaps.")

    def apart(self) -> Floats | None:
        """Squared distances (n, n) between the centres of the regions, where those are known."""
        if self.centroids is None:
            return None
        return np.asarray(((self.centroids[:, None] - self.centroids[None]) ** 2).sum(axis=2))

    def rng(self) -> np.random.Generator:
        """A fresh generator: every search of this problem draws the same numbers, whatever else runs."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True, eq=False)
class Selection:
    """A candidate set C and what is known of it: what an initialiser returns."""

    mask: Bools  # (n,)
    score: float | None = None  # F(C); None while it has not been asked for
    order: tuple[int, ...] | None = None  # regions of C by Eq. 4, at least the kept ones
    kept: int = 0  # r of Eq. 5: how many regions of `order` a continuation starts from
    logits: Floats | None = None  # (rounds + 1, n) what a sampler learned, the last row is final
    local_optimum: bool = False  # every exchange of one region has been tried, and none is better
    goal: float | None = None  # the score that would be enough, where the size was not given
    others: tuple[Selection, ...] = ()  # further masks, where several were asked for

    @classmethod
    def best(cls, rows: Bools, scores: Floats) -> Selection:
        """The first of the sets (B, n) with the highest score."""
        top = int(np.argmax(scores))
        return cls(rows[top], float(scores[top]))

    @property
    def prefix(self) -> tuple[int, ...]:
        """S_init as an ordered prefix (Eq. 5)."""
        return (self.order or ())[: self.kept]

    @property
    def regions(self) -> tuple[int, ...]:
        """All regions of C, in the internal order as far as that is known."""
        return completed(self).order[: int(self.mask.sum())]


@dataclass(frozen=True, eq=False)
class Ranking:
    """A permutation of all regions, most important first, and the selection it grew from."""

    order: tuple[int, ...]
    selection: Selection | None = None
    map: Floats | None = None  # (H, W) the importance of every pixel, by methods that have one
    placed: int = 0  # how many of them, from the first on, the search will not move any more


@dataclass(frozen=True, eq=False)
class Masks:
    """What a search for several targets found: a mask for each."""

    each: tuple[Selection, ...]
    proposed: Mapping[
        bytes, Collection[int]
    ]  # by its packed bits, for which targets a set was asked for; others: for all


Found: TypeAlias = Selection | Ranking | Masks
"""What a search returns."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A batch of masked images, what to score them by, and what to return if the search ends here."""

    rows: Rows  # kept sets (B, n), or pixel masks (B, H, W)
    objective: Objective
    stage: LedgerStage
    best: Found
    divisible: bool = False  # whether a budget may pay for the first few rows alone, whose scores are sent then
    fills: tuple[int, ...] | None = None  # the fills to score them on, where there are several; by default all


Initialiser: TypeAlias = Generator[Ask, Floats, Selection]
Continuation: TypeAlias = Generator[Ask, Floats, Ranking]


class Algorithm(Protocol):
    """What the driver runs."""

    @property
    def name(self) -> str:
        """What results are labelled with."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Every parameter's value as JSON has it."""

    @property
    def needs(self) -> Needs:
        """What it works on."""

    def search(self, problem: Problem) -> Generator[Ask, Floats, Found]:
        """Start a search."""

    def settle(self, found: Found) -> Found:
        """What to return from a search that was stopped with this as its best."""


def mask_of(regions: Sequence[int], n: int) -> Bools:
    """The set of these regions, (n,)."""
    mask = np.zeros(n, dtype=bool)
    mask[list(regions)] = True
    return mask


def extend(placed: Sequence[int], live: Sequence[int], n: int) -> Bools:
    """One row per live region: the placed regions and that one, (len(live), n)."""
    rows = np.zeros((len(live), n), dtype=bool)
    rows[:, list(placed)] = True
    rows[np.arange(len(live)), list(live)] = True
    return rows


def by_logits(selection: Selection | None, n: int) -> NDArray[np.intp]:
    """All regions in the order that decides ties: by falling final logits where there are any, then by index, (n,)."""
    final = np.zeros(n) if selection is None or selection.logits is None else selection.logits[-1]
    return np.argsort(-final, kind="stable")


def ranking(placed: Sequence[int], last: Floats, selection: Selection | None) -> Ranking:
    """The placed regions, then all others by their last known score; ties go as `by_logits` says."""
    regions = by_logits(selection, len(last))
    rest = regions[np.argsort(-last[regions], kind="stable")].tolist()
    done = set(placed)
    return Ranking((*placed, *(region for region in rest if region not in done)), selection, placed=len(done))


def completed(selection: Selection) -> Ranking:
    """The selection in its internal order as far as that is known, then all other regions by its final logits."""
    placed = selection.order if selection.order is not None else tuple(np.flatnonzero(selection.mask).tolist())
    return ranking(placed, np.zeros(len(selection.mask)), selection)


def begin(problem: Problem, selection: Selection | None) -> tuple[list[int], list[int], Floats]:
    """What a continuation starts from: the regions that are placed, those that are left, and a first guess.

    The regions that are left are ranked by the logits that TRACE learned, which decides ties (appendix C.3), else by
    index. The guess are scores (n,) to rank the regions by until it has scores of its own: the order of the selection.
    """
    guess = np.zeros(problem.n)
    if selection is None:
        return [], list(range(problem.n)), guess
    guess[list(completed(selection).order)] = -np.arange(problem.n)
    placed = list(selection.prefix)
    return placed, [region for region in by_logits(selection, problem.n).tolist() if region not in placed], guess


def held(search: Initialiser, best: Selection | None = None, **changes: Any) -> Initialiser:
    """The same search inside another: stopped early, it gives `best`, or else its own, with these changes."""
    scores: Floats | None = None
    while True:
        try:
            ask = next(search) if scores is None else search.send(scores)
        except StopIteration as stop:
            found: Selection = stop.value
            return found
        assert isinstance(ask.best, Selection)
        scores = yield replace(ask, best=replace(best or ask.best, **changes))


def check_k(k: int, n: int) -> None:
    """Refuse a mask larger than the image, also where its size is a default that nobody gave."""
    if k > n:
        raise WhymaskError(f"k must be between 1 and the number of regions, {n}, not {k}.")
