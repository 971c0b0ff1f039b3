"""Models behind URLs: many requests under way at once, sent again where one fails or is late."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from whymask.errors import ExhaustedError, WhymaskError, whole
from whymask.models.base import GridModel, Target, View
from whymask.models.concurrency import Concurrency
from whymask.models.endpoints import Endpoint, Endpoints
from whymask.models.packages import optional, required
from whymask.models.pixels import PixelBound
from whymask.models.posting import LARGEST_REPLY, Client, NoReplyError, StatusError, check_headers
from whymask.models.spending import Spending
from whymask.utils.redact import shown, urls_in

if TYPE_CHECKING:
    import httpx
else:
    httpx = optional("httpx")  # a model asks for it when it is made

T = TypeVar("T")
Body: TypeAlias = Callable[[], dict[str, Any]]
"""Makes the JSON of one request, in a thread: images are encoded while others are on their way."""
Reader: TypeAlias = Callable[[Any], T]
"""Takes what is needed from the JSON of a reply as soon as it is here, so that the rest is not kept."""

CREDENTIALS = frozenset({"authorization", "cookie"})
MOST = 64  # requests at once at one endpoint, unless the user gives a bound
AHEAD = 8  # requests that are encoded before an endpoint has room for them
PEERS = 8  # replies after which it is known how long one takes
LATE = 4.0  # a request is hedged (sent a second time) after this many times the median of its peers,
SHORTEST = 0.1  # but not before this many seconds
UNKNOWN = 5.0  # seconds after which it is hedged before the median is known, if there is another endpoint
HEDGED = 0.1  # the share of all requests that may be hedged, besides PEERS of them


@dataclass(frozen=True, eq=False)
class RemoteBound(PixelBound):
    """An image whose pixels (H, W, 3) uint8 are sent as they are."""

    sent: str | int | None  # what the server gets beside the image

    @classmethod
    def of(cls, view: View, target: Target, **others: Any) -> Self:
        """The bound of an image that is on its grid, with its other fields."""
        return cls(
            **vars(view),
            target=target,
            inputs=view.canvas,
            fill_inputs=view.fill,
            key=(view.canvas.shape, view.panels),
            channels_first=False,
            **others,
        )


class Served(GridModel):
    """What models behind a URL share."""

    remote: Remote

    @property
    def spending(self) -> Spending:
        """What was sent and received so far, and the limits."""
        return self.remote.spending

    def tokens_expected(self, height: int, width: int, question: str | None) -> tuple[float, float] | None:
        """About how many tokens the request for an image of this size has, and its reply, where that can be known."""
        return None


@dataclass(eq=False)
class _Request:
    """What is sent, how many images it holds, and how often each endpoint was asked."""

    content: bytes
    images: int
    hedge: bool  # whether it may be sent a second time
    tried: Counter[Endpoint] = field(default_factory=Counter)


class Remote:
    """One or several URLs of the same model that take JSON by POST and answer with JSON.

    Every try ends by `timeout`, from connecting to the last byte of the answer. Connection errors, timeouts and the
    statuses in RETRIED are tried again, at other endpoints first, and up to `retries` times at the same one; any other
    status fails at once. An endpoint that fails is left out for a while. A request that takes far longer than its peers
    is sent to another endpoint too (to the same one where there is no other): the first reply is taken, and the other
    request cancelled.
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        path: str = "",
        *,
        timeout: float,
        retries: int,
        concurrency: int | None,
        headers: Mapping[str, str],
        ca: str | None = None,
        largest: int = LARGEST_REPLY,
        spending: Spending | None = None,
    ) -> None:
        required("httpx", "a model behind a URL needs httpx: pip install 'whymask[http]'.")
        if not 0 < timeout < inf:
            raise WhymaskError(f"timeout must be a positive number of seconds, not {timeout!r}.")
        self.retries = whole("retries", retries, 0)
        most = MOST if concurrency is None else whole("concurrency", concurrency, 1)
        check_headers(headers)
        addresses = [_address(url, path) for url in urls_in(urls)]
        if any(url.userinfo for url in addresses) and "authorization" in map(str.lower, headers):
            raise WhymaskError(
                "the user and password in the URL would replace the Authorization header (for a chat server, api_key): "
                "pass only one of them."
            )
        self.endpoints = [Endpoint(url, shown(str(url)), Concurrency(most)) for url in dict.fromkeys(addresses)]
        self.shown = ",".join(endpoint.shown for endpoint in self.endpoints)
        self.spending = spending or Spending()
        # Credentials do not move a score.
        named = ((name.lower(), value) for name, value in headers.items())
        self._headers = sorted((name, value) for name, value in named if name not in CREDENTIALS)
        self._client = Client(addresses, headers, timeout=float(timeout), ca=ca, largest=largest)
        self._free = Endpoints(self.endpoints)
        self._ahead = asyncio.Semaphore(AHEAD)
        self._peers: deque[float] = deque(maxlen=64)  # seconds that the last replies took
        # A separate loop in its own thread: connections outlive a call of `ask`, which works beside the
        # running loop of a notebook too.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop, self._client), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop).atexit = False

    @property
    def fingerprint(self) -> str:
        """Identifies the servers; that they are one model is taken on trust.

        A query or a header may name a model or carry a key, so only a digest is here.
        """
        return ",".join(sorted(map(self._fingerprint, self.endpoints)))

    def _fingerprint(self, endpoint: Endpoint) -> str:
        sent = [endpoint.url.query, *(f"\n{name}: {value}".encode() for name, value in self._headers)]
        digest = hashlib.sha256(b"".join(sent)).hexdigest()[:16]
        return f"{endpoint.shown} {digest}" if any(sent) else endpoint.shown

    @property
    def at_once(self) -> int:
        """How many requests the first batches should have: several for each that is under way at first."""
        return 2 * sum(endpoint.concurrency.size for endpoint in self.endpoints)

    def ask(
        self, requests: Sequence[tuple[Body, Reader[T]]], images: Sequence[int] | None = None, *, hedge: bool = True
    ) -> list[T]:
        """What was read from the reply to each request, in order; the first failure ends them all.

        `images` says how many each of them holds, by default one. Without `hedge` late requests are waited for: of two
        answers drawn at random the first is likely to be the shorter one.
        """
        if not self._thread.is_alive():  # threads do not survive a fork, and the wait below would never end
            raise WhymaskError(f"the model at {self.shown} was created before the process was forked: create it again.")
        asked = self._all(requests, images or [1] * len(requests), hedge)
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # when the wait was interrupted

    async def _all(self, requests: Sequence[tuple[Body, Reader[T]]], images: Sequence[int], hedge: bool) -> list[T]:
        counted = zip(requests, images, strict=True)
        tasks = [asyncio.create_task(self._one(body, read, count, hedge)) for (body, read), count in counted]
        try:
            return await asyncio.gather(*tasks)
        finally:
            await _cancelled(tasks)

    async def _one(self, body: Body, read: Reader[T], images: int, hedge: bool) -> T:
        async with self._ahead:
            request = _Request(await asyncio.to_thread(lambda: json.dumps(body()).encode()), images, hedge)
            endpoint = await self._free.take()
        retry = False
        while True:
            try:
                return read(await self._hedged(request, endpoint, retry))
            except _TryFailedError as failed:
                if request.tried[failed.endpoint] > self.retries:
                    tries = request.tried.total()
                    message = f"{failed}; gave up after {'1 try' if tries == 1 else f'{tries} tries'}."
                    raise (StatusError(message, failed.status) if failed.status else WhymaskError(message)) from None
            endpoint, retry = await self._free.take(request.tried, urgent=True), True

    async def _hedged(self, request: _Request, endpoint: Endpoint, retry: bool) -> Any:
        """The reply to a request, or to a second copy of it where the first takes far longer than its peers."""
        sent, before = self._loop.time(), endpoint.failure
        first = asyncio.create_task(self._try(request, endpoint, retry=retry))
        first.add_done_callback(lambda _: self._free.give_back(endpoint))  # also where it is cancelled before it begins
        copies = {first}
        try:
            while not first.done():
                wait = sent + self._late - self._loop.time()
                await asyncio.wait(copies, timeout=max(SHORTEST / 10, min(wait, SHORTEST)))
                late = request.hedge and self._loop.time() - sent > self._late
                if late and not first.done() and self._may_hedge:
                    copies.add(asyncio.create_task(self._hedge(request, endpoint)))
                    break
            while True:
                done, copies = await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
                settled = [copy for copy in done if not isinstance(copy.exception(), _TryFailedError)]
                if settled and first not in done:
                    endpoint.slow(before)
                if settled or not copies:
                    return (settled or [*done])[0].result()
        finally:
            await _cancelled(copies)

    @property
    def _late(self) -> float:
        """Seconds after which a request takes far longer than its peers."""
        if len(self._peers) < PEERS:
            return UNKNOWN if len(self.endpoints) > 1 else inf
        return max(SHORTEST, LATE * median(self._peers))

    @property
    def _may_hedge(self) -> bool:
        spent = self.spending.spent
        return self.spending.left != 0 and spent.hedges < PEERS + HEDGED * spent.requests

    async def _hedge(self, request: _Request, endpoint: Endpoint) -> Any:
        """The reply to a second copy of a request, from another endpoint where there is one."""
        other = await self._free.take(urgent=True, but=endpoint if len(self.endpoints) > 1 else None)
        try:
            return await self._try(request, other, hedge=True)
        except ExhaustedError as error:  # the first copy is on its way
            raise _TryFailedError(str(error), other) from None
        finally:
            self._free.give_back(other)

    async def _try(self, request: _Request, endpoint: Endpoint, *, retry: bool = False, hedge: bool = False) -> Any:
        """The reply of an endpoint that was taken."""
        sent, under_way, before = self._loop.time(), endpoint.under_way, endpoint.failure
        try:
            self.spending.send(request.images, retry=retry, hedge=hedge)
            request.tried[endpoint] += 1
            reply = None
            try:
                reply = await self._client.post(endpoint.url, request.content, endpoint.shown)
            finally:
                self.spending.ended(request.images, reply)
        except NoReplyError as error:
            endpoint.failed(before, self._loop.time(), overloaded=error.overloaded, wait=error.wait)
            raise _TryFailedError(str(error), endpoint, error.status) from None
        seconds = self._loop.time() - sent
        self._peers.append(seconds)
        endpoint.replied(under_way, seconds)
        return reply


class _TryFailedError(Exception):
    """A try that ended without a reply."""

    def __init__(self, trouble: str, endpoint: Endpoint, status: int = 0) -> None:
        super().__init__(trouble)
        self.endpoint = endpoint
        self.status = status


async def _cancelled(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _run(loop: asyncio.AbstractEventLoop, client: Client) -> None:
    """Run a loop until it is stopped, then close the connections."""
    loop.run_forever()
    loop.run_until_complete(client.close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _address(url: Any, path: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host:
        raise WhymaskError("the URL of a model must look like http://host:port/path or https://host/path.")
    return address.copy_with(path=address.path.rstrip("/") + path) if path else address
