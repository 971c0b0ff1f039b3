"""Several samples searched together: each one's numbers, its share of the time, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whymask.arrays import Bools
from whymask.explainer.answers import mistake, yes_or_no
from whymask.explainer.case import Case, prefixes
from whymask.explainer.repairing import outcome, replies
from whymask.explainer.together import search_together
from whymask.models.memory import PeakMemory
from whymask.search import Recipe
from whymask.search.driver import SearchResult

Measured = dict[str, Any] | Exception


def measure(
    cases: Sequence[Case], recipe: Recipe, seed: int, budget: int | None = None
) -> Iterator[tuple[int, Measured]]:
    """(number of the case, its numbers or why there are none), as searches end.

    All cases are of one model and share its batches. When something fails, those that are left are tried one by one,
    so that a case fails only by its own fault.
    """
    left = dict(enumerate(cases))
    try:
        for number, numbers in _searched(cases, recipe, seed, budget):
            del left[number]
            yield number, numbers
    except Exception as error:
        if len(cases) == 1:
            yield 0, error
            return
        for number, case in left.items():
            for _, outcome in measure([case], recipe, seed, budget):
                yield number, outcome


def _searched(
    cases: Sequence[Case], recipe: Recipe, seed: int, budget: int | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    for case in cases:  # every method pays for its own forwards
        case.responses.clear()
    memory = PeakMemory(cases[0].model)
    for number, found, seconds in search_together(cases, recipe, seed, cases[0].batching, budget=budget):
        spent = {"seconds": seconds, **memory.spent()}
        yield number, {**numbers(found.about, found), **spent}


def numbers(case: Case, found: SearchResult) -> dict[str, Any]:
    """What a table may say of a result."""
    counted = {
        "n": case.partition.n,
        "mec": found.ledger.mec,
        "nominal": found.ledger.nominal,
        "complete": found.complete,
        "label": case.bound.target.label,
    }
    mask = [] if found.selection is None else list(found.selection.regions)
    if found.order is not None:
        order = found.order.tolist()
        curves = case.replay(order)
        ends = {"full": float(curves.insertion[-1]), "blank": float(curves.deletion[-1])}
        told = {**curves.summary(), **ends, "replay": curves.forwards, "order": order, "mask": mask}
        return {**counted, **told, **repair(case, prefixes(order))}
    kept = np.isin(np.arange(case.partition.n), mask)
    ((score, removed, full, blank),), _ = case.ask(np.array([kept, ~kept, kept | True, kept & False]))
    scores = {"score": float(score), "removed_score": float(removed), "full": float(full), "blank": float(blank)}
    area = float(case.partition.areas[mask].sum())
    return {**counted, **scores, "area": area, "mask": mask, **repair(case, kept[None])}


def repair(case: Case, rows: Bools) -> dict[str, Any]:
    """What becomes of a wrong answer when only these regions (B, n), a mask or the prefixes of an ordering, are kept.

    Nothing where the answer is right, unknown, or of another kind than a class, a yes or a no.
    """
    target = case.bound.target
    whole = np.ones((1, case.partition.n), dtype=bool)
    (top,) = case.responses.answers(whole)
    word = yes_or_no(target.label) is not None and target.label.isalpha()
    if top is None or (top == target.index if target.index >= 0 else not word):
        return {}
    ((given, right),) = replies(case, whole)
    if right:
        return {}
    tried = outcome(case, rows)
    told = {"given": given, "mistake": mistake(given, target.label), "repaired": tried.repaired}
    return {**told, "removed": tried.removed, "kept": tried.kept}
