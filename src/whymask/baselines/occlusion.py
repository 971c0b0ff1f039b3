"""Occlusion: what the score loses when one region is masked (Zeiler and Fergus, 2014)."""

import numpy as np

from whymask.baselines.regions import baseline, by_values
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem


@baseline("what the score loses without each region", cost=lambda n, p: n + 1)
def occlusion(problem: Problem) -> Continuation:
    """Order regions by f(U) - f(U minus region): n + 1 forwards."""
    rows = np.concatenate([np.ones((1, problem.n), dtype=bool), ~np.eye(problem.n, dtype=bool)])
    full, *without = yield Ask(rows, SUFFICIENCY, "continue", by_values(problem, np.zeros(problem.n)))
    return by_values(problem, full - np.array(without))
