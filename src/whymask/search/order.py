"""Between an initialiser and a continuation: order the selection inside (Eq. 4), keep a prefix (Eq. 5)."""

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from whymask.arrays import Floats
from whymask.search.limits import NonNegative, Proportion
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Continuation, Initialiser, Problem, Selection, completed, extend
from whymask.search.stage import stage

Prefixes = Generator[Ask, Floats, tuple[list[int], list[float]]]


@stage("order", "its regions ordered inside", cost=lambda n, p: p["k"] * (p["k"] + 1) // 2, name="order")
def order_inside(
    problem: Problem,
    selection: Selection,
    *,
    gamma: Proportion = 0.8,
    order_threshold: NonNegative = 20,
    early_stop: bool = False,
    order_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """Order the regions of C = selection.mask and keep the shortest prefix with F(P_t) >= gamma F(C).

    The whole of C is ordered, |C|(|C| + 1) / 2 sets, as the published counts imply. `early_stop` looks up F(C) first
    (known, so no forward) and asks for no more than the kept prefix needs; the prefix is the same. Above
    `order_threshold` regions the order is that of the single-region scores, 2 |C| sets.
    """
    objective = Objective.of(order_objective)
    goal = np.inf  # never reached: order all of C
    if early_stop:
        whole = yield Ask(selection.mask[None], objective, "order", selection)
        goal = gamma * float(whole[0])
    by_singles = np.count_nonzero(selection.mask) > order_threshold
    order, scores = yield from (_by_singles if by_singles else _greedily)(problem, selection, objective, goal)
    if not early_stop:
        goal = gamma * scores[-1]
    kept = next((t for t, score in enumerate(scores, 1) if score >= goal), len(order))
    return replace(selection, order=tuple(order), kept=kept)


def _greedily(problem: Problem, selection: Selection, objective: Objective, goal: float) -> Prefixes:
    """Eq. 4: the order of C and F of its prefixes, up to the first that reaches `goal`."""
    order: list[int] = []
    scores: list[float] = []
    live = np.flatnonzero(selection.mask).tolist()
    guess = tuple(live)  # the regions still to come, by their last score
    while live and not (scores and scores[-1] >= goal):
        stop_here = replace(selection, order=(*order, *guess))
        answer = yield Ask(extend(order, live, problem.n), objective, "order", stop_here)
        scores.append(float(answer.max()))
        best, *rest = np.argsort(-answer, kind="stable").tolist()
        guess = tuple(live[i] for i in rest)
        order.append(live.pop(best))
    return order, scores


def _by_singles(problem: Problem, selection: Selection, objective: Objective, goal: float) -> Prefixes:
    """The cheaper order for a large C: each region's score alone, then F of the prefixes."""
    live = np.flatnonzero(selection.mask).tolist()
    singles = yield Ask(extend([], live, problem.n), objective, "order", replace(selection, order=tuple(live)))
    order = [live[i] for i in np.argsort(-singles, kind="stable")]
    rows = np.zeros((len(order), problem.n), dtype=bool)
    for t, region in enumerate(order):
        rows[t:, region] = True
    scores: list[float] = []
    step = 1 if goal < np.inf else len(order)
    while len(scores) < len(order) and not (scores and scores[-1] >= goal):
        some = rows[len(scores) : len(scores) + step]
        scores += (yield Ask(some, objective, "order", replace(selection, order=tuple(order)))).tolist()
    return order, scores


@stage(
    "continuation",
    "the trace mask in its internal order, then all other regions by the logits trace learned",
    cost=lambda n, p: 0,
)
def rank_by_logits(problem: Problem, selection: Selection) -> Continuation:
    """The cheapest continuation: the selection, then the leftovers by what it learned; no forwards."""
    yield from ()
    return completed(selection)
