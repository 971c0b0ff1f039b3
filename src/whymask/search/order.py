"""Between an initialiser and a continuation: order the seed inside (Eq. 4), keep a prefix (Eq. 5)."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from whymask.objective import SUFFICIENCY, Floats, Objective
from whymask.search.limits import Part, Whole
from whymask.search.protocol import Ask, Continuation, Initialiser, Problem, Seed, completed, extend

Prefixes = Generator[Ask, Floats, tuple[list[int], list[float]]]


def order_inside(
    problem: Problem,
    seed: Seed,
    *,
    gamma: Part = 0.8,
    order_threshold: Whole = 20,
    early_stop: bool = False,
    order_objective: Objective | str | float = SUFFICIENCY,
) -> Initialiser:
    """Order the regions of C = seed.mask and keep the shortest prefix with F(P_t) >= gamma F(C).

    The whole of C is ordered, |C|(|C| + 1) / 2 sets, as the published counts imply. `early_stop` looks up F(C) first
    (known, so no forward) and asks for no more than the kept prefix needs; the prefix is the same. Above
    `order_threshold` regions the order is that of the single-region scores, 2 |C| sets.
    """
    objective = Objective.of(order_objective)
    goal = np.inf  # never reached: order all of C
    if early_stop:
        whole = yield Ask(seed.mask[None], objective, "order", seed)
        goal = gamma * float(whole[0])
    by_singles = np.count_nonzero(seed.mask) > order_threshold
    order, scores = yield from (_by_singles if by_singles else _greedily)(problem, seed, objective, goal)
    if not early_stop:
        goal = gamma * scores[-1]
    kept = next((t for t, score in enumerate(scores, 1) if score >= goal), len(order))
    return replace(seed, order=tuple(order), kept=kept)


def _greedily(problem: Problem, seed: Seed, objective: Objective, goal: float) -> Prefixes:
    """Eq. 4: the order of C and F of its prefixes, up to the first that reaches `goal`."""
    order: list[int] = []
    scores: list[float] = []
    live = np.flatnonzero(seed.mask).tolist()
    guess = tuple(live)  # the regions still to come, by their last score
    while live and not (scores and scores[-1] >= goal):
        stop_here = replace(seed, order=(*order, *guess))
        answer = yield Ask(extend(order, live, problem.n), objective, "order", stop_here)
        scores.append(float(answer.max()))
        best, *rest = np.argsort(-answer, kind="stable").tolist()
        guess = tuple(live[i] for i in rest)
        order.append(live.pop(best))
    return order, scores


def _by_singles(problem: Problem, seed: Seed, objective: Objective, goal: float) -> Prefixes:
    """The cheaper order for a large C: each region's score alone, then F of the prefixes."""
    live = np.flatnonzero(seed.mask).tolist()
    singles = yield Ask(extend([], live, problem.n), objective, "order", replace(seed, order=tuple(live)))
    order = [live[i] for i in np.argsort(-singles, kind="stable")]
    rows = np.zeros((len(order), problem.n), dtype=bool)
    for t, region in enumerate(order):
        rows[t:, region] = True
    scores: list[float] = []
    step = 1 if goal < np.inf else len(order)
    while len(scores) < len(order) and not (scores and scores[-1] >= goal):
        some = rows[len(scores) : len(scores) + step]
        scores += (yield Ask(some, objective, "order", replace(seed, order=tuple(order)))).tolist()
    return order, scores


def rank_by_logits(problem: Problem, seed: Seed) -> Continuation:
    """The cheapest continuation: the seed, then the leftovers by what it learned; no forwards."""
    yield from ()
    return completed(seed)
