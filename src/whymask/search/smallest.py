"""smallest: no k to guess. The fewest regions that keep a share of the whole image's score."""

from dataclasses import replace

import numpy as np

from whymask.errors import WhymaskError
from whymask.search.discs import compact_masks, discs
from whymask.search.limits import Count, Proportion
from whymask.search.narrow import narrow
from whymask.search.nested import coarse, lifted
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, held
from whymask.search.race import race
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate
from whymask.search.swap import POOL, SPREADS, exchange

START = 8  # regions of the first masks
QUARTER = 0.25  # of its regions, at first, that a mask loses or gains at once
TOGETHER = 16  # masks scored at once


@stage(
    "mask",
    "the fewest regions that keep 90% of the whole image's score",
    cost=lambda n, p: 65 + int(0.7 * n**0.5 * p["tries"]),  # discs and narrowing, a few sizes
    further=0.4,  # more than RACED, since narrowing scores every set on every fill
)
def smallest(
    problem: Problem,
    *,
    share: Proportion = 0.9,
    enough: Proportion | None = None,
    k_max: Count | None = None,
    tries: Count = 40,
) -> Initialiser:
    """The smallest mask found whose score reaches `share` of the full score, or `enough` where that is given.

    Where no disc of 8 regions is sufficient, the whole image is narrowed down to a mask that is. That mask then loses
    regions, a quarter of them at first: up to `tries` masks of the smaller size are scored, and the first sufficient
    one loses regions in turn. Where there is none, half as many are taken away; the search ends where not even one can
    be. Of nested regions the coarse ones are searched first, and their mask then loses parts of them. Where not even
    the whole image is sufficient, a disc is exchanged for better masks and gains regions until one is. Where no mask of
    up to `k_max` regions is sufficient, the best one comes back. Whether the goal was reached, and the best score at
    every size, can be read from the result.
    """
    if problem.parents is not None:
        if k_max is not None:
            raise WhymaskError("k_max is for regions that are not nested: leave it out, or use 'slico:64'.")
        search = smallest(coarse(problem), share=share, enough=enough, tries=tries)
        found = yield from lifted(search, problem)
        assert found.goal is not None
        if _score(found) < found.goal:
            return found
        return (yield from _shrunk(problem, found, found, found.goal, problem.n, tries))
    most = problem.n if k_max is None else min(k_max, problem.n)
    whole = np.ones(problem.n, dtype=bool)
    first = compact_masks(problem, min(START, most), 1)[0]
    full = float((yield Ask(whole[None], SUFFICIENCY, "init", Selection(first)))[0])
    goal = share * full if enough is None else enough
    found = best = yield from held(discs(problem, k=min(START, most)), goal=goal)
    if _score(best) < goal <= full:
        found = yield from held(narrow(problem, Selection(whole, full), goal), best, goal=goal)
    elif _score(best) < goal:  # the whole image is not sufficient either, but masks may score more than it does
        found = best = yield from held(exchange(problem, best, SUFFICIENCY, 2 * tries, enough=goal), goal=goal)
        while _score(found) < goal and found.mask.sum() < most:
            larger = _larger(problem, found, most)
            found = yield from held(exchange(problem, larger, SUFFICIENCY, tries, enough=goal), best, goal=goal)
            best = max(best, found, key=_score)
    if _score(found) < goal:
        return replace(best, goal=goal)
    return (yield from _shrunk(problem, found, best, goal, most, tries))


def _shrunk(problem: Problem, found: Selection, best: Selection, goal: float, most: int, tries: int) -> Initialiser:
    """The smallest mask found by taking regions from one that reaches the goal; of at most `most` regions the best."""
    fewer = problem.n
    while fewer:
        size = int(found.mask.sum())
        best = found if size <= most else best
        fewer = min(fewer, max(1, round(QUARTER * size)), size - 1)
        if fewer:
            smaller = yield from held(_smaller(problem, found, fewer, goal, tries), best, goal=goal)
            if _score(smaller) >= goal:
                found = smaller
            else:
                fewer //= 2
    if found.mask.sum() > most:
        yield from held(_smaller(problem, found, int(found.mask.sum()) - most, goal, tries), best, goal=goal)
        rows, scores = problem.archive.scored(SUFFICIENCY)
        sizes = rows.sum(axis=1)
        best = Selection.best(rows, np.where((sizes >= 1) & (sizes <= most), scores, -1))
    return replace(best, goal=goal)


def _smaller(problem: Problem, selection: Selection, fewer: int, goal: float, tries: int) -> Initialiser:
    """The first mask of `fewer` regions less that reaches the goal, or the best of `tries`.

    First without the regions that the scored sets support least, then with exchanges.
    """
    surrogate = _learned(problem, selection)
    inside = np.flatnonzero(selection.mask)
    weights = np.concatenate([surrogate.slope[None], surrogate.draw(POOL * TOGETHER, SPREADS[0], problem.rng())])
    rows = np.repeat(selection.mask[None], len(weights), axis=0)
    np.put_along_axis(rows, inside[np.argsort(weights[:, inside], axis=1, kind="stable")[:, :fewer]], False, axis=1)
    rows = np.array([*{row.tobytes(): row for row in rows}.values()])
    likeliest = np.argsort(-surrogate.expected(rows), kind="stable")
    some = rows[np.sort(likeliest[: min(TOGETHER, tries)])]
    found = yield from race(problem, some, SUFFICIENCY, selection)
    assert found is not None
    return (yield from exchange(problem, found, SUFFICIENCY, tries - len(some), TOGETHER, enough=goal))


def _larger(problem: Problem, selection: Selection, most: int) -> Selection:
    """The mask and a quarter more regions, but no more than `most`: those that the scored sets support most."""
    size = int(selection.mask.sum())
    outside = np.flatnonzero(~selection.mask)
    outside = outside[np.argsort(-_learned(problem, selection).slope[outside], kind="stable")]
    row = selection.mask.copy()
    row[outside[: min(max(1, round(QUARTER * size)), most - size)]] = True
    return Selection(row)


def _learned(problem: Problem, selection: Selection) -> Surrogate:
    """What all scored sets say about the regions of and around a mask."""
    surrogate = Surrogate.of(problem, SUFFICIENCY)
    surrogate.fit(problem.archive, selection.mask)
    return surrogate


def _score(selection: Selection) -> float:
    assert selection.score is not None
    return selection.score
