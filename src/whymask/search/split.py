"""split: the coarse regions of a mask are split, and the parts exchanged at the same area."""

from dataclasses import replace

import numpy as np

from whymask.arrays import Bools
from whymask.search.limits import NonNegative
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Initialiser, Problem, Selection, held
from whymask.search.race import RACED
from whymask.search.stage import stage
from whymask.search.swap import exchange

SLACK = 0.01  # of the mask's area: what exchanges of regions of unlike area may add to it


@stage(
    "split",
    "its regions split and their parts exchanged at the same area",
    cost=lambda n, p: p["split_tries"],
    needs="nested",
    further=RACED,
)
def split(
    problem: Problem,
    selection: Selection,
    *,
    split_tries: NonNegative = 160,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """A mask of fine regions that covers no more than the one of coarse regions that it starts from; never a worse one.

    Up to `split_tries` exchanges are scored, as swap does it; what was scored on the coarse regions guides them.
    """
    areas = np.full(problem.n, 1 / problem.n) if problem.areas is None else problem.areas
    most = (1 + SLACK) * float(areas[selection.mask].sum())

    def allowed(row: Bools) -> bool:
        return bool(areas[row].sum() <= most)

    search = exchange(problem, selection, Objective.of(init_objective), split_tries, allowed=allowed)
    found = yield from held(search, goal=selection.goal)
    return replace(found, goal=selection.goal)
