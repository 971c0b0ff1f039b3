"""others: further masks for the same answer that share few regions with the ones before."""

from dataclasses import replace
from functools import partial

import numpy as np

from whymask.arrays import Bools
from whymask.search.discs import compact_masks
from whymask.search.limits import Count, NonNegative, Rest
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, held
from whymask.search.stage import stage
from whymask.search.swap import exchange


@stage(
    "alternatives",
    "and further masks that share at most half of their regions",
    cost=lambda n, p: n + p["alternatives"] * p["other_tries"],
    races=True,
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
        taken = np.array([selection.mask, *(other.mask for other in found)])
        stop_here = replace(selection, others=tuple(found))
        if not found and problem.centroids is not None:  # the first mask's search may have looked in one place only
            yield Ask(compact_masks(problem, size, problem.n), objective, "init", stop_here)
        rows, scores = problem.archive.scored(objective)
        fits = (rows.sum(axis=1) == size) & ((rows[:, None] & taken[None]).sum(axis=2).max(axis=1) <= shared)
        if not fits.any():
            break
        top = int(np.argmax(np.where(fits, scores, -1)))
        start = Selection(rows[top], float(scores[top]))
        different = partial(_shares_few, taken, shared)
        search = exchange(problem, start, objective, other_tries, allowed=different)
        found.append((yield from held(search, stop_here)))
    best = max([selection, *found], key=lambda one: one.score or 0.0)
    return replace(best, others=tuple(one for one in [selection, *found] if one is not best))


def _shares_few(taken: Bools, shared: int, row: Bools) -> bool:
    """Whether a mask shares at most `shared` regions with each of those that are taken (m, n)."""
    return bool((taken & row).sum(axis=1).max() <= shared)
