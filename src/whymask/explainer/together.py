"""Several cases of one model searched together: each one's result and its share of the time."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from whymask.arrays import Floats
from whymask.errors import ExhaustedError
from whymask.explainer.case import Case, Listener
from whymask.explainer.costs import affordable, none_left
from whymask.explainer.responder import Responder
from whymask.methods import Recipe
from whymask.models.batching import Batching
from whymask.search.batches import Piece
from whymask.search.driver import Search, SearchResult, drive


def search_together(
    cases: Iterable[Case],
    recipe: Recipe,
    seed: int,
    batching: Batching,
    *,
    budget: int | None = None,
    in_flight: int | None = None,
    progress: Listener = None,
) -> Iterator[tuple[int, SearchResult, float]]:
    """Yield (number of the case, what was found, seconds) as searches end; `found.about` is the case.

    Cases are drawn as needed, `in_flight` of them at a time; neither that nor what is done with a result counts as
    time of a search. Where a limit of requests or cost leaves nothing for further searches, those under way end first,
    and then this raises an `ExhaustedError`.
    """
    clock = Clock()
    exhausted: list[ExhaustedError] = []

    def searches() -> Iterator[Search]:
        drawn = iter(cases)
        while not exhausted:
            try:
                with clock.apart():
                    case = next(drawn, None)
                if case is None:
                    return
                with clock.apart(case):  # methods that use gradients do all of their work here
                    search = case.start(recipe, seed, budget=budget, progress=progress)
            except ExhaustedError as error:
                exhausted.append(error)
                return
            yield search

    batches: dict[str, Any] = {"batch_size": lambda: batching.size, "in_flight": in_flight}
    for number, found in drive(searches(), clock.respond, affordable=affordable, **batches):
        if (error := none_left(found)) is not None:
            exhausted.append(error)
            continue
        with clock.apart():
            yield number, found, clock.seconds.pop(found.about, 0.0)
    if exhausted:
        raise exhausted[0]


class Clock:
    """Splits the wall time among cases that share batches, by the images each sends."""

    def __init__(self) -> None:
        self.seconds: dict[Case, float] = defaultdict(float)
        self._responder = Responder()
        self._last = time.perf_counter()

    @contextmanager
    def apart(self, case: Case | None = None) -> Iterator[None]:
        """Time that belongs to one case alone, or to none."""
        start = time.perf_counter()
        yield
        spent = time.perf_counter() - start
        self._last += spent
        if case is not None:
            self.seconds[case] += spent

    def respond(self, pieces: Sequence[Piece]) -> list[Floats] | Callable[[], list[Floats]]:
        """Answer a batch."""
        replies = self._responder(pieces)
        if callable(replies):
            return lambda: self._shared(pieces, replies())
        return self._shared(pieces, replies)

    def _shared(self, pieces: Sequence[Piece], answers: list[Floats]) -> list[Floats]:
        """The answers to a batch that has just arrived: the time since the last one is that of its cases."""
        before, self._last = self._last, time.perf_counter()
        each = (self._last - before) / sum(len(rows) for _, rows in pieces)
        for filled, rows in pieces:
            self.seconds[filled.case] += each * len(rows)
        return answers
