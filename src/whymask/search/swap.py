"""swap: exchange regions of a mask for better ones, guided by every set scored so far."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import inf
from typing import TypeAlias

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.limits import Count, NonNegative
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection
from whymask.search.race import RACED, race
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate

LARGEST = 3  # regions exchanged at once at first; one fewer with every PATIENCE sets that are known
PATIENCE = 150
SPREAD = 0.5  # of the surrogate's uncertainty, when exchanges are drawn from it

Allowed: TypeAlias = Callable[[Bools], bool]
"""Whether a mask (n,) may be proposed."""


@stage("refinement", "made better by exchanging regions", cost=lambda n, p: p["tries"], further=RACED)
def swap(
    problem: Problem,
    selection: Selection,
    *,
    tries: NonNegative = 136,
    together: Count = 8,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """A better mask of the same size, found by exchanges; never a worse one.

    Up to `tries` masks are scored, `together` at a time; the default makes discs+swap cost what trace costs. Weights
    of the regions are drawn from a surrogate of everything scored, and the best exchange of one to three regions under
    them is tried next. The search ends early where no exchange of one region is left untried: the mask is then a local
    optimum, and says so.
    """
    return (yield from exchange(problem, selection, Objective.of(init_objective), tries, together))


def exchange(
    problem: Problem,
    selection: Selection,
    objective: Objective,
    tries: int,
    together: int = 8,
    allowed: Allowed | None = None,
    enough: float = inf,
) -> Initialiser:
    """`swap` for the other searches.

    Masks that are not `allowed` are left out. The search ends with the first mask that scores `enough`.
    """
    rng, surrogate = problem.rng(), Surrogate(problem, objective)
    size = int(selection.mask.sum())
    if selection.score is None:
        selection = replace(selection, score=float((yield Ask(selection.mask[None], objective, "init", selection))[0]))
    assert selection.score is not None
    for turn in count():
        assert selection.score is not None
        if tries <= 0 or selection.score >= enough:
            break
        rows, scores, answers = problem.archive.near(objective, selection.mask)
        surrogate.fit(rows, scores, selection.mask, answers)
        known = {row.tobytes() for row in rows[rows.sum(axis=1) == size]}
        largest = max(1, LARGEST - len(rows) // PATIENCE)
        proposed = propose(selection.mask, surrogate, known, largest, min(together, tries), rng, allowed)
        if not len(proposed):
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
    largest: int,
    count: int,
    rng: np.random.Generator,
    allowed: Allowed | None = None,
) -> Bools:
    """At most `count` masks (., n) not known yet: draws from the surrogate, then the single exchanges left over."""
    fresh: dict[bytes, Bools] = {}

    def add(row: Bools) -> None:
        key = row.tobytes()
        if key not in known and (allowed is None or allowed(row)):
            fresh.setdefault(key, row)

    for spread in (SPREAD, 2 * SPREAD, 4 * SPREAD, 8 * SPREAD):  # ever wilder, where the likely ones are known
        for weights in surrogate.draw(4 * count, spread, rng):
            if len(fresh) < count:
                add(exchanged(mask, weights, int(rng.integers(1, largest + 1))))
        if len(fresh) == count:
            break
    if len(fresh) < count:
        for row in single_exchanges(mask, surrogate.mean):
            if len(fresh) == count:
                break
            add(row)
    return np.array(list(fresh.values()), dtype=bool).reshape(-1, len(mask))


def exchanged(mask: Bools, weights: Floats, most: int) -> Bools:
    """The best mask under `weights` that differs by one to `most` exchanges."""
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    out = inside[np.argsort(weights[inside], kind="stable")]
    into = outside[np.argsort(-weights[outside], kind="stable")]
    row = mask.copy()
    for number, (old, new) in enumerate(zip(out[:most], into[:most], strict=False)):
        if number and weights[new] <= weights[old]:
            break
        row[old], row[new] = False, True
    return row


def single_exchanges(mask: Bools, weights: Floats) -> Bools:
    """All k (n - k) masks that differ by one exchange, the likeliest gains first."""
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    old, new = np.repeat(inside, len(outside)), np.tile(outside, len(inside))
    best_first = np.argsort(weights[old] - weights[new], kind="stable")
    rows = np.repeat(mask[None], len(old), axis=0)
    rows[np.arange(len(old)), old[best_first]] = False
    rows[np.arange(len(old)), new[best_first]] = True
    return rows
