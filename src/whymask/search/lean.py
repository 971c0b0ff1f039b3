"""lean: Greedy with fewer looks."""

import numpy as np

from whymask.search.limits import NonNegative, Proportion, Rest, Share
from whymask.search.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, Selection, begin, extend, mask_of, ranking
from whymask.search.stage import stage


@stage(
    "continuation",
    "greedy that scores fewer candidates: the best of the last step, and one side where the other is settled",
    cost=lambda n, p: n * (n + 1) // 4,
)
def lean(
    problem: Problem,
    selection: Selection | None = None,
    *,
    again: Proportion = 0.25,
    between: NonNegative = 3,
    at_once: Rest = 0.15,
    reached: Share = 0.95,
    settled: Rest = 0.02,
) -> Continuation:
    """Order all regions by 0.5 Suff + 0.5 Necc, after the prefix of `selection`, for a part of Greedy's forwards.

    A look at all regions that are left is followed by `between` looks at the share `again` of them with the best last
    scores; each look places one. While the rest of the image scores at most a share `settled` of the whole, removing
    more cannot tell regions apart, and only sufficiency is asked. While the kept regions score a share `reached` of it
    as well, every look is at all that are left and places a share `at_once` of them (at least one). Whenever one of
    the two changes, the next look is at all of them.
    """
    n = problem.n
    placed, live, last = begin(problem, selection)
    whole = np.ones(n, dtype=bool)
    response = problem.archive.response
    looks, before = 0, None  # since the last one at all regions, and what was true then
    yield Ask(whole[None], SUFF_NECC, "continue", ranking(placed, last, selection))
    while live:
        here = mask_of(placed, n)
        yield Ask(here[None], SUFF_NECC, "continue", ranking(placed, last, selection))
        gone, full = response(~here) <= settled * response(whole), response(here) >= reached * response(whole)
        narrow = (gone, full) == before and looks < between and not (gone and full)
        looked = live
        if narrow:
            looked = sorted(live, key=lambda region: -last[region])[: max(1, round(again * len(live)))]
        looks, before = looks + 1 if narrow else 0, (gone, full)
        objective = SUFFICIENCY if gone else SUFF_NECC
        scores = yield Ask(extend(placed, looked, n), objective, "continue", ranking(placed, last, selection))
        last[looked] = scores
        count = max(1, round(at_once * len(live))) if gone and full else 1
        chosen = [looked[i] for i in np.argsort(-scores, kind="stable")[:count]]
        placed += chosen
        live = [region for region in live if region not in chosen]
    return Ranking(tuple(placed), selection)
