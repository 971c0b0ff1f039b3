"""The tokens of an answer, as a server cuts it: read from what it returns of prompts that end with the answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Piece: TypeAlias = tuple[int, str]
"""A token of a prompt and its text."""

UNREADABLE = "\ufffd"  # in the text of a token that holds a part of a character


@dataclass(frozen=True)
class Said:
    """A text that the model is made to have said, in tokens."""

    text: str
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]  # the characters of the text that each of them stands for


def said(text: str, pieces: Sequence[Piece]) -> Said | None:
    """The tokens of a text from those of a prompt that ends with it; None where the prompt does not.

    It does not where a server ends the answer's turn, or leaves the answer out.

    >>> said("a red cup", [(7, "?"), (8, "ASSISTANT"), (9, ":"), (3, " a"), (4, " red"), (5, " c"), (6, "up")])
    Said(text='a red cup', ids=(3, 4, 5, 6), spans=((0, 1), (2, 5), (6, 7), (7, 9)))
    """
    for count in range(1, min(len(pieces), 4 * len(text)) + 1):  # a character has at most 4 bytes
        before = pieces[-count - 1][1] if count < len(pieces) else " "
        if UNREADABLE in before or not before:  # the first character began earlier
            continue
        own = pieces[-count:]
        found = spans(text, [piece for _, piece in own])
        if found is not None:
            return Said(text, tuple(token for token, _ in own), tuple(found))
    return None


def spans(text: str, pieces: Sequence[str]) -> list[tuple[int, int]] | None:
    """The characters (first, last + 1) of a text that each token stands for; None where they do not spell it.

    Spaces are left out of account, since some tokenizers drop them from single tokens. Tokens that hold parts of a
    character are unreadable, and stand for all that lies between their neighbours; or they are empty but for the last
    one, and stand for the character that it shows.

    >>> spans("a red cup", ["a", " red", "cup"])
    [(0, 1), (2, 5), (6, 9)]
    """
    found: list[tuple[int, int]] = []
    waiting: list[str] = []  # tokens before this one that show no text
    place = 0
    for piece in pieces:
        word = piece.strip()
        beyond = _skipped(text, place)
        unreadable = UNREADABLE in waiting
        if UNREADABLE in word:
            waiting.append(UNREADABLE)
            continue
        if not word and (waiting or (not piece and text[beyond : beyond + 1] > "\x7f")):
            waiting.append(piece)
            continue
        start = text.find(word, beyond + 1) if unreadable else beyond
        if start < 0 or not text.startswith(word, start):
            return None
        found += [_stands_for(one, beyond, start, start + 1) for one in waiting] + [(start, start + len(word))]
        waiting, place = [], start + len(word)
    if UNREADABLE in waiting:
        found += [_stands_for(one, _skipped(text, place), len(text), len(text)) for one in waiting]
        waiting, place = [], len(text)
    return found if place and not waiting and not text[place:].strip() else None


def _stands_for(piece: str, first: int, shown: int, after: int) -> tuple[int, int]:
    """The characters of a token without text: those that are shown by none, a part of what is shown next, or spaces."""
    if piece == UNREADABLE:
        return first, shown
    return (shown, shown) if piece else (shown, after)


def _skipped(text: str, place: int) -> int:
    """The first place from here on that is not a space."""
    while place < len(text) and text[place].isspace():
        place += 1
    return place
