"""Sends JSON by POST and reads the reply; errors quote it without secrets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, unquote_plus

from whymask.errors import WhymaskError
from whymask.models.packages import optional

if TYPE_CHECKING:
    import httpx
else:
    httpx = optional("httpx")

RETRIED = frozenset({429, 500, 502, 503, 504})
OVERLOADED = frozenset({429, 503})
LARGEST_REPLY = 4 * 2**20  # bytes; a usual one has a few hundred, and parsed JSON can take 25 times its size
SCHEMES = frozenset({"basic", "bearer"})  # words of an Authorization header that are not secret
LARGEST_REASON = 2**16  # bytes of an error reply that is quoted


class StatusError(WhymaskError):
    """A server answered with an error status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class NoReplyError(Exception):
    """A request that may be sent again: to another endpoint, or to the same one later."""

    def __init__(self, trouble: str, status: int = 0, *, overloaded: bool = False, wait: float = 0.0) -> None:
        super().__init__(trouble)
        self.status = status  # 0 where there was none
        self.overloaded = overloaded
        self.wait = wait  # seconds, where the server asks for a pause


class Client:
    """Sends JSON by POST and reads JSON.

    At most `largest` bytes of a reply are read, and one reply is parsed at a time. It must not be compressed, because a
    few bytes can decompress to gigabytes. Certificates are checked against the usual authorities (or those of
    SSL_CERT_FILE), and against those in the file `ca`. What servers say about errors is quoted without the secrets of
    any URL or header.
    """

    def __init__(
        self,
        urls: Collection[httpx.URL],
        headers: Mapping[str, str],
        *,
        timeout: float,
        ca: str | None = None,
        largest: int = LARGEST_REPLY,
    ) -> None:
        self.timeout, self._largest = timeout, largest
        self._secrets = _secrets(urls, headers)
        options: dict[str, Any] = {
            "headers": {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers},
            "timeout": timeout,
            "verify": _certificates(ca, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None),  # endpoints have limits
        }
        # A pool for each: every request looks at all connections of its pool.
        self._http = {url: httpx.AsyncClient(**options) for url in urls}

    async def close(self) -> None:
        """Close all connections."""
        for client in self._http.values():
            await client.aclose()

    async def post(self, url: httpx.URL, content: bytes, name: str) -> Any:
        """The JSON of the reply; all its numbers are floats, so an integer of 400 digits is infinite.

        Where the request may be sent again, this raises a `NoReplyError`, where that would not help, a `WhymaskError`.
        Both messages call the server `name`.
        """
        try:
            async with asyncio.timeout(self.timeout):
                response, reply = await self._send(url, content)
        except (TimeoutError, httpx.TimeoutException):
            raise NoReplyError(f"{name} did not reply within {self.timeout:g} s", overloaded=True) from None
        except httpx.RequestError as error:
            reason = self._quoted(str(error) or type(error).__name__)
            raise NoReplyError(f"{name} could not be reached{reason}") from None
        if response.is_success:
            return self._json(response, reply, name)
        trouble, status = f"{name} answered {_status(response)}{self._reason(response, reply)}", response.status_code
        if status not in RETRIED:
            raise StatusError(f"{trouble}; gave up after 1 try.", status)
        wait = asked_to_wait(response.headers.get("Retry-After", ""))
        raise NoReplyError(trouble, status, overloaded=status in OVERLOADED, wait=wait)

    async def _send(self, url: httpx.URL, content: bytes) -> tuple[httpx.Response, bytes | None]:
        """The response, and its content unless that is too large."""
        reply = bytearray()
        async with self._http[url].stream("POST", url, content=content) as response:
            async for chunk in response.aiter_raw():
                reply += chunk
                if len(reply) > self._largest:
                    return response, None
        return response, bytes(reply)

    def _json(self, response: httpx.Response, reply: bytes | None, name: str) -> Any:
        if reply is None:
            trouble = f"with more than {self._largest // 2**20} MiB"
        elif _compressed(response):
            trouble = "with compressed content, which was not asked for"
        else:
            try:
                return json.loads(reply, parse_int=float)
            except (ValueError, RecursionError):
                trouble = "but not with JSON"
        raise WhymaskError(f"{name} answered {_status(response)} {trouble}.")

    def _reason(self, response: httpx.Response, reply: bytes | None) -> str:
        """What the server says about an error."""
        page = "html" in response.headers.get("Content-Type", "")
        if page or reply is None or len(reply) > LARGEST_REASON or _compressed(response):
            return ""
        return self._quoted(_message(reply))

    def _quoted(self, text: str) -> str:
        """The beginning of a text in brackets, on one line and without secrets that it may repeat."""
        text = "".join(character if character.isprintable() else " " for character in text)
        text = " ".join(self._secrets.sub("***", text).split())[:200]
        return f" ({text.rstrip('.')})" if text else ""


