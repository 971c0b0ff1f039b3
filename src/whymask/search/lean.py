"""lean: Greedy that asks only what can still change the order."""

from __future__ import annotations

import numpy as np

from whymask.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.limits import Rest
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, Seed, extend, first_guess, mask_of, ranking


def lean(problem: Problem, seed: Seed | None = None, *, at_once: Rest = 0.12, settled: Rest = 0.02) -> Continuation:
    """Order all regions by 0.5 Suff + 0.5 Necc, after the prefix of `seed`, for a part of Greedy's forwards.

    Once the rest of the image scores at most a share `settled` of the whole, removing more cannot tell regions apart:
    from then on only sufficiency is asked, and every look at all regions that are left places the best of them, a
    share `at_once` of them (at least one).
    """
    n = problem.n
    placed = list(seed.prefix) if seed else []
    live = [region for region in range(n) if region not in placed]
    last = first_guess(problem, seed)
    here, everything = mask_of(placed, n), np.ones(n, dtype=bool)
    yield Ask(np.stack([here, everything]), SUFF_NECC, "continue", ranking(placed, last, seed))
    response = problem.archive.response
    nothing = settled * response(everything)
    gone = response(~here) <= nothing
    while live:
        objective = SUFFICIENCY if gone else SUFF_NECC
        scores = yield Ask(extend(placed, live, n), objective, "continue", ranking(placed, last, seed))
        last[live] = scores
        count = max(1, round(at_once * len(live))) if gone else 1
        best = [live[i] for i in np.argsort(-scores, kind="stable")[:count]]
        placed += best
        live = [region for region in live if region not in best]
        gone = gone or response(~mask_of(placed, n)) <= nothing
    return Ranking(tuple(placed), seed)
