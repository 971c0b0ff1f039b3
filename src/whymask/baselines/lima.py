"""The bidirectional greedy search of LIMA: every round finds the best and the worst region (Chen et al., 2025)."""

import numpy as np

from whymask.baselines.regions import baseline
from whymask.search.objective import SUFF_NECC, AnyObjective, Objective
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, extend


@baseline("greedy from both ends: the best first, the worst last", cost=lambda n, p: n * (n + 2) // 2)
def lima_bidirectional(problem: Problem, *, objective: AnyObjective = SUFF_NECC) -> Continuation:
    """Score all regions left; the best joins the front, the worst the back: n(n + 2) / 2 forwards for even n.

    The published code takes best and worst by different scores and may place one region twice; here both go by F.
    """
    objective = Objective.of(objective)
    front: list[int] = []
    back: list[int] = []
    live = list(range(problem.n))
    while live:
        stop_here = Ranking((*front, *live, *back), placed=len(front))
        scores = yield Ask(extend(front, live, problem.n), objective, "continue", stop_here)
        ranked = [live[i] for i in np.argsort(-scores, kind="stable")]
        front.append(ranked[0])
        back[:0] = ranked[1:][-1:]
        live = sorted(ranked[1:-1])
    return Ranking((*front, *back))
