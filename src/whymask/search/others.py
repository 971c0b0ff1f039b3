"""others: further masks for the same answer that share few regions with the ones before."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.discs import compact_masks
from whymask.search.limits import Count, NonNegative, Rest
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Initialiser, Problem, Selection
from whymask.search.race import RACED, race
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate
from whymask.search.swap import exchange

LIKELIEST = 24  # discs that race to begin another mask


@stage(
    "alternatives",
    "and further masks that share at most half of their regions",
    cost=lambda n, p: n + p["alternatives"] * p["other_tries"],
    further=RACED,
)
def others(
    problem: Problem,
    selection: Selection,
    *,
    alternatives: Count = 2,
    overlap: Rest = 0.5,
    other_tries: NonNegative = 96,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """The mask, and up to `alternatives` more that share at most a share `overlap` of their regions with any before.

    Each starts from the best set scored so far that is different enough, or from the best such disc, and is refined by
    exchanges that keep it different. Everything scored before, for the first mask too, guides the search.
    """
    objective = Objective.of(init_objective)
    size = int(selection.mask.sum())
    shared = int(overlap * size)
    found: list[Selection] = []
    for _ in range(alternatives):
        different = partial(_shares_few, np.array([selection.mask, *(other.mask for other in found)]), shared)
        # The first mask's search may have looked in one place only; on several fills its race scored one disc on all.
        if problem.centroids is not None and (not found or problem.archive.fills > 1):
            compact = np.array([row for row in compact_masks(problem, size, problem.n) if different(row)])
            if len(compact):
                if problem.archive.fills > 1:
                    compact = _likeliest(problem, compact, objective, selection)
                yield from race(problem, compact, objective, replace(selection, others=tuple(found)))
        rows, scores = problem.archive.scored(objective)
        fits = np.array([int(row.sum()) == size and different(row) for row in rows])
        if not fits.any():
            break
        top = int(np.argmax(np.where(fits, scores, -1)))
        start = Selection(rows[top], float(scores[top]))
        search = exchange(problem, start, objective, other_tries, allowed=different)
        found.append((yield from _beside(search, selection, found)))
    best = max([selection, *found], key=lambda one: one.score or 0.0)
    return replace(best, others=tuple(one for one in [selection, *found] if one is not best))


def _likeliest(problem: Problem, compact: Bools, objective: Objective, selection: Selection) -> Bools:
    """The discs that score most by what is known so far: a race of all would take the budget of the masks."""
    learned = Surrogate.of(problem, objective)
    learned.fit(problem.archive, selection.mask)
    return compact[np.sort(np.argsort(-learned.expected(compact), kind="stable")[:LIKELIEST])]


def _beside(search: Initialiser, selection: Selection, found: Sequence[Selection]) -> Initialiser:
    """A search for one more mask; stopped early, it gives the masks before and what it has found."""
    scores: Floats | None = None
    while True:
        try:
            ask = next(search) if scores is None else search.send(scores)
        except StopIteration as stop:
            another: Selection = stop.value
            return another
        assert isinstance(ask.best, Selection)
        scores = yield replace(ask, best=replace(selection, others=(*found, ask.best)))


def _shares_few(taken: Bools, shared: int, row: Bools) -> bool:
    """Whether a mask shares at most `shared` regions with each of those that are taken (m, n)."""
    return bool((taken & row).sum(axis=1).max() <= shared)
