"""Models behind a URL: requests with a deadline and retries, a few of them under way at once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import ssl
import threading
import weakref
from asyncio import sleep
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar
from urllib.parse import quote, unquote, unquote_plus

from PIL import Image

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import Canvas
from whymask.models.base import GridModel, Target, View
from whymask.models.packages import optional, required
from whymask.models.pixels import PixelBound
from whymask.utils.redact import shown

if TYPE_CHECKING:
    import httpx
else:
    httpx = optional("httpx")  # a model asks for it when it is made

T = TypeVar("T")
Body: TypeAlias = Callable[[], dict[str, Any]]
"""Makes the JSON of one request, in a thread: images are encoded while others are on their way."""
Reader: TypeAlias = Callable[[Any], T]
"""Takes what is needed from the JSON of a reply as soon as it is here, so that the rest is not kept."""

WHO = frozenset({"authorization", "cookie"})
RETRIED = frozenset({429, 500, 502, 503, 504})
FIRST_WAIT = 0.1  # seconds before the second try; doubles with every further one
LONGEST_WAIT = 30.0  # seconds, also when the server's Retry-After asks for more
LARGEST_REPLY = 4 * 2**20  # bytes; a usual one has a few hundred, and parsed JSON can take 25 times its size
LARGEST_REASON = 2**16  # bytes of an error reply that is quoted


class StatusError(WhymaskError):
    """A server answered with a status that is no success."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, eq=False)
class RemoteBound(PixelBound):
    """An image whose pixels (H, W, 3) uint8 are sent as they are."""

    sent: str | int | None  # what the server gets beside the image

    @classmethod
    def of(cls, view: View, target: Target, *, sent: str | int | None, probes: int) -> Self:
        """The bound of an image that is on its grid."""
        return cls(
            **vars(view),
            target=target,
            inputs=view.canvas,
            fill_inputs=view.fill,
            key=view.canvas.shape,
            probes=probes,
            channels_first=False,
            sent=sent,
        )


class Served(GridModel):
    """What models behind a URL share."""

    remote: Remote

    @property
    def retries_made(self) -> int:
        """How many requests had to be sent again so far."""
        return self.remote.retries_made


def png(canvas: Canvas) -> str:
    """Pixels (H, W, 3) as a PNG in base64."""
    file = BytesIO()
    Image.fromarray(canvas).save(file, "PNG", compress_level=1)  # a third of the default's time, a tenth larger
    return b64encode(file.getvalue()).decode()


