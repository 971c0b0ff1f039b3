"""random-k: k regions drawn blindly, the control every initialiser must beat."""

import numpy as np

from whymask.objective import SUFFICIENCY, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Seed, check_k


def random_k(problem: Problem, *, k: int = 8, init_objective: Objective | str | float = SUFFICIENCY) -> Initialiser:
    """A uniformly drawn mask of exactly k regions, scored once."""
    check_k(k, problem.n)
    mask = np.zeros(problem.n, dtype=bool)
    mask[problem.rng().choice(problem.n, size=k, replace=False)] = True
    scores = yield Ask(mask[None], Objective.of(init_objective), "init", Seed(mask))
    return Seed(mask, float(scores[0]))
