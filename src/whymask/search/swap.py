"""swap: exchange regions of a mask for better ones, guided by every set scored so far."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats
from whymask.search.limits import Count, NonNegative
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection
from whymask.search.race import RACED, race
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate

LARGEST = 3  # regions exchanged at once
TOGETHER = 16  # exchanges scored at once
POOL = 8  # exchanges that are compared for each one that is scored
SPREADS = (0.5, 1.0, 2.0)  # of the noise that exchanges are drawn with: more where the likely ones are known

Allowed: TypeAlias = Callable[[Bools], bool]
"""Whether a mask (n,) may be proposed."""


@stage("refinement", "made better by exchanging regions", cost=lambda n, p: p["tries"], further=RACED)
def swap(
    problem: Problem,
    selection: Selection,
    *,
    tries: NonNegative = 136,
    together: Count = TOGETHER,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """A better mask of the same size, found by exchanges; never a worse one.

    Up to `tries` masks are scored, `together` at a time; the default makes discs+swap cost what trace costs. They
    differ from the best mask by one to three exchanges, and are those with the highest expected improvement under a
    surrogate of everything scored so far. The search ends early if every exchange of one region has been tried: the
    mask is then a local optimum (`Selection.local_optimum`).
    """
    return (yield from exchange(problem, selection, Objective.of(init_objective), tries, together))


def exchange(
    problem: Problem,
    selection: Selection,
    objective: Objective,
    tries: int,
    together: int = TOGETHER,
    allowed: Allowed | None = None,
    enough: float = inf,
) -> Initialiser:
    """`swap` for the other searches.

    Masks that are not `allowed` are left out. The search ends with the first mask that scores `enough`.
    """
    rng, surrogate = problem.rng(), Surrogate.of(problem, objective)
    size = int(selection.mask.sum())
    if selection.score is None:
        selection = replace(selection, score=float((yield Ask(selection.mask[None], objective, "init", selection))[0]))
    assert selection.score is not None
    for turn in count():
        assert selection.score is not None
        if tries <= 0 or selection.score >= enough:
            break
        surrogate.fit(problem.archive, selection.mask)
        tried = problem.archive.known(objective)
        known = {row.tobytes() for row in tried[tried.sum(axis=1) == size]}
        proposed = propose(selection.mask, surrogate, known, min(together, tries), rng, allowed)
        if not len(proposed) or all_tried(selection.mask, known):
            # Where a race dropped an exchange after some of the fills, the others might have shown it to be better.
            return replace(selection, local_optimum=problem.archive.fills == 1)
        tries -= len(proposed)
        found = yield from race(problem, proposed, objective, selection, beat=selection.mask, first=turn)
        if found is not None:
            selection = replace(found, logits=selection.logits)
    return selection


def propose(
    mask: Bools,
    surrogate: Surrogate,
    known: set[bytes],
    count: int,
    rng: np.random.Generator,
    allowed: Allowed | None = None,
) -> Bools:
    """At most `count` masks (., n) not known yet: those of a pool of exchanges that are expected to gain most."""
    pool: dict[bytes, Bools] = {}

    def add(rows: Bools) -> None:
        for row in rows:
            key = row.tobytes()
            if len(pool) < POOL * count and key not in known and (allowed is None or allowed(row)):
                pool.setdefault(key, row)

    for spread in SPREADS:
        if len(pool) < POOL * count:
            add(exchanged(mask, surrogate.draw(2 * POOL * count, spread, rng), rng))
    if len(pool) < count:
        add(single_exchanges(mask, surrogate.slope))
    rows = np.array([*pool.values()], dtype=bool).reshape(-1, len(mask))
    if len(rows) <= count:
        return rows
    return rows[np.sort(np.argsort(-surrogate.expected_gain(rows), kind="stable")[:count])]


def exchanged(mask: Bools, weights: Floats, rng: np.random.Generator) -> Bools:
    """For each weights of the regions, (m, n), the best mask by them that differs by one to three exchanges."""
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    most = min(LARGEST, len(inside), len(outside))
    rows = np.repeat(mask[None], len(weights), axis=0)
    if not most:
        return rows
    out, into = inside[lowest(weights[:, inside], most)], outside[lowest(-weights[:, outside], most)]
    gains = np.take_along_axis(weights, into, axis=1) > np.take_along_axis(weights, out, axis=1)
    gains[:, 0] = True  # one exchange in any case
    gains &= np.arange(most) < rng.integers(1, most + 1, (len(weights), 1))
    each, number = np.nonzero(gains)
    rows[each, out[each, number]] = False
    rows[each, into[each, number]] = True
    return rows


def all_tried(mask: Bools, known: set[bytes]) -> bool:
    """Whether every exchange of one region leads to a known mask."""
    if len(known) < mask.sum() * (~mask).sum():
        return False
    return all(row.tobytes() in known for row in single_exchanges(mask, np.zeros(len(mask))))


def lowest(values: Floats, count: int) -> NDArray[np.intp]:
    """The columns of the lowest values of each row of a table (m, n), lowest first, (m, count)."""
    some = np.argpartition(values, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(values, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)


def single_exchanges(mask: Bools, weights: Floats) -> Bools:
    """All k (n - k) masks that differ by one exchange, the likeliest gains first."""
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    old, new = np.repeat(inside, len(outside)), np.tile(outside, len(inside))
    best_first = np.argsort(weights[old] - weights[new], kind="stable")
    rows = np.repeat(mask[None], len(old), axis=0)
    rows[np.arange(len(old)), old[best_first]] = False
    rows[np.arange(len(old)), new[best_first]] = True
    return rows
