"""What searches and the driver say to each other.

A search is a generator: it yields an `Ask`, receives F of the asked sets as float64 (B,), and returns a
`Seed` (an initialiser) or a `Ranking` (a full search). It sees no model, image, device or progress bar.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from whymask.errors import WhymaskError
from whymask.objective import Bools, Floats, Objective, Stage


@dataclass(frozen=True)
class Problem:
    """All a search may know about the regions U = {0, ..., n - 1}."""

    n: int
    rng: np.random.Generator
    centroids: Floats | None = None  # (n, 2) as (x / W, y / H)
    areas: Floats | None = None  # (n,) shares of the image; equal shares when not given

    def __post_init__(self) -> None:
        if self.n < 1:
            raise WhymaskError(f"a search needs at least one region, not {self.n}.")
        if self.centroids is not None and self.centroids.shape != (self.n, 2):
            raise WhymaskError(f"centroids must have shape ({self.n}, 2), not {self.centroids.shape}.")
        if self.areas is not None and self.areas.shape != (self.n,):
            raise WhymaskError(f"areas must have shape ({self.n},), not {self.areas.shape}.")


@dataclass(frozen=True)
class Seed:
    """A candidate set C and what is known of it: what an initialiser returns."""

    mask: Bools  # (n,)
    score: float | None = None  # F(C); None while it has not been asked for
    order: tuple[int, ...] | None = None  # regions of C by Eq. 4, at least the kept ones
    kept: int = 0  # r of Eq. 5: how many regions of `order` a continuation starts from
    logits: Floats | None = None  # (rounds + 1, n) what a sampler learned, the last row is final

    @property
    def prefix(self) -> tuple[int, ...]:
        """S_init as an ordered prefix (Eq. 5)."""
        return (self.order or ())[: self.kept]


@dataclass(frozen=True)
class Ranking:
    """A permutation of all regions, most important first, and the seed it grew from."""

    order: tuple[int, ...]
    seed: Seed | None = None


@dataclass(frozen=True)
class Ask:
    """A batch of candidate sets (B, n), what to score them by, and what to return if the search ends here."""

    rows: Bools
    objective: Objective
    stage: Stage
    best: Seed | Ranking


Initialiser: TypeAlias = Generator[Ask, Floats, Seed]
Continuation: TypeAlias = Generator[Ask, Floats, Ranking]


def extend(placed: Sequence[int], live: Sequence[int], n: int) -> Bools:
    """One row per live region: the placed regions and that one, (len(live), n)."""
    rows = np.zeros((len(live), n), dtype=bool)
    rows[:, list(placed)] = True
    rows[np.arange(len(live)), list(live)] = True
    return rows


def ranking(placed: Sequence[int], last: Floats, seed: Seed | None) -> Ranking:
    """The placed regions, then all others by their last known score; ties go to the lowest index."""
    rest = np.argsort(-last, kind="stable").tolist()
    done = set(placed)
    return Ranking((*placed, *(region for region in rest if region not in done)), seed)


def check_k(k: int, n: int) -> None:
    """Refuse a mask size no set of n regions can have."""
    if not 1 <= k <= n:
        raise WhymaskError(f"k must be between 1 and the number of regions, {n}, not {k}.")
