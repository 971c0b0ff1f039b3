"""random-k: k regions drawn blindly, the control every initialiser must beat."""

import numpy as np

from whymask.search.limits import Count
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, check_k
from whymask.search.stage import stage


@stage("mask", "k random regions, as a control", cost=lambda n, p: p["draws"])
def random_k(
    problem: Problem, *, k: Count = 8, draws: Count = 1, init_objective: AnyObjective = SUFFICIENCY
) -> Initialiser:
    """The best of `draws` uniformly drawn masks of exactly k regions."""
    check_k(k, problem.n)
    rng = problem.rng()
    rows = np.zeros((draws, problem.n), dtype=bool)
    for row in rows:
        row[rng.choice(problem.n, size=k, replace=False)] = True
    scores = yield Ask(rows, Objective.of(init_objective), "init", Selection(rows[0]), divisible=True)
    return Selection.best(rows, scores)