class Remote:
    """A URL that takes JSON by POST and answers with JSON.

    Every try ends by `timeout`, from connecting to the last byte of the answer. Connection errors, timeouts and the
    statuses in RETRIED are tried again up to `retries` times; any other status fails at once. At most `largest` bytes
    of a reply are read, and one reply is parsed at a time. It must not be compressed, because a few bytes can
    decompress to gigabytes. Certificates are checked against the usual authorities (or those of SSL_CERT_FILE), and
    against those in the file `ca`.
    """

    def __init__(
        self,
        url: str,
        path: str = "",
        *,
        timeout: float,
        retries: int,
        concurrency: int,
        headers: Mapping[str, str],
        ca: str | None = None,
        largest: int = LARGEST_REPLY,
    ) -> None:
        required("httpx", "a model behind a URL needs httpx: pip install 'whymask[http]'.")
        self.url = _address(url, path)
        self.shown = shown(str(self.url))
        if not 0 < timeout < inf:
            raise WhymaskError(f"timeout must be a positive number of seconds, not {timeout!r}.")
        self.timeout = float(timeout)
        self.retries = whole("retries", retries, 0)
        self.retries_made = 0
        self._largest = largest
        whole("concurrency", concurrency, 1)
        for name, value in headers.items():
            if not all(text.isascii() and text.isprintable() and text == text.strip() for text in (name, value)):
                raise WhymaskError(f"the value of the header {name!r} holds characters that no header can carry.")
        if self.url.userinfo and "authorization" in map(str.lower, headers):
            raise WhymaskError(
                "the user and password in the URL would replace the Authorization header (for a chat server, api_key): "
                "pass only one of them."
            )
        self._secrets = _secrets(self.url, headers)
        # Who asks does not move a score.
        self._headers = sorted((name.lower(), value) for name, value in headers.items() if name.lower() not in WHO)
        self._slots = asyncio.Semaphore(concurrency)
        self._client = httpx.AsyncClient(
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity", **headers},
            timeout=self.timeout,
            verify=_certificates(ca, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))),
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
        )
        # A loop of its own in a thread of its own: connections outlive a call of `ask`, which works beside the
        # running loop of a notebook too.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop, self._client), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop).atexit = False

    @property
    def fingerprint(self) -> str:
        """Identifies a server. A query or a header may name a model or carry a key, so only a digest is here."""
        sent = [self.url.query, *(f"\n{name}: {value}".encode() for name, value in self._headers)]
        digest = hashlib.sha256(b"".join(sent)).hexdigest()[:16]
        return f"{self.shown} {digest}" if any(sent) else self.shown

    def ask(self, requests: Sequence[tuple[Body, Reader[T]]]) -> list[T]:
        """What was read from the reply to each request, in order; the first failure ends them all."""
        if not self._thread.is_alive():  # threads do not survive a fork, and the wait below would never end
            raise WhymaskError(f"the model at {self.shown} was made before this process was forked: make it again.")
        future = asyncio.run_coroutine_threadsafe(self._all(requests), self._loop)
        try:
            return future.result()
        finally:
            future.cancel()  # when the wait was interrupted

    async def _all(self, requests: Sequence[tuple[Body, Reader[T]]]) -> list[T]:
        tasks = [asyncio.create_task(self._one(body, read)) for body, read in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, body: Body, read: Reader[T]) -> T:
        async with self._slots:
            content = await asyncio.to_thread(lambda: json.dumps(body()).encode())
            backoff, tries, status = FIRST_WAIT, 0, 0
            while True:
                wait, tries, status = backoff, tries + 1, 0
                try:
                    async with asyncio.timeout(self.timeout):
                        response, reply = await self._post(content)
                except (TimeoutError, httpx.TimeoutException):
                    trouble = f"gave no answer within {self.timeout:g} s"
                except httpx.RequestError as error:
                    trouble = f"could not be asked{self._quoted(str(error) or type(error).__name__)}"
                else:
                    if response.is_success:
                        return read(self._json(response, reply))
                    status = response.status_code
                    trouble = f"answered {_status(response)}{self._reason(response, reply)}"
                    if response.status_code not in RETRIED:
                        break
                    wait = max(wait, _asked_to_wait(response))
                if tries > self.retries:
                    break
                await sleep(min(wait, LONGEST_WAIT))
                self.retries_made += 1
                backoff = min(2 * backoff, LONGEST_WAIT)
            message = f"{self.shown} {trouble}; gave up after {tries} {'try' if tries == 1 else 'tries'}."
            raise StatusError(message, status) if status else WhymaskError(message)

    async def _post(self, content: bytes) -> tuple[httpx.Response, bytes | None]:
        """The response, and its content unless that is too large."""
        reply = bytearray()
        async with self._client.stream("POST", self.url, content=content) as response:
            async for chunk in response.aiter_raw():
                reply += chunk
                if len(reply) > self._largest:
                    return response, None
        return response, bytes(reply)

    def _json(self, response: httpx.Response, reply: bytes | None) -> Any:
        """The JSON of a reply; all its numbers are floats, so an integer of 400 digits is infinite."""
        if reply is None:
            trouble = f"with more than {self._largest // 2**20} MiB"
        elif _compressed(response):
            trouble = "with compressed content, which was not asked for"
        else:
            try:
                return json.loads(reply, parse_int=float)
            except (ValueError, RecursionError):
                trouble = "but not with JSON"
        raise WhymaskError(f"{self.shown} answered {_status(response)} {trouble}.")

    def _reason(self, response: httpx.Response, reply: bytes | None) -> str:
        """What the server says about an error."""
        page = "html" in response.headers.get("Content-Type", "")
        if page or reply is None or len(reply) > LARGEST_REASON or _compressed(response):
            return ""
        return self._quoted(reply.decode(errors="replace"))

    def _quoted(self, text: str) -> str:
        """The beginning of a text in brackets, on one line and without secrets that it may repeat."""
        text = "".join(character if character.isprintable() else " " for character in text)
        text = " ".join(self._secrets.sub("***", text).split())[:200]
        return f" ({text.rstrip('.')})" if text else ""


def _secrets(url: httpx.URL, headers: Mapping[str, str]) -> re.Pattern[str]:
    """Matches user, password, query values and words of headers, in every form in which a server may repeat them."""
    pairs = url.query.decode().split("&")
    sent = [*url.userinfo.decode().split(":", 1), *(pair.partition("=")[2] or pair for pair in pairs)]
    texts = {decoded for text in sent for decoded in (text, unquote(text), unquote_plus(text))}
    texts.update(word for value in headers.values() for word in value.split())
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


def _run(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    """The life of a loop: until its Remote is gone."""
    loop.run_forever()
    loop.run_until_complete(client.aclose())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


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


def _address(url: str, path: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        address = httpx.URL("")
    if address.scheme not in ("http", "https") or not address.host:
        raise WhymaskError("the URL of a model must look like http://host:port/path or https://host/path.")
    return address.copy_with(path=address.path.rstrip("/") + path) if path else address


def _status(response: httpx.Response) -> str:
    """The number with its usual name: a server may call it anything."""
    return f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".rstrip()


def _compressed(response: httpx.Response) -> bool:
    return response.headers.get("Content-Encoding", "").lower() not in ("", "identity")


def _asked_to_wait(response: httpx.Response) -> float:
    """Seconds the server asks for; a Retry-After that is a date counts as none."""
    wanted: str = response.headers.get("Retry-After", "")
    return float(wanted) if wanted.isascii() and wanted.isdigit() else 0.0
