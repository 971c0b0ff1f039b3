"""smallest: no k to guess. The fewest regions that keep a share of the whole image's score."""

from dataclasses import replace

import numpy as np

from whymask.arrays import Bools
from whymask.search.discs import compact_masks, discs
from whymask.search.limits import Count, NonNegative, Proportion
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, extend, held
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate
from whymask.search.swap import exchange

START = 8  # regions of the first mask
ADDED = 12  # regions tried when a mask must grow
REFINED = 24  # exchanges tried at each further size


@stage(
    "mask", "the fewest regions that keep 90 % of the whole image's score", cost=lambda n, p: p["tries"] + 25 + 8 * 36
)
def smallest(
    problem: Problem,
    *,
    share: Proportion = 0.9,
    enough: Proportion | None = None,
    k_max: Count = 24,
    tries: NonNegative = 136,
) -> Initialiser:
    """The smallest mask found whose score reaches `share` of the full score, or `enough` where that is given.

    A mask of 8 regions is searched for as discs+swap does, with `tries` exchanges. Where it is sufficient it loses
    regions one by one, else it gains them up to `k_max`; some exchanges are tried at every size. Where no mask reaches
    the goal, the best one comes back. Whether the goal was reached, and the best score at every size, can be read from
    the result.
    """
    most = min(k_max, problem.n)
    first = compact_masks(problem, min(START, most), 1)[0]
    full = yield Ask(np.ones((1, problem.n), dtype=bool), SUFFICIENCY, "init", Selection(first))
    goal = share * float(full[0]) if enough is None else enough
    best = selection = yield from held(_first(problem, min(START, most), tries), goal=goal)
    while _score(selection) < goal and selection.mask.sum() < most:
        selection = yield from held(_best_of(problem, _larger(problem, selection)), best, goal=goal)
        best = max(best, selection, key=_score)
    while _score(selection) >= goal:
        best = selection
        if selection.mask.sum() == 1:
            break
        selection = yield from held(_best_of(problem, _smaller(selection)), best, goal=goal)
    return replace(best, goal=goal)


def _first(problem: Problem, k: int, tries: int) -> Initialiser:
    """The mask to grow or shrink, as discs+swap finds it."""
    selection = yield from discs(problem, k=k)
    return (yield from exchange(problem, selection, SUFFICIENCY, tries))


def _best_of(problem: Problem, rows: Bools) -> Initialiser:
    """The best of these masks, refined by some exchanges."""
    scores = yield Ask(rows, SUFFICIENCY, "init", Selection(rows[0]))
    return (yield from exchange(problem, Selection.best(rows, scores), SUFFICIENCY, REFINED))


def _larger(problem: Problem, selection: Selection) -> Bools:
    """The mask and one more region, for those that the scored sets speak for most."""
    surrogate = Surrogate(problem, SUFFICIENCY)
    surrogate.fit(*problem.archive.near(SUFFICIENCY, selection.mask), selection.mask)
    outside = np.flatnonzero(~selection.mask)
    outside = outside[np.argsort(-surrogate.mean[outside], kind="stable")][:ADDED]
    return extend(np.flatnonzero(selection.mask).tolist(), outside.tolist(), problem.n)


def _smaller(selection: Selection) -> Bools:
    """The mask without each of its regions."""
    inside = np.flatnonzero(selection.mask)
    rows = np.repeat(selection.mask[None], len(inside), axis=0)
    rows[np.arange(len(inside)), inside] = False
    return rows


def _score(selection: Selection) -> float:
    assert selection.score is not None
    return selection.score
