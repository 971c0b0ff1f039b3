"""race: sets are scored on one fill after the other, and those that fall behind are dropped.

On a single fill all of them are scored on it, and that is all.
"""

from collections.abc import Generator

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.objective import Objective
from whymask.search.protocol import Ask, Problem, Selection

RACED = 0.25  # of the sets of a search by races, about, are scored on each fill after the first
THIRD = 1 / 3  # of the sets go on to the next fill, where there is no mask to beat


def race(
    problem: Problem,
    rows: Bools,
    objective: Objective,
    best: Selection,
    *,
    beat: Bools | None = None,
    first: int = 0,
) -> Generator[Ask, Floats, Selection | None]:
    """The best of some sets (B, n) over all fills, as far as a race can tell.

    With a mask to `beat`, (n,), which must have been scored on every fill, a set goes on to the next fill while its F
    on the fills so far is above the mask's; None comes back where no set is left. Without one, the better third goes
    on. `best` is what a search that ends here returns; fills are taken in turn, from number `first` on.
    """
    archive = problem.archive
    fills = [(first + number) % archive.fills for number in range(archive.fills)]
    for number, fill in enumerate(fills, 1):
        scores = yield Ask(rows, objective, "init", best, divisible=True, fills=(fill,))
        rows = rows[: len(scores)]
        if number > 1:
            scores = archive.score(rows, objective, fills[:number])
        if beat is not None:
            ahead = np.flatnonzero(scores > archive.score(beat[None], objective, fills[:number])[0])
        elif number < len(fills):
            ahead = np.sort(np.argsort(-scores, kind="stable")[: max(1, round(THIRD * len(rows)))])
        else:
            ahead = np.arange(len(rows))
        rows, scores = rows[ahead], scores[ahead]
        if not len(rows):
            return None
        if best.score is None:
            best = Selection(rows[int(np.argmax(scores))])  # the best so far, though not scored on every fill
    return Selection.best(rows, scores)
