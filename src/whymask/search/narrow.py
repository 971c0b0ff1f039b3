"""Narrow a sufficient mask down to a small part that is still sufficient: group testing by removal.

Some models score nothing until all of the right few regions are kept. Then only large masks give a signal.
"""

import numpy as np

from whymask.arrays import Bools
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Initialiser, Problem, Selection

GROUPS = 16  # groups that a mask is first cut into


def narrow(problem: Problem, selection: Selection, goal: float) -> Initialiser:
    """A part of a mask that reaches the goal, found by removing groups of neighbouring regions.

    The mask is cut into 16 groups, and the rest of the mask is scored without each of them. All groups that can be
    spared are removed at once; if that is too much, bisection finds how many can go, cheapest first. What is left is
    cut into smaller groups, down to single regions. If a few regions are needed only together (a conjunction), exactly
    these are left, for about 17 forwards a round.
    """
    count = GROUPS
    while True:
        groups = cut(problem, selection.mask, count)
        whole = selection.mask
        scores = yield Ask(whole & ~groups, SUFFICIENCY, "init", selection)
        spared = groups[np.argsort(-scores, kind="stable")[: int((scores >= goal).sum())]]
        removed, high = 0, min(len(spared), len(groups) - 1)  # something is kept
        middle = high  # all of them at first
        while removed < high:
            row = whole & ~spared[:middle].any(axis=0)
            score = float((yield Ask(row[None], SUFFICIENCY, "init", selection))[0])
            if score >= goal:
                selection, removed = Selection(row, score), middle
            else:
                high = middle - 1
            middle = (removed + high + 1) // 2
        if len(groups) == whole.sum():
            return selection
        count = GROUPS if removed else 2 * count


def cut(problem: Problem, mask: Bools, count: int) -> Bools:
    """The regions of a mask (n,) in at most `count` groups of neighbours (., n), by halving the largest repeatedly.

    Halves have the same number of regions and lie side by side along the longer side of the group.
    """
    assert problem.centroids is not None
    parts = [np.flatnonzero(mask)]
    while len(parts) < min(count, int(mask.sum())):
        at = max(range(len(parts)), key=lambda i: len(parts[i]))
        centres = problem.centroids[parts[at]]
        axis = int(np.argmax(np.ptp(centres, axis=0)))
        along = parts[at][np.argsort(centres[:, axis], kind="stable")]
        parts[at : at + 1] = [along[: len(along) // 2], along[len(along) // 2 :]]
    groups = np.zeros((len(parts), problem.n), dtype=bool)
    for group, part in zip(groups, parts, strict=True):
        group[part] = True
    return groups
