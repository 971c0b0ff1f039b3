"""Sends masked images to the model: pieces of many searches in common batches."""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats, Rows
from whymask.images.masking import blend, compose, stack
from whymask.images.partition import Partition
from whymask.models.base import Bound, Launched, Model, RespondsEach, Response, meaning
from whymask.models.batching import Batching, is_out_of_memory, too_large
from whymask.models.spending import Spends, Spent, account
from whymask.search.batches import Piece
from whymask.search.objective import pack
from whymask.search.oracle import Responses

MARGIN = np.array([1.0, -1.0])
Computed = TypeVar("Computed")


class Owner(Protocol):
    """What the responder must know of a case."""

    model: Model
    partition: Partition
    batching: Batching
    before_batch: Callable[[int], None] | None
    spent: Spent


@dataclass(eq=False)
class Filled:
    """The image of a case on one fill, and every response to masked versions of it.

    With `each` a response is a score for every one of these answers; as a `margin`, how far the first of two is above
    the second, or 0.
    """

    case: Owner
    bound: Bound
    responses: Responses = field(default_factory=Responses)
    each: tuple[Bound, ...] = ()
    margin: bool = False

    @property
    def key(self) -> Hashable:
        """What can share a batch has the same."""
        return id(self.case.model), self.bound.key, tuple(meaning(bound) for bound in self.each), self.margin

    @cached_property
    def _index(self) -> Any:
        return self.bound.index(self.case.partition.labels)

    def inputs(self, rows: Rows, room: Any = None) -> Any:
        """The masked inputs (B, ...) of kept sets (B, n) or pixel masks (B, H, W), sets in the memory of `room`."""
        x, x0 = self.bound.inputs, self.bound.fill_inputs
        if rows.dtype == np.bool_:
            return compose(rows, self._index, x, x0, room)
        return blend(rows, self.bound.pixel, x, x0)


class Responder:
    """Answers the driver's batches: each piece is about a `Filled`, and rows that fit together share a forward.

    A batch that does not fit into memory is sent in halves. Replies are late where a model launches its forwards.
    """

    def __init__(self) -> None:
        self._room: dict[Hashable, Any] = {}  # the last batch of tensors: the next of its kind reuses its memory

    def __call__(self, pieces: Sequence[Piece]) -> list[Floats] | Callable[[], list[Floats]]:
        """The scores of each piece, or, while a device computes them, a function that waits for them."""
        by_key: dict[Hashable, list[int]] = {}
        for i, (filled, _) in enumerate(pieces):
            by_key.setdefault(filled.key, []).append(i)
        forwards = [self._forward([pieces[i] for i in together]) for together in by_key.values()]

        def read() -> list[Floats]:
            answers: list[Floats] = [np.empty(0)] * len(pieces)
            for together, forward in zip(by_key.values(), forwards, strict=True):
                scores = forward() if callable(forward) else forward
                for i, own in zip(together, _by_piece(scores, [pieces[i] for i in together]), strict=True):
                    answers[i] = own
            return answers

        return read if any(map(callable, forwards)) else read()

    def _forward(self, pieces: Sequence[Piece]) -> Floats | Callable[[], Floats]:
        """The scores of pieces that share a forward, or a function that waits for them."""
        case: Owner = pieces[0][0].case
        count = sum(len(rows) for _, rows in pieces)
        if case.before_batch:
            case.before_batch(count)
        start, before = time.perf_counter(), account(case.model)
        response = self._attempt(pieces, count)
        if response is None:
            return self._halved(pieces, count)
        seconds = time.perf_counter() - start
        spent = account(case.model) - before
        if isinstance(case.model, Spends):
            case.model.spending.responded(count, spent.requests)
        for filled, rows in pieces:
            filled.case.spent += spent * (len(rows) / count)
        if not isinstance(response, Launched):
            return _noted(response, pieces, count, seconds)

        def read() -> Floats:
            arrived = self._unless_out_of_memory(lambda: response.arrived)
            return self._halved(pieces, count) if arrived is None else _noted(arrived[0], pieces, count, arrived[1])

        return read

    def _halved(self, pieces: Sequence[Piece], count: int) -> Floats:
        """The scores of a batch that did not fit into memory."""
        if count == 1:
            raise too_large()
        case: Owner = pieces[0][0].case
        case.batching.out_of_memory(count)
        forwards = [self._forward(half) for half in halves(pieces)]
        return np.concatenate([forward() if callable(forward) else forward for forward in forwards])

    def _attempt(self, pieces: Sequence[Piece], count: int) -> Response | None:
        """The response to a batch; None when memory ran out."""
        first: Filled = pieces[0][0]
        room, key = self._room, first.key
        if key not in room or len(room[key]) < count:
            room.clear()  # first, so that two batches are never held at once

        def respond() -> Response:
            if len(pieces) == 1:  # one image: its batches can be composed in the same memory
                inputs = first.inputs(pieces[0][1], room.get(key))
                if not isinstance(inputs, np.ndarray):  # only tensors are composed in given memory
                    room.setdefault(key, inputs)
            else:
                inputs = stack([filled.inputs(rows) for filled, rows in pieces])
            model = first.case.model
            if first.each and isinstance(model, RespondsEach):
                found = model.respond_each(inputs, first.each)
                return Response((found.score @ MARGIN).clip(0), found.top) if first.margin else found
            return model.respond(inputs, [filled.bound for filled, rows in pieces for _ in rows])

        return self._unless_out_of_memory(respond)

    def _unless_out_of_memory(self, compute: Callable[[], Computed]) -> Computed | None:
        """What is computed; None when memory ran out, and then nothing of the batch is left in it."""
        try:
            return compute()
        except Exception as error:  # of any library
            if not is_out_of_memory(error):
                raise
            self._room.clear()
            return None


def _noted(response: Response, pieces: Sequence[Piece], count: int, seconds: float) -> Floats:
    """The scores of a forward, after its time and the answers that the model gave are noted."""
    pieces[0][0].case.batching.record(count, seconds)
    if response.top is not None:
        for (filled, rows), answers in zip(pieces, _by_piece(response.top, pieces), strict=True):
            filled.responses.answers.update(zip(pack(rows), answers.tolist(), strict=True))
    return response.score


def _by_piece(values: NDArray[Any], pieces: Sequence[Piece]) -> list[NDArray[Any]]:
    return np.split(values, np.cumsum([len(rows) for _, rows in pieces])[:-1])


def halves(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The same rows in two lists of pieces, about half of them in each."""
    left = sum(len(rows) for _, rows in pieces) // 2
    first: list[Piece] = []
    second: list[Piece] = []
    for about, rows in pieces:
        if left:
            first.append((about, rows[:left]))
        if len(rows) > left:
            second.append((about, rows[left:]))
        left = max(0, left - len(rows))
    return first, second
