"""The driver: advances searches, alone or many together, and answers what they ask.

It owns everything that is not the algorithm: the cache, the ledger, the budget, progress, checks. Where a device
computes the replies, half of the searches advance while it works for the other half.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whymask.arrays import Bools, Floats
from whymask.errors import ExhaustedError, whole
from whymask.models.spending import Purse
from whymask.search.archive import Archive
from whymask.search.batches import BatchSize, Piece, RespondMany, send
from whymask.search.objective import Ledger
from whymask.search.oracle import Oracle, Query
from whymask.search.protocol import Algorithm, Ask, Found, Masks, Problem, Ranking, Selection, mask_of

Respond: TypeAlias = Callable[[Bools], ArrayLike]
"""Kept sets (B, n) of one search -> responses (B,) in [0, 1]; for several targets (B, T)."""
Affordable: TypeAlias = Callable[[Sequence["Search"]], Purse | None]
"""What searches may still spend before their results are made; None for any number of images."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search over a set function found."""

    recipe: Algorithm
    order: NDArray[np.int64] | None  # all n regions, most important first, where the method orders
    mask: Bools | None  # (n,) the evidence mask, or the mask of the selection an ordering grew from
    score: float | None  # F(mask) by the initialiser's objective
    selection: Selection | None
    map: Floats | None  # (H, W) the importance of every pixel, by methods that have one
    ledger: Ledger
    complete: bool  # False when the budget ended the search early
    frontier: dict[int, float] = field(default_factory=dict)  # of a mask: size -> the best score, up to twice its own
    asked: Sequence[Set[bytes]] = field(
        default=(), repr=False
    )  # by fill, the packed bits of every set it has asked for
    about: Any = field(default=None, repr=False)  # what was searched
    each: tuple["SearchResult", ...] = ()  # of a search for several targets: the result of each

    def __str__(self) -> str:
        if self.each:
            return f"{self.recipe.name}: {len(self.each)} masks, {self.ledger}{self._end()}"
        what = "an ordering" if self.mask is None else f"a mask of {np.count_nonzero(self.mask)} regions"
        if self.mask is not None and self.order is not None:
            what = f"an ordering from {what}"
        kept = "" if self.score is None else f", mask score {self.score:.3f}"
        return f"{self.recipe.name}: {what}{kept}, {self.ledger}{self._end()}"

    def _end(self) -> str:
        return "" if self.complete else "; stopped by the budget"


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a search after a batch."""

    forwards: int  # distinct masked images so far (mec)
    best: Found  # what would be returned now
    oracle: Oracle = field(repr=False)  # with all that is known, of other searches over the same image too

    @property
    def known(self) -> int:
        """How many masked images have been scored, for other searches over the same image too."""
        return sum(len(responses.scores) for responses in self.oracle.responses)

    def standing(self) -> tuple[tuple[int, ...], float | None]:
        """The regions of the best mask and its score; of an ordering, the regions placed so far that were scored."""
        best = self.best
        if isinstance(best, Selection):
            return tuple(np.flatnonzero(best.mask).tolist()), self.oracle.score(best.mask)
        if isinstance(best, Masks):
            return (), None
        for placed in range(best.placed, 0, -1):
            score = self.oracle.score(mask_of(best.order[:placed], len(best.order)))
            if score is not None:
                return best.order[:placed], score
        return (), None


class Search:
    """One search under way.

    `about` is whatever the responder needs to answer its queries, such as the image: each piece of a batch carries it.
    Where sets are scored on several fills (by an oracle that has responses for each), `fills` has one such thing each.
    """

    def __init__(
        self,
        recipe: Algorithm,
        problem: Problem,
        about: Any = None,
        *,
        budget: int | None = None,
        oracle: Oracle | None = None,
        progress: Callable[[Progress], None] | None = None,
        fills: Sequence[Any] | None = None,
    ) -> None:
        self.recipe, self.about = recipe, about
        self.fills = [about] if fills is None else fills
        self.budget = None if budget is None else whole("a budget of forwards", budget, 0)
        self.oracle = oracle or Oracle()
        self.progress = progress
        self.generator = recipe.search(replace(problem, archive=self.oracle.archive))
        self.ask: Ask
        self.query: Query
        self.result: SearchResult | None = None
        self._spent = False  # the budget has paid for a part of the last query
        self._known: Floats | None = None  # F of a query that is asked again, by the responses so far
        self._advance(None)

    @property
    def pieces(self) -> list[Piece]:
        """`query.send`, each part with what its fill is about."""
        return list(zip(self.fills, self.query.by_fill, strict=True))

    def answer(self, responses: Floats) -> None:
        """Give the search the responses to `query.send` and let it go on to its next query, unless some are open."""
        scores = self.oracle.answer(self.query, responses)
        left = None if self.budget is None else self.budget - self.oracle.ledger.mec
        again = self.oracle.again(self.query, self.ask.best, left)
        if again is None:
            self._known = None
            self._advance(scores)
        else:
            self.query, self._known = again, scores

    def fit(self, purse: Purse) -> None:
        """Pay for the query, or for what can be paid of it; a search that then cannot go on ends with its best."""
        if self.result:
            return
        count = len(self.query.send)
        if purse.images < count:
            if self._known is not None:
                self._spent = True
                self._advance(self._known)
                return
            rows = range(1, len(self.ask.rows) + 1)
            some = bisect_right(rows, purse.images, key=lambda count: len(self._open(count).send))
            if not (some and self.ask.divisible):
                self.stop()
                return
            self.query, self._spent = self._open(some), True
            count = len(self.query.send)
        purse.pay(count)

    def stop(self) -> None:
        """End with the best so far."""
        self.generator.close()
        self._finish(self.ask.best, complete=False)

    def _advance(self, scores: Floats | None) -> None:
        try:
            self.ask = next(self.generator) if scores is None else self.generator.send(scores)
        except StopIteration as stop:
            self._report(stop.value)
            self._finish(stop.value, complete=not self._spent)
            return
        if scores is not None:
            self._report(self.ask.best)
        count = 0 if self._spent else self._affordable()
        self._spent = count < len(self.ask.rows)
        if self._spent and not (count and self.ask.divisible):
            self.stop()
        else:
            self.query = self._open(count)

    def _open(self, count: int) -> Query:
        return self.oracle.open(self.ask.rows[:count], self.ask.objective, self.ask.stage, self.ask.fills)

    def _affordable(self) -> int:
        """How many rows of the query, from the first on, the budget pays for."""
        count = len(self.ask.rows)
        if self.budget is None:
            return count
        left = self.budget - self.oracle.ledger.mec
        return bisect_right(range(1, count + 1), left, key=lambda some: sum(self._open(some).fresh))

    def _report(self, best: Found) -> None:
        if self.progress:
            self.progress(Progress(self.oracle.ledger.mec, best, self.oracle))

    def _finish(self, found: Found, *, complete: bool) -> None:
        found = self.recipe.settle(found)
        oracle = self.oracle
        self.result = self._result(found, complete, oracle.archive, Ledger(dict(oracle.ledger.entries)))
        if isinstance(found, Masks):
            each = []
            for target, selection in enumerate(found.each):
                asked = oracle.asked_for(target, found.proposed)
                ledger = Ledger({("init", "suff"): (asked, asked)})
                each.append(self._result(selection, complete, oracle.archive.of(target), ledger))
            self.result = replace(self.result, each=tuple(each))

    def _result(self, found: Found, complete: bool, archive: Archive, ledger: Ledger) -> SearchResult:
        selection = found if isinstance(found, Selection) else getattr(found, "selection", None)
        return SearchResult(
            recipe=self.recipe,
            order=np.array(found.order) if isinstance(found, Ranking) else None,
            mask=None if selection is None else selection.mask,
            score=None if selection is None else selection.score,
            selection=selection,
            map=found.map if isinstance(found, Ranking) else None,
            ledger=ledger,
            complete=complete,
            asked=self.oracle.asked,
            about=self.about,
            frontier=archive.frontier(2 * int(found.mask.sum())) if isinstance(found, Selection) else {},
        )


def drive(
    searches: Iterable[Search],
    respond: RespondMany,
    *,
    batch_size: BatchSize = None,
    in_flight: int | None = None,
    targets: int | None = None,
    affordable: Affordable | None = None,
) -> Iterator[tuple[int, SearchResult]]:
    """Advance searches together and yield (number, result) as each ends.

    What they ask for at the same moment goes to the model in common batches of at most `batch_size` images. At most
    `in_flight` of them are under way at a time; the next is drawn from `searches` when one ends. Searches for several
    `targets` are sent as many scores for each image. What is no longer `affordable` is not sent, and searches that need
    it end with their best so far, as at the end of a budget; so do those that the model answers by an `ExhaustedError`.

    If replies are late, the searches take turns in two halves: one is sent before the replies to the other are read.
    """
    if isinstance(batch_size, int):
        whole("batch_size", batch_size, 1)
    if in_flight is not None:
        whole("in_flight", in_flight, 1)
    return _drive(searches, respond, batch_size, in_flight, targets, affordable)


def _drive(
    searches: Iterable[Search],
    respond: RespondMany,
    batch_size: BatchSize,
    in_flight: int | None,
    targets: int | None,
    affordable: Affordable | None,
) -> Iterator[tuple[int, SearchResult]]:
    waiting = enumerate(searches)
    ready: dict[int, Search] = {}  # those whose query has not been sent
    flights: deque[Flight] = deque()
    halves = False  # learned from the first replies: without a device to keep busy, large batches are better
    while True:
        sent = [search for flight in flights for search in flight.searches.values()]
        ready.update(islice(waiting, None if in_flight is None else in_flight - len(ready) - len(sent)))
        if not (ready or sent):
            return
        if ready and affordable and (purse := affordable([*ready.values(), *sent])):
            for search in ready.values():
                search.fit(purse)
        yield from _ended(ready)
        if ready and len(flights) < 2:
            some = [*islice(ready, -(-(len(ready) + len(sent)) // 2) if halves else None)]
            flights.append(Flight({number: ready.pop(number) for number in some}))
            flights[-1].send(respond, batch_size, targets)
            halves = halves or flights[-1].late
        if len(flights) == 2 or (flights and not (ready and halves)):
            flight = flights.popleft()
            flight.land()
            ready.update(flight.searches)


def _ended(searches: dict[int, Search]) -> Iterator[tuple[int, SearchResult]]:
    """Take the searches that have ended out, with their results."""
    for number in [number for number, search in searches.items() if search.result]:
        result = searches.pop(number).result
        assert result is not None
        yield number, result


@dataclass(eq=False)
class Flight:
    """Searches whose queries are sent together."""

    searches: dict[int, Search]
    replies: list[Floats] = field(default_factory=list)  # to every piece
    waits: list[Callable[[], None]] = field(default_factory=list)  # for what is missing of the replies

    @property
    def late(self) -> bool:
        """Whether replies are still on their way."""
        return bool(self.waits)

    def send(self, respond: RespondMany, batch_size: BatchSize, targets: int | None) -> None:
        """Send the queries; the replies may come later."""
        pieces = [piece for search in self.searches.values() for piece in search.pieces]
        try:
            self.replies, self.waits = send(pieces, respond, batch_size, targets)
        except ExhaustedError:  # retries may cost more than was expected
            self._stop()

    def land(self) -> None:
        """Wait for the replies, and let the searches go on."""
        try:
            for wait in self.waits:
                wait()
        except ExhaustedError:
            self._stop()
        replies = iter(self.replies)
        for search in self.searches.values():
            responses = [*islice(replies, len(search.fills))]
            if not search.result:
                search.answer(np.concatenate(responses))

    def _stop(self) -> None:
        for search in self.searches.values():
            search.stop()
