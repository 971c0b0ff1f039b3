"""The scores that a result reports, and the controls of its mask, in common batches."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.explainer.answers import first_choices
from whymask.explainer.binding import bind
from whymask.explainer.responder import Filled
from whymask.images.controls import control_pictures
from whymask.images.panels import cut
from whymask.images.partition import Partition
from whymask.models.base import Bound, Measures, Model
from whymask.results.verdict import Controls, Kept
from whymask.search.batches import Piece
from whymask.search.objective import SUFFICIENCY, OverFills, over_fills
from whymask.search.oracle import Oracle


class Explained(Protocol):
    """The part of a `Case` that this module uses; case.py imports it."""

    model: Model
    bound: Bound
    partition: Partition
    settings: dict[str, Any]
    fills: tuple[Filled, ...]
    over_fills: OverFills
    keep_answer: bool

    @property
    def times(self) -> int:
        """How often each masked image of a result is asked about."""

    def filled(self, bound: Bound) -> Filled:
        """Another bound image with its own responses to the same answers."""

    def oracle(self) -> Oracle:
        """An oracle over the responses known so far."""

    def send(self, pieces: Sequence[Piece]) -> list[Floats]:
        """The responses to each piece."""

    def kept(self, rows: Bools) -> list[bool]:
        """Whether the model gives the answer to each of some sets (B, n) on every fill."""


def controls(
    case: Explained, mask: Bools, rows: Bools, known: Sequence[Set[bytes]] = ()
) -> tuple[Floats, Controls | None, int, int]:
    """Scores of some sets and the controls of one of them, a mask (n,).

    Returns:
        The scores (B,) of `rows` (B, n); the controls, which a mask without regions has none of; and the forwards
        without a cache, and those for images that are not `known`.
    """
    fills = [filled.bound.fill for filled in case.fills]
    pictures = control_pictures(case.bound.canvas, fills, case.partition.pixels(mask))
    options: dict[str, Any] = {"target": case.bound.aim, "question": case.settings.get("question")}
    panels = case.bound.panels
    shown = {
        name: [
            case.filled(bind(case.model, cut(one, panels) if panels else one, resize="none", **options)) for one in some
        ]
        for name, some in pictures.items()
    }
    whole_image = np.ones((1, case.partition.n), dtype=bool)
    more = [(filled, whole_image) for some in shown.values() for filled in some]
    measured = isinstance(case.model, Measures)
    scores, values, nominal, fresh = _afresh(case, rows, more) if measured else _once(case, rows, more, known)
    named = {
        name: float(over_fills(np.stack([next(values) for _ in some]), case.over_fills)[0])
        for name, some in shown.items()
    }
    found = Controls(named.pop("flat"), named.pop("shuffled"), named) if named else None
    if found and case.keep_answer:
        found = replace(found, kept=_kept(case, mask, shown))
    return scores, found, nominal, fresh


def _once(
    case: Explained, rows: Bools, more: Sequence[Piece], known: Sequence[Set[bytes]]
) -> tuple[Floats, Iterator[Floats], int, int]:
    """Scores of sets (B, n), responses to further pieces, and the forwards as `controls` returns them."""
    oracle = case.oracle()
    for asked, before in zip(oracle.asked, known, strict=False):
        asked |= before  # counted as if a search ran alone: what it has asked for is known, other images are not
    query = oracle.open(rows, SUFFICIENCY, "probe")
    responses = case.send([*zip(case.fills, query.by_fill, strict=True), *more])
    (scores,) = oracle.by_side(query, np.concatenate(responses[: len(case.fills)]))
    values = iter(responses[len(case.fills) :])
    return scores, values, query.nominal[0] + len(more), query.fresh[0] + len(more)


def _afresh(case: Explained, rows: Bools, more: Sequence[Piece]) -> tuple[Floats, Iterator[Floats], int, int]:
    """As `_once`, from new answers: those by which a search chose the mask favour it."""
    pieces = [*((filled, rows) for filled in case.fills), *more]
    responses = case.send(pieces * case.times)
    means = [np.mean(responses[i :: len(pieces)], axis=0) for i in range(len(pieces))]
    scores = over_fills(np.stack(means[: len(case.fills)]), case.over_fills)
    sent = case.times * sum(len(some) for _, some in pieces)
    return scores, iter(means[len(case.fills) :]), sent, sent


def _kept(case: Explained, mask: Bools, shown: Mapping[str, Sequence[Filled]]) -> Kept:
    """Whether the model gives the answer to a mask (n,), the rest, the blank image and the controls."""
    alone, removed, blank = case.kept(np.stack([mask, ~mask, np.zeros_like(mask)]))
    wanted, whole_image = first_choices(case.bound), np.ones((1, case.partition.n), dtype=bool)
    given = {
        name: all(filled.responses.answers_to(whole_image)[0] in wanted for filled in some)
        for name, some in shown.items()
    }
    return Kept(alone, removed, blank, given.pop("flat"), given.pop("shuffled"), given)
