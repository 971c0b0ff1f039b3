"""What every request passes: who may ask, the headers of every response, and how errors are reported."""

import secrets
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whymask.errors import WhymaskError

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
ENTRY = '<!doctype html><title>whymask</title><meta http-equiv="refresh" content="0;url=/">'


class RequestError(Exception):
    """An error response: its status, a message, headers."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def response(self) -> JSONResponse:
        """The error as JSON: {"error": one line}."""
        return JSONResponse({"error": str(self)}, self.status, headers=self.headers)


Respond = Callable[[RequestError], Response]


def protect(
    app: FastAPI, hosts: Collection[str], token: str | None, respond: Respond = lambda error: error.response
) -> None:
    """Put a `Guard` in front of an application, and report its errors by `respond`."""
    app.add_middleware(Guard, hosts=hosts, token=token, respond=respond)

    @app.exception_handler(RequestError)
    async def request_error(_: Request, error: RequestError) -> Response:
        return respond(error)

    @app.exception_handler(WhymaskError)
    async def user_error(_: Request, error: WhymaskError) -> Response:
        return respond(RequestError(400, str(error)))

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def http_error(_: Request, error: Any) -> Response:
        return respond(RequestError(error.status_code, f"{error.detail.lower()}.", **(error.headers or {})))


class Guard:
    """Refuses requests under a foreign host name (DNS rebinding), changes asked for by other sites, and strangers.

    Where there is a token, every request must bring it: as a cookie, which the address with "?token=" sets, or as
    "Authorization: Bearer".
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        token: str | None = None,
        respond: Respond = lambda error: error.response,
    ) -> None:
        self.app, self.hosts, self.token = app, {host.lower() for host in hosts}, token
        self.respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, with the headers of every response."""
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

        headers = Headers(scope=scope)
        try:
            self.check(scope["method"], headers)
            entry = self.enter(scope, headers)
        except RequestError as error:
            await self.respond(error)(scope, receive, guarded)
            return
        await (entry or self.app)(scope, receive, guarded)

    def check(self, method: str, headers: Headers) -> None:
        """Refuse what does not come from this server's own page or from a program on the user's behalf."""
        host = headers.get("host", "")
        if parsed(f"//{host}").hostname not in self.hosts:
            raise RequestError(421, "this server is not known under that host name; start it with --allow-host.")
        if method in ("GET", "HEAD"):
            return
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site not in (None, "same-origin") or (origin is not None and parsed(origin).netloc != host):
            raise RequestError(403, "only this server's own page may send such requests.")

    def enter(self, scope: Scope, headers: Headers) -> Response | None:
        """Check the token; returns the response that exchanges one in the address for a cookie."""
        if self.token is None:
            return None
        cookie = f"whymask-{(scope.get('server') or ('', 0))[1]}"  # cookies are shared by all ports of a host
        (given,) = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1:]
        if scope["method"] == "GET" and scope["path"] == "/" and self._is_token(given):
            # The page loads itself again without the token. A redirect would not do: where it begins at a link on
            # another site, browsers do not send a strict cookie along.
            response = HTMLResponse(ENTRY)
            response.set_cookie(cookie, given, httponly=True, samesite="strict")
            return response
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(bearer) or self._is_token(cookie_parser(headers.get("cookie", "")).get(cookie, "")):
            return None
        raise RequestError(401, "open the address that 'whymask serve' printed: it has the token.")

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), (self.token or "").encode())


def parsed(url: str) -> SplitResult:
    """The parts of a URL; all of them are empty where it is malformed."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
