"""The words of an answer: which of them the image supports, and with which regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from whymask.results.mask import EvidenceMask
from whymask.results.storage import Header, is_count, is_number
from whymask.utils.archive import require

Role = Literal["content", "prior", "unlikely", "function"]
"""Whether a word has a mask, and if not, why."""

ABOUT: dict[Role, str] = {
    "content": "The image supports this word.",
    "prior": "The image does not support this word: a blank image makes it about as likely, or likelier.",
    "unlikely": "The model itself finds this word unlikely on the whole image.",
    "function": "A function word, which is not searched for.",
}


@dataclass(frozen=True, eq=False)
class Word:
    """A word of an answer, or several that belong together."""

    text: str
    start: int  # where it stands in the answer: its first character
    end: int  # and the one after its last
    role: Role
    full_score: float  # its probability on the whole image, after the words before it
    blank_score: float  # and on a blank one
    mask: EvidenceMask | None = None  # the regions that are enough for it
    tokens: tuple[int, ...] = ()  # the positions of its tokens in the answer, the first being 0

    @property
    def support(self) -> float:
        """How much the image adds to its probability, from 0 to 1."""
        return max(0.0, self.full_score - self.blank_score)

    @property
    def sentence(self) -> str:
        """What to make of the word."""
        return ABOUT[self.role] if self.mask is None else self.mask.verdict.sentence

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the mask."""
        own = {name: getattr(self, name) for name in ("text", "start", "end", "role", "full_score", "blank_score")}
        return own | {"tokens": [*self.tokens], "support": self.support, "sentence": self.sentence}

    @staticmethod
    def check(word: Header, text: str, after: int) -> list[Any]:
        """Raise a `DamagedError` unless a saved word stands in its text, after the word before; returns its scores."""
        start, end = word["start"], word["end"]
        placed = is_count(start) and is_count(end) and after <= start < end
        require(placed and word["text"] == text[start:end], "a word does not stand in its text, after those before it")
        require(word["role"] in get_args(Role), "a word has an unknown role")
        tokens = word.get("tokens", [])
        require(all(map(is_count, tokens)) and tokens == sorted(set(tokens)), "a word has impossible tokens")
        scores = [word["full_score"], word["blank_score"]]
        require(all(is_number(score, -1, 2) for score in scores), "a word has no scores")
        return scores
