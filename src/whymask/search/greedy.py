"""Greedy: place the region that helps most, score all that are left again, repeat."""

import numpy as np

from whymask.search.objective import SUFF_NECC, AnyObjective, Objective
from whymask.search.protocol import Ask, Continuation, Problem, Selection, begin, extend, ranking
from whymask.search.stage import stage


@stage(
    "continuation",
    "places the best of all remaining regions, one at a time",
    cost=lambda n, p: n * (n + 1) - 2 * n * p["placed"],
)
def greedy(
    problem: Problem, selection: Selection | None = None, *, objective: AnyObjective = SUFF_NECC
) -> Continuation:
    """Order all regions by greedy insertion, after the prefix of `selection` if there is one (Eq. 3).

    From r placed regions this asks for (n - r)(n - r + 1) / 2 sets.
    """
    objective = Objective.of(objective)
    placed, live, last = begin(problem, selection)
    while live:
        rows = extend(placed, live, problem.n)
        nothing_known = selection is None and not placed  # else an order by last scores beats a choice among few
        scores = yield Ask(rows, objective, "continue", ranking(placed, last, selection), divisible=nothing_known)
        last[live[: len(scores)]] = scores
        placed.append(live.pop(int(np.argmax(scores))))
    return ranking(placed, last, selection)
