"""Batches: what searches ask for, cut into model batches, sent, and checked when the replies come."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from whymask.arrays import Floats, Rows, real_numbers
from whymask.errors import WhymaskError

ROUNDING = 1e-6  # a sum of probabilities may miss 0 or 1 by this much

Piece: TypeAlias = tuple[Any, Rows]
"""What a search is about and masked images of it: kept sets (B, n) or pixel masks (B, H, W)."""
BatchSize: TypeAlias = int | Callable[[], int] | None
"""The most images in one batch: a number, a function that is asked before each batch, or no limit."""
Replies: TypeAlias = Sequence[ArrayLike] | Callable[[], Sequence[ArrayLike]]
"""The responses to each piece of a batch, or, while a device computes them, a function that waits for them."""
RespondMany: TypeAlias = Callable[[Sequence[Piece]], Replies]
"""One model batch made of pieces of several searches -> the responses to each piece, at once or late."""


def send(
    pieces: Sequence[Piece], respond: RespondMany, batch_size: BatchSize, targets: int | None = None
) -> tuple[list[Floats], list[Callable[[], None]]]:
    """Cut the pieces into batches and send all of them.

    Returns arrays for the checked responses to each piece, (B,) or (B, targets), and functions that wait for the
    replies that are late and write them there.
    """
    found = [np.empty((len(rows),) if targets is None else (len(rows), targets)) for _, rows in pieces]
    late: list[Callable[[], None]] = []
    batch: list[tuple[Piece, Floats]] = []  # with the place for its responses
    room = _room(batch_size)

    def flush() -> None:
        parts = batch.copy()
        batch.clear()
        replies = respond([piece for piece, _ in parts])
        if callable(replies):
            late.append(lambda: _take(replies(), parts, targets))
        else:
            _take(replies, parts, targets)

    for (about, rows), places in zip(pieces, found, strict=True):
        while len(rows):
            some = rows if room is None else rows[:room]
            batch.append(((about, some), places[: len(some)]))
            rows, places = rows[len(some) :], places[len(some) :]
            if room is not None:
                room -= len(some)
                if not room:
                    flush()
                    room = _room(batch_size)
    if batch:
        flush()
    return found, late


def _take(replies: Sequence[ArrayLike], parts: Sequence[tuple[Piece, Floats]], targets: int | None) -> None:
    """Write the checked responses to a batch where they belong."""
    replies = list(replies)
    if len(replies) != len(parts):
        raise WhymaskError(f"the model was sent {len(parts)} parts of a batch but returned {len(replies)}.")
    for ((_, rows), place), responses in zip(parts, replies, strict=True):
        place[:] = check(responses, len(rows), targets)


def in_batches(
    pieces: Sequence[Piece], respond: RespondMany, batch_size: BatchSize, targets: int | None = None
) -> list[Floats]:
    """The checked responses to each piece, (B,) or (B, targets)."""
    found, late = send(pieces, respond, batch_size, targets)
    for wait in late:
        wait()
    return found


def _room(batch_size: BatchSize) -> int | None:
    return batch_size() if callable(batch_size) else batch_size


def check(responses: ArrayLike, count: int, targets: int | None = None) -> Floats:
    """The responses as float64 (count,) or (count, targets); an error says what is wrong with them."""
    values = real_numbers(responses)
    shape = (count,) if targets is None else (count, targets)
    if values.shape != shape:
        each = "one score" if targets is None else f"{targets} scores"
        raise WhymaskError(f"the model must return {each} per image, shape {shape}, but returned {values.shape}.")
    outside = values[(values < -ROUNDING) | (values > 1 + ROUNDING)]
    if len(outside):
        raise WhymaskError(f"scores must lie in [0, 1], but the model returned {outside[0]:.9g}.")
    return values.clip(0, 1)
