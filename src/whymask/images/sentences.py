"""The sentences of described scenes: how one is made, read, and checked word by word.

sentence = phrase [relation phrase ["and" phrase]]
phrase = count colour noun
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whymask.errors import WhymaskError
from whymask.images.described import COLOURS, NOUNS, Plan

Kind: TypeAlias = Literal["count", "colour", "noun", "relation"]
Verdict: TypeAlias = Literal["right", "misread", "unsupported"]

QUESTION = "Describe the image."
LONGEST = 14  # words of the longest sentence, and one more that ends it
COUNTS = ("a", "two", "three")
RELATIONS = ("left of", "right of", "above", "below")
_PHRASE = rf"({'|'.join(COUNTS)}) ({'|'.join(COLOURS)}) ({'|'.join(NOUNS)})(s?)"
_SENTENCE = re.compile(rf"{_PHRASE}(?: ({'|'.join(RELATIONS)}) {_PHRASE}(?: and {_PHRASE})?)?")
_PARTS: tuple[tuple[Kind, int], ...] = (("count", 1), ("colour", 2), ("noun", 3))  # and their groups in a phrase
_STARTS = (0, 5, 9)  # groups before each phrase; the relation is group 5


@dataclass(frozen=True)
class Word:
    """A content word: what it says, where it stands in the sentence, and the phrases it is about, by number."""

    kind: Kind
    says: str  # "star" of "stars", "left of"
    start: int
    end: int
    phrases: tuple[int, ...]


@dataclass(frozen=True)
class Judged:
    """A word against the truth.

    right: true of the groups it refers to. misread: there is a group it refers to, of which it is not true.
    unsupported: the scene has no group left that it could refer to.
    """

    word: Word
    verdict: Verdict
    groups: tuple[int, ...]  # those it refers to, by number in the plan


def sentence(plan: Plan) -> str:
    """The sentence that is true of a scene of at least one group."""
    phrases = [
        f"{COUNTS[group.count - 1]} {group.colour} {group.noun}{'s' if group.count > 1 else ''}"
        for group in plan.groups
    ]
    return " ".join(
        part for parts in zip(phrases, ("", plan.relation, "and"), strict=False) for part in parts[::-1] if part
    )


def read(text: str) -> list[Word]:
    """The content words of a sentence; a text that does not follow the grammar is an error."""
    found = _SENTENCE.fullmatch(text)
    if not found or any((found[i + 1] == "a") == bool(found[i + 4]) for i in _STARTS if found[i + 1]):
        raise WhymaskError(f"{text!r} is not a sentence about a described scene.")
    words = [
        Word(kind, found[start + place], found.start(start + place), found.end(start + place + (kind == "noun")), (i,))
        for i, start in enumerate(_STARTS)
        if found[start + 1]
        for kind, place in _PARTS
    ]
    if found[5]:
        words.append(Word("relation", found[5], found.start(5), found.end(5), (0, 1)))
    return sorted(words, key=lambda word: word.start)


def judge(words: Sequence[Word], plan: Plan) -> list[Judged]:
    """Every word against what the scene shows.

    A phrase refers to the group with its noun; otherwise to one of its colour that no other phrase refers to; otherwise
    to the first group that is left.
    """
    phrases = [
        {w.kind: w.says for w in words if w.phrases == (i,)} for i in range(max(w.phrases[-1] for w in words) + 1)
    ]
    refers = _refer(phrases, plan)
    judged = []
    for word in words:
        groups = tuple(refers[i] for i in word.phrases if i in refers)
        missing = len(groups) < len(word.phrases)
        judged.append(
            Judged(word, "unsupported" if missing else "right" if _true(word, groups, plan) else "misread", groups)
        )
    return judged


def _refer(phrases: list[dict[Kind, str]], plan: Plan) -> dict[int, int]:
    """The group of each phrase that has one."""
    refers: dict[int, int] = {}
    for alike in (
        lambda phrase, group: phrase["noun"] == group.noun,
        lambda phrase, group: phrase["colour"] == group.colour,
        lambda phrase, group: True,
    ):
        for i, phrase in enumerate(phrases):
            free = [g for g, group in enumerate(plan.groups) if g not in refers.values() and alike(phrase, group)]
            if i not in refers and free:
                refers[i] = free[0]
    return refers


def _true(word: Word, groups: tuple[int, ...], plan: Plan) -> bool:
    """Whether a word is true of the groups it refers to."""
    if word.kind == "relation":
        return word.says == plan.relation_of(*groups)
    group = plan.groups[groups[0]]
    return word.says == {"count": COUNTS[group.count - 1], "colour": group.colour, "noun": group.noun}[word.kind]
