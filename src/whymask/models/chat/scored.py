"""Scores of answers to masked images: what is asked for, and how scores are made of the replies."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.models.chat.engine import Continued, Engine, Next, Request
from whymask.models.chat.messages import Pictures
from whymask.models.chat.tokens import Said
from whymask.models.dialogue import Answer, over_positions

NEGLIGIBLE = 1e-7  # a spelling of a word that can have at most this is not asked for


class Asked(Protocol):
    """An answer to score."""

    @property
    def answer(self) -> Answer:
        """The answer in tokens."""

    @property
    def said(self) -> tuple[Said, ...]:
        """What the model is made to have said for it."""


@dataclass(frozen=True, eq=False)
class Masked:
    """A masked version of the images of a question, and the answers to score on it."""

    pictures: Pictures
    question: str
    asked: Sequence[Asked]

    @cached_property
    def texts(self) -> list[Said]:
        """The fewest texts along which all answers of several tokens can be read."""
        found: list[Said] = []
        longer = (one for one in self.asked if len(one.answer.wanted) > 1)
        for one in sorted(longer, key=lambda one: -len(one.answer.wanted)):
            if along(one, found) is None:
                found.append(one.said[0])
        return found

    @cached_property
    def words(self) -> list[Asked]:
        """The other answers, which are first tokens, but for those that can be read along a text too."""
        return [one for one in self.asked if along(one, self.texts) is None]


def along(one: Asked, texts: Sequence[Said]) -> Said | None:
    """The first of some texts that begins with the tokens of an answer."""
    if len(one.answer.wanted[-1]) != 1:
        return None
    ids = (*one.answer.forced, *one.answer.wanted[-1])
    return next((text for text in texts if text.ids[: len(ids)] == ids), None)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores (B, T), the first token that the model gives to each image (B,), and how many scores are a floor."""

    each: Floats
    top: NDArray[np.int64]
    floored: int


def scored(
    ask: Callable[[Sequence[Request[Any]]], list[Any]], engine: Engine, images: Sequence[Masked], floor: float | None
) -> Scores:
    """Score answers to masked images: one request an image for all words, and one for each text."""
    requests: list[Request[Any]] = []
    for image in images:
        if image.words:
            ids = {token for one in image.words for token in one.answer.wanted[0]}
            requests.append(engine.following(image.pictures, image.question, ids))
        requests += [engine.continued(image.pictures, image.question, text) for text in image.texts]
    replies = iter(ask(requests))
    nexts: list[Next | None] = []
    continued: list[list[Continued]] = []
    for image in images:
        nexts.append(next(replies) if image.words else None)
        continued.append([next(replies) for _ in image.texts])
    _complete(ask, engine, images, nexts)
    each, floored = np.empty((len(images), len(images[0].asked))), 0
    for i, image in enumerate(images):
        first = nexts[i]
        for j, one in enumerate(image.asked):
            text = along(one, image.texts)
            if text is None:
                assert first is not None
                known = [first.chances[token] for token in one.answer.wanted[0] if token in first.chances]
                floored += not known
                each[i, j] = min(1.0, sum(known)) if known else first.rest if floor is None else floor
            else:
                chances = np.array(continued[i][image.texts.index(text)].chances[: len(one.answer.wanted)])
                each[i, j] = over_positions(chances, np.zeros(len(chances), dtype=np.int64), [one.answer])[0]
    tops = [first.top if first is not None else more[0].top for first, more in zip(nexts, continued, strict=True)]
    return Scores(each, np.array(tops, dtype=np.int64), floored)


def _complete(
    ask: Callable[[Sequence[Request[Any]]], list[Any]],
    engine: Engine,
    images: Sequence[Masked],
    nexts: Sequence[Next | None],
) -> None:
    """Ask for spellings of words that are not among the likeliest tokens, each as a separate answer."""
    wanted = []
    for image, first in zip(images, nexts, strict=True):
        if first is None or first.rest <= NEGLIGIBLE:
            continue
        missing = {said.ids: said for one in image.words for said in one.said if said.ids[0] not in first.chances}
        wanted += [(first, image, said) for said in missing.values()]
    found = ask([engine.continued(image.pictures, image.question, said) for _, image, said in wanted])
    for (first, _, said), reply in zip(wanted, found, strict=True):
        first.chances[said.ids[0]] = reply.chances[0]
