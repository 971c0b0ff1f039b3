"""Several endpoints of one model: which of them takes the next request, and which are left out for a while."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import TYPE_CHECKING

from whymask.models.concurrency import Concurrency
from whymask.models.packages import optional

if TYPE_CHECKING:
    import httpx
else:
    httpx = optional("httpx")

FIRST_WAIT = 0.1  # seconds that an endpoint is left out after a failure; doubles with every further one in a row
LONGEST_WAIT = 30.0  # seconds, also when the server's Retry-After asks for more


@dataclass(eq=False)
class Endpoint:
    """One URL of a model, and its state."""

    url: httpx.URL
    shown: str  # without secrets
    concurrency: Concurrency
    under_way: int = 0
    turn: int = 0  # of its last request, among those of all endpoints
    failures: int = 0  # in a row; what goes wrong with all requests under way at once is one failure
    failure: int = 0  # the number of the last one
    left_out: float = -inf  # until then, by the clock of the event loop

    @property
    def room(self) -> int:
        """How many requests it may have; while it fails, one that shows whether it works again."""
        return 1 if self.failures else self.concurrency.size

    def replied(self, under_way: int, seconds: float) -> None:
        """Record a reply after `seconds` to a request that was sent when `under_way` requests were pending."""
        self.failures = 0
        self.concurrency.replied(under_way, seconds)

    def slow(self, before: int) -> None:
        """Record that a hedge overtook a request, sent when `before` was the number of the last failure."""
        if before == self.failure:
            self.failure += 1
            self.concurrency.overloaded()

    def failed(self, before: int, now: float, *, overloaded: bool, wait: float = 0.0) -> None:
        """Record that a request sent after failure `before` failed; the server asked for a pause of `wait` seconds."""
        if before == self.failure:  # else it failed after this request was sent: this is the same failure
            self.failure += 1
            self.failures += 1
            wait = max(wait, FIRST_WAIT * 2 ** min(self.failures - 1, 10))
            if overloaded:
                self.concurrency.overloaded()
        self.left_out = max(self.left_out, now + min(wait, LONGEST_WAIT))


@dataclass(eq=False)
class _Waiting:
    """A request that waits for an endpoint."""

    tried: Mapping[Endpoint, int]
    but: Endpoint | None
    taken: asyncio.Future[Endpoint] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Endpoints:
    """Gives every request the endpoint with the smallest share of its room in use, in turn among equals."""

    def __init__(self, all: Sequence[Endpoint]) -> None:
        self.all = all
        self._waiting: deque[_Waiting] = deque()
        self._turns = count(1)
        self._timer: asyncio.TimerHandle | None = None

    async def take(
        self, tried: Mapping[Endpoint, int] | None = None, *, urgent: bool = False, but: Endpoint | None = None
    ) -> Endpoint:
        """An endpoint with room for a request, one that it was sent to least often (`tried`), and not `but`.

        Urgent requests come first. What is taken must be given back.
        """
        waiting = _Waiting({} if tried is None else tried, but)
        (self._waiting.appendleft if urgent else self._waiting.append)(waiting)
        self._serve()
        try:
            return await waiting.taken
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif not waiting.taken.cancelled():
                self.give_back(waiting.taken.result())
            raise

    def give_back(self, endpoint: Endpoint) -> None:
        """A request has ended."""
        endpoint.under_way -= 1
        self._serve()

    def _serve(self) -> None:
        now = asyncio.get_running_loop().time()
        left: deque[_Waiting] = deque()
        while self._waiting and any(self._has_room(endpoint, now) for endpoint in self.all):
            waiting = self._waiting.popleft()
            if waiting.taken.done():  # cancelled
                continue
            endpoint = self._choose(waiting, now)
            if endpoint is None:
                left.append(waiting)
            else:
                endpoint.under_way += 1
                endpoint.turn = next(self._turns)
                waiting.taken.set_result(endpoint)
        self._waiting.extendleft(reversed(left))
        self._wake(now)

    def _wake(self, now: float) -> None:
        """Look again when the next endpoint is no longer left out."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        later = [endpoint.left_out for endpoint in self.all if endpoint.left_out > now]
        if self._waiting and later:
            self._timer = asyncio.get_running_loop().call_at(min(later), self._serve)

    def _choose(self, waiting: _Waiting, now: float) -> Endpoint | None:
        usable = [endpoint for endpoint in self.all if endpoint is not waiting.but and endpoint.left_out <= now]
        usable = [endpoint for endpoint in usable if not endpoint.failures or endpoint.under_way < endpoint.room]
        least = min((waiting.tried.get(endpoint, 0) for endpoint in usable), default=0)
        free = [e for e in usable if waiting.tried.get(e, 0) == least and e.under_way < e.room]
        return min(free, key=lambda endpoint: (endpoint.under_way / endpoint.room, endpoint.turn), default=None)

    def _has_room(self, endpoint: Endpoint, now: float) -> bool:
        return endpoint.left_out <= now and endpoint.under_way < endpoint.room
