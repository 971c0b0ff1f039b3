"""Lean greedy: an ordering by Greedy that scores fewer candidates."""

import numpy as np

from whymask.search.limits import NonNegative, Proportion, Rest, Share
from whymask.search.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, Selection, begin, extend, mask_of, ranking
from whymask.search.stage import stage


@stage(
    "continuation",
    "greedy with fewer candidates: only the best of the last step, and one side once the other is settled",
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

    A step that scores all remaining regions is followed by `between` steps that score the share `again` of them with
    the best last scores; each step places one region. While the complement scores at most a share `settled` of the
    whole image, removing more of it cannot distinguish regions, and only sufficiency is scored. While, in addition, the
    kept regions score a share `reached` of the whole image, every step scores all remaining regions and places a share
    `at_once` of them (at least one). Whenever one of the two conditions changes, the next step scores all regions.
    """
    n = problem.n
    placed, live, last = begin(problem, selection)
    whole = np.ones(n, dtype=bool)
    response = problem.archive.response
    steps, before = 0, None  # since the last one that scored all regions, and the conditions then
    yield Ask(whole[None], SUFF_NECC, "continue", ranking(placed, last, selection))
    while live:
        here = mask_of(placed, n)
        yield Ask(here[None], SUFF_NECC, "continue", ranking(placed, last, selection))
        gone, full = response(~here) <= settled * response(whole), response(here) >= reached * response(whole)
        narrow = (gone, full) == before and steps < between and not (gone and full)
        scored = live
        if narrow:
            scored = sorted(live, key=lambda region: -last[region])[: max(1, round(again * len(live)))]
        steps, before = steps + 1 if narrow else 0, (gone, full)
        objective = SUFFICIENCY if gone else SUFF_NECC
        scores = yield Ask(extend(placed, scored, n), objective, "continue", ranking(placed, last, selection))
        last[scored] = scores
        count = max(1, round(at_once * len(live))) if gone and full else 1
        chosen = [scored[i] for i in np.argsort(-scores, kind="stable")[:count]]
        placed += chosen
        live = [region for region in live if region not in chosen]
    return Ranking(tuple(placed), selection)