def _message(reply: bytes) -> str:
    """What an error reply says: its message, where it is JSON as OpenAI's, FastAPI's or SGLang's, else all of it.

    >>> _message(b'{"error": {"message": "no such model", "code": 404}}'), _message(b'{"detail": "wrong key"}')
    ('no such model', 'wrong key')
    >>> _message(b'{"error": 7}'), _message(b"busy")
    ('{"error": 7}', 'busy')
    """
    try:
        found = json.loads(reply)
    except (ValueError, RecursionError):
        found = None
    while isinstance(found, dict):
        found = next((found[name] for name in ("error", "message", "detail") if name in found), None)
    return found if isinstance(found, str) and found else reply.decode(errors="replace")


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise an error for a value that no header can carry, without showing it."""
    for name, value in headers.items():
        if not all(text.isascii() and text.isprintable() and text == text.strip() for text in (name, value)):
            raise WhymaskError(f"the value of the header {name!r} contains characters that a header cannot contain.")


def asked_to_wait(wanted: str) -> float:
    """Seconds that a Retry-After asks for: a number of them, or a date; anything else counts as none.

    >>> asked_to_wait("7"), asked_to_wait("Thu, 01 Jan 1970 00:00:00 GMT"), asked_to_wait("soon")
    (7.0, 0.0, 0.0)
    """
    if wanted.isascii() and wanted.isdigit():
        return float(wanted)
    try:
        date = parsedate_to_datetime(wanted)
    except ValueError:
        return 0.0
    if date.tzinfo is None:  # "-0000", which means UTC
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _secrets(urls: Iterable[httpx.URL], headers: Mapping[str, str]) -> re.Pattern[str]:
    """Matches user, password, query values and words of headers, in every form in which a server may repeat them."""
    texts = {word for value in headers.values() for word in value.split() if word.lower() not in SCHEMES}
    for url in urls:
        pairs = url.query.decode().split("&")
        sent = [*url.userinfo.decode().split(":", 1), *(pair.partition("=")[2] or pair for pair in pairs)]
        texts.update(decoded for text in sent for decoded in (text, unquote(text), unquote_plus(text)))
        if url.userinfo:
            texts.add(b64encode(f"{url.username}:{url.password}".encode()).decode().rstrip("="))
    forms = texts | {quote(text, safe="") for text in texts}
    forms |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in texts for ascii in (True, False)}
    longest_first = sorted(forms - {""}, key=len, reverse=True)
    # Short ones only as whole words: a password "a" would leave nothing of the text.
    return re.compile(
        "|".join(re.escape(form) if len(form) > 5 else rf"(?<!\w){re.escape(form)}(?!\w)" for form in longest_first)
        or "(?!)",  # matches nothing
        re.IGNORECASE,
    )


@cache
def _certificates(ca: str | None, *_environment: str | None) -> ssl.SSLContext:
    """The authorities that are trusted, read once: that takes longer than a request."""
    try:
        context = httpx.create_ssl_context()
        if ca is not None:
            context.load_verify_locations(ca)
    except (OSError, TypeError) as error:  # ssl.SSLError is an OSError
        what = "SSL_CERT_FILE" if ca is None else f"ca={ca!r}"
        raise WhymaskError(f"{what} must name a file of certificates in PEM format: {error}.") from None
    return context


def _status(response: httpx.Response) -> str:
    """The number with its usual name: a server may call it anything."""
    return f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".rstrip()


def _compressed(response: httpx.Response) -> bool:
    return response.headers.get("Content-Encoding", "").lower() not in ("", "identity")
