"""blank: no region at all, the control that shows what an empty image is answered."""

import numpy as np

from whymask.search.protocol import Initialiser, Problem, Selection


def blank(problem: Problem) -> Initialiser:
    """The empty mask, for no forwards."""
    yield from ()
    return Selection(np.zeros(problem.n, dtype=bool))
