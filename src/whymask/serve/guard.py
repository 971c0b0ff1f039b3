"""What every request passes: who may ask, how much may be sent and how slowly, what browsers are told."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
LINGER = 5.0  # seconds for which the rest of a refused body is still taken


class RefusedError(Exception):
    """A request that is answered with an error: its status, a sentence, headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def response(self) -> JSONResponse:
        """The answer."""
        return JSONResponse({"error": str(self)}, self.status, headers=self.headers)


class Guard:
    """Turns away requests under a foreign host name (DNS rebinding) and changes asked for by other sites."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, with the headers every answer has."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self.check(scope["method"], Headers(scope=scope))
        except RefusedError as refused:
            await refused.response(scope, receive, guarded)
            return
        await self.app(scope, receive, guarded)

    def check(self, method: str, headers: Headers) -> None:
        """Refuse what does not come from this server's own page or from a program on the user's behalf."""
        host = headers.get("host", "")
        if hostname(f"//{host}") not in self.hosts:
            raise RefusedError(421, "this server is not known under that host name; start it with --allow-host.")
        if method in ("GET", "HEAD"):
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site not in (None, "same-origin") or (origin is not None and netloc(origin) != host):
            raise RefusedError(403, "only this server's own page may ask for that.")


def netloc(url: str) -> str | None:
    """Host and port of a URL, None where it is malformed."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def hostname(url: str) -> str | None:
    """The host name in a URL, None where there is none or it is malformed."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body, as long as it is not larger or slower than that."""
    length = request.headers.get("content-length", "0")
    body = bytearray()
    too_large = length.isdecimal() and int(length) > most
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                too_large = too_large or len(body) + len(chunk) > most
                if too_large:
                    break
                body += chunk
    except TimeoutError:
        raise RefusedError(408, f"the file did not arrive within {seconds:.0f} s.", Connection="close") from None
    except ClientDisconnect:
        raise RefusedError(400, "the connection was closed before the file was complete.") from None
    if too_large:
        body.clear()
        await drain(request, most, seconds)
        raise RefusedError(413, f"the file is larger than {most / 1e6:.0f} MB.", Connection="close")
    return bytes(body)


async def drain(request: Request, most: int, seconds: float) -> None:
    """Let a client that is refused finish sending, within bounds.

    A connection that is closed on unread data is reset, and the client may never see why it was refused.
    """
    with suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(min(seconds, LINGER)):
            async for chunk in request.stream():
                most -= len(chunk)
                if most < 0:
                    return
