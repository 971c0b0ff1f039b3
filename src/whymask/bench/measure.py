"""Several samples searched together: each one's numbers, its share of the time, and what failed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whymask.arrays import Bools
from whymask.explainer.answers import mistake, yes_or_no
from whymask.explainer.case import Case, prefixes, responder
from whymask.explainer.repairing import outcome, replies
from whymask.models.memory import PeakMemory
from whymask.search import Recipe, Search, drive
from whymask.search.driver import Piece, SearchResult
from whymask.search.objective import Oracle, pack
from whymask.search.protocol import completed

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
        case.known.clear()
        case.tops.clear()
    memory, shares = PeakMemory(cases[0].model), Shares(cases)
    searches = shares.started(lambda case: Search(recipe, case.problem(seed), budget=budget, oracle=Oracle(case.known)))
    for number, found in drive(searches, shares.respond, batch_size=lambda: cases[0].batching.size):
        spent = {"seconds": shares.seconds[number], **memory.spent()}
        yield number, {**numbers(cases[number], found), **spent}
        shares.tick()  # what was done with the result is not the search's


def numbers(case: Case, found: SearchResult) -> dict[str, Any]:
    """What a table may say of a result."""
    counted = {
        "n": case.partition.n,
        "mec": found.ledger.mec,
        "nominal": found.ledger.nominal,
        "complete": found.complete,
        "label": case.bound.target.label,
    }
    mask = [] if found.selection is None else list(completed(found.selection).order[: int(found.selection.mask.sum())])
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
    top = case.tops.get(pack(whole)[0])
    word = yes_or_no(target.label) is not None and target.label.isalpha()
    if top is None or (top == target.index if target.numbered else not word):
        return {}
    ((given, right),) = replies(case, whole)
    if right:
        return {}
    tried = outcome(case, rows)
    told = {"given": given, "mistake": mistake(given, target.label), "repaired": tried.repaired}
    return {**told, "removed": tried.removed, "kept": tried.kept}


class Shares:
    """Splits the wall time among searches that share batches, by the images each sends."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases
        self.seconds = [0.0] * len(cases)
        self._respond = responder(cases)
        self._last = time.perf_counter()

    def tick(self) -> float:
        """Seconds since the last one."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before

    def started(self, start: Any) -> Iterator[Search]:
        """A search per case; methods that use gradients have done all of it when they have started."""
        for number, case in enumerate(self.cases):
            self.tick()
            search = start(case)
            self.seconds[number] += self.tick()
            yield search

    def respond(self, parts: Sequence[Piece]) -> Sequence[ArrayLike]:
        """Answer a batch."""
        answers = self._respond(parts)
        each = self.tick() / sum(len(rows) for _, rows in parts)
        for number, rows in parts:
            self.seconds[number] += each * len(rows)
        return answers
