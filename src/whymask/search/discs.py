"""discs: the best of a few compact masks, spread over the image. Evidence is mostly in one place."""

import numpy as np

from whymask.arrays import Bools
from whymask.errors import WhymaskError
from whymask.search.limits import Count
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Initialiser, Problem, Selection, check_k
from whymask.search.race import RACED, race
from whymask.search.stage import stage


@stage(
    "mask",
    "the best of a few compact masks of k regions, spread over the image",
    cost=lambda n, p: p["centres"],
    further=RACED,
)
def discs(
    problem: Problem, *, k: Count = 8, centres: Count = 24, init_objective: AnyObjective = SUFFICIENCY
) -> Initialiser:
    """The best of `centres` masks, each a region and the k - 1 nearest to it; centres lie far from each other."""
    check_k(k, problem.n)
    rows = compact_masks(problem, k, centres)
    found = yield from race(problem, rows, Objective.of(init_objective), Selection(rows[0]))
    assert found is not None
    return found


def compact_masks(problem: Problem, k: int, count: int) -> Bools:
    """At most `count` masks (., n): discs of k regions, the first centre drawn, each next the farthest from all."""
    if (apart := problem.apart()) is None:
        raise WhymaskError("discs are made of neighbouring regions: pass centroids, an (n, 2) array of (x/W, y/H).")
    chosen = [int(problem.rng().integers(problem.n))]
    while len(chosen) < min(count, problem.n):
        chosen.append(int(np.argmax(apart[chosen].min(axis=0))))
    nearest = np.argsort(apart[chosen], axis=1, kind="stable")[:, :k]
    rows = np.zeros((len(chosen), problem.n), dtype=bool)
    np.put_along_axis(rows, nearest, True, axis=1)
    return np.unique(rows, axis=0)
