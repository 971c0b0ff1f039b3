"""smallest: no k to guess. The fewest regions that keep a share of the whole image's score."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from whymask.objective import SUFFICIENCY, Bools
from whymask.search.discs import compact_masks, discs
from whymask.search.limits import Count, Part, Whole
from whymask.search.protocol import Ask, Initialiser, Problem, Ranking, Seed, extend, held
from whymask.search.surrogate import Surrogate
from whymask.search.swap import exchange

START = 8  # regions of the first mask
ADDED = 12  # regions tried when a mask must grow
REFINED = 24  # exchanges tried at each further size


def smallest(
    problem: Problem, *, share: Part = 0.9, enough: Part | None = None, k_max: Count = 24, tries: Whole = 136
) -> Initialiser:
    """The smallest mask found whose score reaches `share` of the full score, or `enough` where that is given.

    A mask of 8 regions is searched for as discs+swap does, with `tries` exchanges. Where it is sufficient it loses
    regions one by one, else it gains them up to `k_max`; some exchanges are tried at every size. Where no mask reaches
    the goal, the best one comes back. Whether the goal was reached, and the best score at every size, can be read from
    the result.
    """
    most = min(k_max, problem.n)
    first = compact_masks(problem, min(START, most), 1)[0]
    full = yield Ask(np.ones((1, problem.n), dtype=bool), SUFFICIENCY, "init", Seed(first))
    goal = share * float(full[0]) if enough is None else enough
    best = seed = yield from held(_first(problem, min(START, most), tries, goal), partial(_with, goal=goal))
    while _score(seed) < goal and seed.mask.sum() < most:
        seed = yield from held(_best_of(problem, _larger(problem, seed), goal), partial(_instead, best=best))
        best = max(best, seed, key=_score)
    while _score(seed) >= goal:
        best = seed
        if seed.mask.sum() == 1:
            break
        seed = yield from held(_best_of(problem, _smaller(seed), goal), partial(_instead, best=best))
    return best


def _first(problem: Problem, k: int, tries: int, goal: float) -> Initialiser:
    """The mask to grow or shrink, as discs+swap finds it."""
    seed = yield from discs(problem, k=k)
    return _with((yield from exchange(problem, seed, SUFFICIENCY, tries)), goal)


def _with(found: Seed | Ranking, goal: float) -> Seed:
    assert isinstance(found, Seed)
    return replace(found, goal=goal)


def _instead(_: Seed | Ranking, best: Seed) -> Seed:
    return best


def _best_of(problem: Problem, rows: Bools, goal: float) -> Initialiser:
    """The best of these masks, refined by some exchanges."""
    scores = yield Ask(rows, SUFFICIENCY, "init", Seed(rows[0]))
    top = int(np.argmax(scores))
    seed = yield from exchange(problem, Seed(rows[top], float(scores[top])), SUFFICIENCY, REFINED)
    return replace(seed, goal=goal)


def _larger(problem: Problem, seed: Seed) -> Bools:
    """The mask and one more region, for those that the scored sets speak for most."""
    surrogate = Surrogate(problem, SUFFICIENCY)
    surrogate.fit(*problem.archive.near(SUFFICIENCY, seed.mask), seed.mask)
    outside = np.flatnonzero(~seed.mask)
    outside = outside[np.argsort(-surrogate.mean[outside], kind="stable")][:ADDED]
    return extend(np.flatnonzero(seed.mask).tolist(), outside.tolist(), problem.n)


def _smaller(seed: Seed) -> Bools:
    """The mask without each of its regions."""
    inside = np.flatnonzero(seed.mask)
    rows = np.repeat(seed.mask[None], len(inside), axis=0)
    rows[np.arange(len(inside)), inside] = False
    return rows


def _score(seed: Seed) -> float:
    assert seed.score is not None
    return seed.score
