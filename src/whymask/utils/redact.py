"""Keeps secrets out of files, messages and pages.

These are secret: the user, password, query and fragment of a URL, texts of options with a name such as api_key, the
values of headers, and the environment's variables with such names.
"""

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from whymask.errors import WhymaskError

NAME = re.compile(
    r"auth|authorization|cookies?|credentials?|.*(token|secret|password|passwd|passphrase)s?"
    r"|(.*[_-])?(api|access|private)?(key|pwd)s?([_-]id)?",
    re.IGNORECASE,
)
HEADER = re.compile("auth|key|token|secret|passw|cookie|credential|session|signature", re.IGNORECASE)
URL = re.compile(
    r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://|https?:)[^\s'\"<>]*[^\s'\"<>).,;:]", re.IGNORECASE
)  # without the punctuation after it
SHORTEST = 4  # characters; what is shorter would be found everywhere in a text
SHORTEST_VARIABLE = 8  # characters; a variable named like a secret often holds none
LIST = re.compile(r"\s*,\s*(?=https?:)", re.IGNORECASE)


def urls_in(urls: Any) -> list[Any]:
    """The URLs of a list, or of a text in which commas separate them; a query may hold other commas.

    >>> urls_in("http://a/v1?only=x,y, https://b/v1")
    ['http://a/v1?only=x,y', 'https://b/v1']
    """
    if isinstance(urls, str):
        return LIST.split(urls.strip())
    return [*urls] if isinstance(urls, list | tuple) and urls else [urls]


def shown(url: str) -> str:
    """The URL without user, password, query and fragment, which may hold secrets; of several, each of them.

    Any text is accepted, and one without "@", "?" and "#" is returned unchanged. Where it is unclear which part is
    the host (a password with an unescaped "/"), only the scheme is left.

    >>> shown("https://ann:secret@host:8000/score?key=secret"), shown("http://ann:se/cret@host"), shown("timm:resnet18")
    ('https://host:8000/score', 'http://***', 'timm:resnet18')
    """
    if not re.search("[@?#]", url):
        return url
    if len(urls := urls_in(url)) > 1:
        return ",".join(map(shown, urls))
    parts = re.match(r"(https?:/*|[a-z][a-z0-9+.-]*://|)([^/?#]*)([^?#]*)", url, re.IGNORECASE)
    assert parts is not None  # every part may be empty
    scheme, authority, path = parts.groups()
    host = authority.rpartition("@")[2]
    if not re.fullmatch(r"(\[[^][@]*\]|[^][:@\s]*)(:[0-9]*)?", host):
        return f"{scheme}***"
    return f"{scheme}{host}{path}"


def public(value: Any) -> Any:
    """The value without secrets: texts that are named like one are left out of mappings, URLs are shortened.

    Headers are kept as digests, unless they are named like a secret: one may say which model a server uses.
    """
    if isinstance(value, Mapping):
        entries = {name: entry for name, entry in value.items() if not (NAME.fullmatch(str(name)) and _has_text(entry))}
        hidden = {*_environment()}
        return {
            name: _digests(entry) if name == "headers" else public(entry)
            for name, entry in entries.items()
            if not (isinstance(entry, str) and entry in hidden)
        }
    if isinstance(value, list | tuple):
        return [public(entry) for entry in value]
    if isinstance(value, str):
        return shown(value) if URL.match(value) else redacted(value)
    return value


def secrets_in(value: Any) -> set[str]:
    """The texts in a value, and in the environment, that nobody else may see."""
    return {text for text in [*_environment(), *_secrets(value)] if len(text) >= SHORTEST}


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with *** for each of the secrets and with shortened URLs."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return URL.sub(lambda url: shown(url[0]), text)


@contextmanager
def redacted_errors(secrets: Iterable[str]) -> Iterator[None]:
    """Errors whose text holds a secret are raised as a `WhymaskError` without it."""
    try:
        yield
    except Exception as error:
        text = redacted(str(error), secrets)
        if text == str(error):
            raise
        kind = type(error)
        raise (kind(text) if isinstance(error, WhymaskError) else WhymaskError(f"{kind.__name__}: {text}")) from None


def _has_text(value: Any) -> bool:
    """Whether a value is a text, or holds one: numbers are settings, however they are named."""
    if isinstance(value, Mapping):
        return any(map(_has_text, value.values()))
    return isinstance(value, str | bytes) or (isinstance(value, list | tuple) and any(map(_has_text, value)))


def _digests(headers: Any) -> Any:
    if not isinstance(headers, Mapping):
        return None
    return {
        name: hashlib.sha256(str(value).encode()).hexdigest()[:16]
        for name, value in headers.items()
        if not HEADER.search(str(name))
    }


def _environment() -> list[str]:
    return [text for name, text in os.environ.items() if NAME.fullmatch(name) and len(text) >= SHORTEST_VARIABLE]


def _secrets(value: Any, named: bool = False) -> Iterator[str]:
    """The secrets in a value; all its texts where its name is that of a secret."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from _secrets(entry, named or name == "headers" or NAME.fullmatch(str(name)) is not None)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _secrets(entry, named)
    elif isinstance(value, str):
        if named:
            yield value
            yield from value.split()  # Bearer TOKEN
        for found in [value] if URL.match(value) else [found[0] for found in URL.finditer(value)]:
            for url in urls_in(found):
                yield from _url(url)


def _url(url: str) -> Iterator[str]:
    """Password and query of a URL, as they are written and as they are meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    user = parts.netloc.rpartition("@")[0]
    password = user.partition(":")[2]
    for text in (password, parts.query, parts.fragment):
        yield from (text, unquote(text))
    yield b64encode(unquote(user).encode()).decode()
    yield from (value for pair in parts.query.split("&") for value in pair.split("=")[1:])
    yield from (value for _, value in parse_qsl(parts.query))
