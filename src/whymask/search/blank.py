"""blank: no region at all, the control that shows what an empty image is answered."""

import numpy as np

from whymask.search.protocol import Initialiser, Problem, Selection
from whymask.search.stage import stage


@stage("control", "no region, as a control", cost=lambda n, p: 0)
def blank(problem: Problem) -> Initialiser:
    """The empty mask, for no forwards."""
    yield from ()
    return Selection(np.zeros(problem.n, dtype=bool))
