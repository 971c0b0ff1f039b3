"""greedy-k: a mask grown one region at a time, the control at equal cost for every search of masks."""

import numpy as np

from whymask.search.limits import Count
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, check_k, extend, mask_of, ranking
from whymask.search.stage import stage


@stage(
    "mask",
    "a mask grown one region at a time, as a control",
    cost=lambda n, p: sum(min(n - t, p["candidates"] or n) for t in range(p["k"])),
)
def greedy_k(
    problem: Problem, *, k: Count = 8, candidates: Count | None = None, init_objective: AnyObjective = SUFFICIENCY
) -> Initialiser:
    """The first k regions of Greedy. `candidates` a step drawn blindly, instead of all, make it stochastic greedy."""
    check_k(k, problem.n)
    objective, rng = Objective.of(init_objective), problem.rng()
    placed: list[int] = []
    last = np.zeros(problem.n)
    best: Selection
    while len(placed) < k:
        live = [region for region in range(problem.n) if region not in placed]
        if candidates is not None and candidates < len(live):
            live = sorted(rng.choice(live, size=candidates, replace=False).tolist())
        stop_here = Selection(mask_of(ranking(placed, last, None).order[:k], problem.n))
        rows = extend(placed, live, problem.n)
        last[live] = scores = yield Ask(rows, objective, "init", stop_here)
        placed.append(live[int(np.argmax(scores))])
        best = Selection.best(rows, scores)
    return best
