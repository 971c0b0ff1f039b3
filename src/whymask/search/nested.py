"""Nested regions: searches of the coarse ones ask for sets of the fine ones, so what they score stays usable."""

from collections.abc import Generator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError
from whymask.search.archive import Archive
from whymask.search.objective import Objective
from whymask.search.protocol import Ask, Found, Initialiser, Problem, Ranking, Selection


class CoarseArchive(Archive):
    """Sets of fine regions as sets of the coarse ones that they are unions of."""

    def __init__(self, fine: Archive, parents: NDArray[np.intp]) -> None:
        super().__init__(fine.fills, fine.how)
        self.fine, self.parents = fine, parents
        self.children = np.unique(parents, return_index=True)[1]  # of each coarse region the first

    @property
    def rows(self) -> Bools:
        """(m, n) kept sets of coarse regions."""
        return np.take(self.fine.rows, self.children, axis=1)

    @property
    def responses(self) -> Floats:
        """What the model said to each on each fill, (fills, m); NaN where it was not asked."""
        return self.fine.responses

    @property
    def answers(self) -> Floats:
        """How many answers each response is the mean of, (fills, m)."""
        return self.fine.answers

    def score(self, rows: Bools, objective: Objective, fills: Sequence[int] | None = None) -> Floats:
        """F (B,) of sets (B, n) on some of the fills, or all; they must have been asked for."""
        return self.fine.score(np.take(rows, self.parents, axis=1), objective, fills)


def coarse(problem: Problem) -> Problem:
    """The same problem on the coarse regions."""
    parents = problem.parents
    if parents is None:
        raise WhymaskError("split needs regions that are nested: pass regions='slico:64/4', each of 64 cut into four.")
    members = np.eye(int(parents.max()) + 1)[parents]  # (n, coarse)
    areas = np.full(problem.n, 1 / problem.n) if problem.areas is None else problem.areas
    centroids = problem.centroids
    if centroids is not None:
        centroids = members.T @ (areas[:, None] * centroids) / (areas @ members)[:, None]
    return Problem(
        members.shape[1],
        problem.seed,
        centroids,
        areas @ members,
        None if problem.labels is None else parents[problem.labels].astype(np.int32),
        problem.differentiable,
        archive=CoarseArchive(problem.archive, parents),
    )


def lifted(search: Generator[Ask, Floats, Selection | Ranking], problem: Problem) -> Initialiser:
    """A search of the coarse regions as one of the fine ones."""
    parents = problem.parents
    assert parents is not None
    scores: Floats | None = None
    while True:
        try:
            ask = next(search) if scores is None else search.send(scores)
        except StopIteration as stop:
            return _lift(stop.value, parents)
        scores = yield replace(ask, rows=np.take(ask.rows, parents, axis=1), best=_lift(ask.best, parents))


def _lift(found: Found, parents: NDArray[np.intp]) -> Selection:
    assert isinstance(found, Selection)
    logits = None if found.logits is None else found.logits[:, parents]
    return replace(found, mask=found.mask[parents], logits=logits, local_optimum=False)
