"""Servers that return the likeliest first tokens of an answer (OpenAI: `top_logprobs`)."""

from collections.abc import Collection
from functools import partial
from typing import Any

from whymask.errors import WhymaskError
from whymask.models.chat.engine import Engine, Next, Request
from whymask.models.chat.messages import Pictures

TOP_LOGPROBS = 20  # the most that such servers return
ASKED: dict[str, Any] = {"logprobs": True, "top_logprobs": TOP_LOGPROBS}


class Chat(Engine):
    """A server that takes messages."""

    def generated(self, pictures: Pictures, question: str, tokens: int) -> Request[str]:
        """The model's own answer, by an ordinary request."""
        return Request(partial(self.talk.body, pictures, question, tokens=tokens), self._text)

    def _text(self, reply: Any) -> str:
        """The text of an answer; nothing where the model ends it at once."""
        text = self.replies.at(reply, "choices", 0, "message", "content")
        return text.strip() if isinstance(text, str) else ""


class TopTokens(Chat):
    """A token is known by its text here, and all spellings of a word are one, which is numbered when it first appears.

    Only whole tokens count: "Yes" gets the tokens "Yes", " yes" and "YES", not "Y".
    """

    level = "top_logprobs"
    every_token = False

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._numbers: dict[str, int] = {}

    def word(self, text: str) -> int:
        """The number of a word, up to case and surrounding spaces."""
        return self._numbers.setdefault(text.strip().casefold(), len(self._numbers))

    def following(self, pictures: Pictures, question: str, ids: Collection[int] = ()) -> Request[Next]:
        """Probabilities of the words among the likeliest tokens."""
        return Request(partial(self.talk.body, pictures, question, **ASKED), self._read)

    def first_only(self, text: str) -> WhymaskError:
        """The error for an answer that needs more than the first token."""
        return WhymaskError(
            f"{self.replies.shown} returns no prompt_logprobs with continue_final_message, from which the score of "
            f"{text!r:.80} is computed, only {self.level} for the first token: pass a one-word target, such as 'Yes'."
        )

    def _read(self, reply: Any) -> Next:
        what = "top_logprobs"
        entries = self.replies.at(reply, "choices", 0, "logprobs", "content", 0, "top_logprobs")
        found = [(self.replies.at(one, "token"), self.replies.at(one, "logprob")) for one in entries or ()]
        if not found or not all(type(text) is str for text, _ in found):
            raise self.replies.lacking(what)
        chances: dict[int, float] = {}
        tokens = [(text, value) for (text, _), value in zip(found, self._values(found, what), strict=True)]
        for text, value in sorted(tokens, key=lambda token: -token[1]):
            number = self.word(text)
            self.learn(number, text)
            chances[number] = min(1.0, chances.get(number, 0.0) + value)
        least, left = min(value for _, value in tokens), 1 - sum(value for _, value in tokens)
        best = max(tokens, key=lambda token: token[1])[0]
        return Next(chances, self.word(best), max(0.0, min(least, left)))

    def _values(self, found: list[tuple[Any, Any]], what: str) -> list[float]:
        return list(self.replies.chances(enumerate(logprob for _, logprob in found), what).values())
