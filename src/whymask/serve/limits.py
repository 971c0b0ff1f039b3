"""Limits on what requests use: how much may be sent, how slowly, and how much work goes on at a time."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from whymask.serve.guard import RequestError

LINGER = 5.0  # seconds for which the rest of a refused body is still taken
P = ParamSpec("P")
R = TypeVar("R")


def unavailable(what: str = "images") -> RequestError:
    """The error while there is no room for another of these."""
    return RequestError(
        503, f"too many {what} are waiting; try again in a moment.", Retry_After="10", Connection="close"
    )


class Upload:
    """A body on its way in."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self.limit, self.started, self.received = limit, time.monotonic(), 0

    @property
    def pace(self) -> tuple[float, float]:
        """Bytes per second, and of two that are as slow, the later one is ahead."""
        return self.received / (time.monotonic() - self.started + 0.1), self.started


class Uploads:
    """Bodies of at most `size` bytes that arrive within `seconds`, a limited number at a time.

    When all places are taken, a new body ends the slowest one: nobody can keep others out by sending slowly.
    """

    def __init__(self, most: int, size: int, seconds: float) -> None:
        self.most, self.size, self.seconds = most, size, seconds
        self.active: set[Upload] = set()

    async def read(self, request: Request) -> bytes:
        """The body of a request."""
        length = request.headers.get("content-length", "0")
        body = bytearray()
        too_large = length.isdecimal() and int(length) > self.size
        try:
            async with asyncio.timeout(self.seconds) as limit:
                upload = self._enter(limit)
                async for chunk in request.stream():
                    too_large = too_large or len(body) + len(chunk) > self.size
                    if too_large:
                        break
                    body += chunk
                    upload.received = len(body)
        except TimeoutError:
            raise RequestError(408, "the file did not arrive in time.", Connection="close") from None
        except ClientDisconnect:
            raise RequestError(400, "the connection was closed before the file was complete.") from None
        finally:
            self.active.discard(upload)
        if too_large:
            body.clear()
            await self.drain(request)
            raise RequestError(413, f"the file is larger than {self.size / 1e6:.0f} MB.", Connection="close")
        return bytes(body)

    def _enter(self, limit: asyncio.Timeout) -> Upload:
        if len(self.active) >= self.most:
            slowest = min(self.active, key=lambda one: one.pace)
            slowest.limit.reschedule(asyncio.get_running_loop().time())
            self.active.discard(slowest)
        upload = Upload(limit)
        self.active.add(upload)
        return upload

    async def drain(self, request: Request) -> None:
        """Let a client that is refused finish sending, within bounds.

        A connection that is closed on unread data is reset, and the client may never see why it was refused.
        """
        left = self.size
        with suppress(TimeoutError, ClientDisconnect, RuntimeError):  # the last of these where all has arrived
            async with asyncio.timeout(min(self.seconds, LINGER)):
                async for chunk in request.stream():
                    left -= len(chunk)
                    if left < 0:
                        return


class Turns:
    """Work in threads, `places` of it at a time.

    A request is refused where `most` are here already, and where its work has not begun after `seconds`.
    """

    def __init__(self, places: int, *, most: int, seconds: float, what: str) -> None:
        self.places, self.most, self.seconds, self.what = asyncio.Semaphore(places), most, seconds, what
        self.here = 0

    @property
    def full(self) -> bool:
        """Whether another request would be refused."""
        return self.here >= self.most

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do it when it is its turn."""
        if self.full:
            raise unavailable(self.what)
        self.here += 1
        try:
            try:
                async with asyncio.timeout(self.seconds):
                    await self.places.acquire()
            except TimeoutError:
                raise unavailable(self.what) from None
            try:
                return await run_in_threadpool(work, *args, **kwargs)
            finally:
                self.places.release()
        finally:
            self.here -= 1
