"""EAGLE's efficient greedy search: short lists from both ends, all regions now and then (Chen et al., 2025)."""

import numpy as np

from whymask.baselines.regions import baseline
from whymask.search.limits import Count
from whymask.search.objective import SUFF_NECC, AnyObjective, Objective
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, extend


@baseline("greedy from both ends over a short list of candidates", cost=lambda n, p: n * (n + 1) // 3)
def eagle_efficient(
    problem: Problem,
    *,
    search_scope: Count = 10,
    pending_samples: Count = 8,
    update_step: Count = 5,
    objective: AnyObjective = SUFF_NECC,
) -> Continuation:
    """Place the best of a stale list's head first and the most dispensable of its tail last.

    Every `update_step` rounds all regions left are scored and sorted; between, only the first `search_scope` of them
    are. While more than `pending_samples` are left, each round also tries to remove each of the last ones from the
    image without the back; the removal that leaves the highest F joins the back. Round 0 removes the last of all.
    """
    objective = Objective.of(objective)
    front: list[int] = []
    back: list[int] = []
    live = list(range(problem.n))
    step = 0
    while live:  # candidates are asked for by index, so that ties go to the lowest
        update = step % update_step == 0
        head = sorted(live if update else live[:search_scope])
        stop_here = Ranking((*front, *live, *back), placed=len(front))
        scores = yield Ask(extend(front, head, problem.n), objective, "continue", stop_here)
        if update:
            live = [head[i] for i in np.argsort(-scores, kind="stable")]
        front.append(head[int(np.argmax(scores))])
        live.remove(front[-1])
        if step == 0 and live:
            back.insert(0, live.pop())
        elif step and len(live) > pending_samples:
            tail = sorted(live[-pending_samples:])
            without = ~extend(back, tail, problem.n)
            stop_here = Ranking((*front, *live, *back), placed=len(front))
            scores = yield Ask(without, objective, "continue", stop_here)
            back.insert(0, tail[int(np.argmax(scores))])
            live.remove(back[0])
        step += 1
    return Ranking((*front, *back))
