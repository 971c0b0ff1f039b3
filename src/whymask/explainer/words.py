"""A text as words: what is searched for, and what is not."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from whymask.errors import WhymaskError
from whymask.images.imaging import ImageSource, Resize
from whymask.models.base import Bound, Model
from whymask.results.words import Role

LITTLE = """a an the this that these those some any each its his her their my your our it he she they we you i
there here is are was were be been being am has have had do does did will would can could may might shall should must
and or but so as if than then to of with by at for from which who whose what while also not no very"""
FUNCTION = frozenset(LITTLE.split())
"""English words that say nothing about an image by themselves. Places, numbers, colours and verbs do."""
SINGLE = 30  # words of a text that are searched for one by one; of a longer text neighbours are one target
JOINED = 4  # words of a target, at most
TOKENS = 64  # of the model's own answer, at most
SHARE, LEAST = 0.8, 0.05  # see `role`


class Span(NamedTuple):
    """A word, or several, in a text."""

    start: int
    end: int
    function: bool


@runtime_checkable
class Writes(Protocol):
    """A model that answers questions in sentences."""

    def answer(self, image: ImageSource, question: str, *, tokens: int = 32, resize: Resize = "own") -> str:
        """The model's own answer to a question about the whole image."""

    def asked(self, question: str | None) -> str:
        """The question."""

    def places(self, bound: Bound) -> tuple[int, ...]:
        """The positions of the tokens that a score is of."""


def writes(model: Model) -> Writes:
    """The model as one that answers in sentences, or an error."""
    if not isinstance(model, Writes):
        raise WhymaskError(f"{model.name} has no words to explain: use a multimodal model, here or as openai:NAME.")
    return model


def spans(text: str) -> list[Span]:
    """The words of a text; of a long one, up to four neighbouring content words together ("small red mug").

    >>> [(text[a:b], function) for text in ["A cat's 3.5 m off the sofa."] for a, b, function in spans(text)]
    [('A', True), ("cat's", False), ('3.5', False), ('m', False), ('off', False), ('the', True), ('sofa', False)]
    """
    found = [Span(start, end, text[start:end].lower() in FUNCTION) for start, end in _words(text)]
    if sum(not span.function for span in found) <= SINGLE:
        return found
    joined: list[Span] = []
    count = 0  # of words in the last span
    for span in found:
        before = joined[-1] if joined else None
        near = before and text[before.end : span.start] == " " and not span.function and not before.function
        if before and near and count < JOINED:
            joined[-1] = Span(before.start, span.end, False)
            count += 1
        else:
            joined.append(span)
            count = 1
    return joined


def _words(text: str) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of every word: letters, digits and the marks that belong to them, in any script."""
    start = None
    for place, letter in enumerate([*text, ""]):
        inside = letter and (unicodedata.category(letter)[0] in "LNM" or letter == "_")
        if not inside and start is not None and letter:
            before, after = text[place - 1], text[place + 1 : place + 2]
            inside = after.isalnum() and letter in "'\u2019-"
            inside = inside or (letter in ".," and before.isdecimal() and after.isdecimal())
        if inside and start is None:
            start = place
        elif not inside and start is not None:
            yield start, place
            start = None


def marked(text: str, span: Span) -> str:
    """The text with this word marked, as targets have it."""
    return f"{text[: span.start]}[[{text[span.start : span.end]}]]{text[span.end :]}"


def role(span: Span, full: float, blank: float) -> Role:
    """Whether to search for a word: not where a blank image makes it about as likely, nor where nothing does."""
    if span.function:
        return "function"
    if full < LEAST:
        return "unlikely"
    return "prior" if blank >= SHARE * full else "content"


def check_text(text: str) -> Sequence[Span]:
    """The words of a text; an error where there are none, or brackets, which mark words."""
    found = spans(text) if isinstance(text, str) else []
    if not found or "[" in text or "]" in text:
        raise WhymaskError(f"text is a sentence in plain words, such as 'a dog on a sofa', not {text!r}.")
    return found
