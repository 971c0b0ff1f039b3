"""Exceptions for users: each message says in one sentence what to change."""

from collections.abc import Iterable
from difflib import get_close_matches
from operator import index
from typing import Any


class WhymaskError(ValueError):
    """Something the caller can correct."""


class ImageError(WhymaskError):
    """Something that is wrong with one image, such as a damaged file: others can still be explained."""


class ExhaustedError(WhymaskError):
    """A limit of requests or cost is reached: a search returns its best so far."""


def unknown(kind: str, name: str, known: Iterable[str]) -> WhymaskError:
    """An error for a name that does not exist, with the closest one that does."""
    names = {option.lower(): option for option in sorted(known)}
    wanted = str(name).lower()
    # Words of a name beat a similar spelling: "cat" means "tabby cat", not "crate".
    words = [names[option] for option in names if f" {wanted} " in f" {option} "]
    close = words[:5] or [names[match] for match in get_close_matches(wanted, names, n=1, cutoff=0.5)]
    if close:
        return WhymaskError(f"unknown {kind} {name!r}; did you mean {' or '.join(map(repr, close))}?")
    some = ", ".join(list(names.values())[:20])
    more = f", ... ({len(names)} in all)" if len(names) > 20 else ""
    return WhymaskError(f"unknown {kind} {name!r}; known: {some}{more}.")


def whole(name: str, value: Any, least: int) -> int:
    """The value as an int; an error unless it is a whole number of at least `least`."""
    if not isinstance(value, bool):
        try:
            if index(value) >= least:
                return index(value)
        except TypeError:
            pass
    raise WhymaskError(f"{name} must be a whole number of at least {least}, not {value!r}.")


def first_line(error: BaseException) -> str:
    r"""The first line of an error's message; its type where it has no message.

    >>> first_line(ValueError("no such layer\nhint: ...")), first_line(MemoryError())
    ('no such layer', 'MemoryError')
    """
    return str(error).strip().partition("\n")[0].rstrip() or type(error).__name__
