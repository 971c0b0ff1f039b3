"""Servers that return log-probabilities of a prompt's own tokens (vLLM: `prompt_logprobs`), and of tokens by number."""

from collections.abc import Collection
from functools import partial
from itertools import islice, takewhile
from typing import Any

from whymask.models.chat.engine import Continued, Next, Request
from whymask.models.chat.messages import Pictures
from whymask.models.chat.tokens import Piece, Said
from whymask.models.chat.top import ASKED, Chat

ASKED_BY_NUMBER = ASKED | {"return_tokens_as_token_ids": True}
PROMPT = "prompt_logprobs"
BY_NUMBER = "top_logprobs by number (return_tokens_as_token_ids)"


class PromptTokens(Chat):
    """Whole answers: a request ends with the answer, and its log-probabilities are at the end of those of the prompt.

    Of first tokens the likeliest are returned; any other is scored as a separate answer.
    """

    level = "prompt_logprobs"
    every_token = False

    def following(self, pictures: Pictures, question: str, ids: Collection[int] = ()) -> Request[Next]:
        """Probabilities of first tokens: the likeliest ones."""
        return Request(partial(self.talk.body, pictures, question, **ASKED_BY_NUMBER), self._numbered)

    def continued(self, pictures: Pictures, question: str, said: Said) -> Request[Continued]:
        """The probabilities of a text's tokens, by one request that ends with the text."""
        body = partial(self.talk.body, pictures, question, said.text, prompt_logprobs=1)
        return Request(body, partial(self._tail, said=said))

    def pieces(self, pictures: Pictures, question: str, text: str) -> Request[list[Piece]]:
        """The prompt's tokens, by a request without alternatives: each entry then holds one token."""
        return Request(partial(self.talk.body, pictures, question, text, prompt_logprobs=0), self._pieces)

    def _numbered(self, reply: Any) -> Next:
        entry = self.replies.at(reply, "choices", 0, "logprobs", "content", 0)
        chances = self._by_number(entry)
        top = self._number(entry)
        self.learn(top, self.replies.at(reply, "choices", 0, "message", "content"))
        rest = min(min(chances.values()), max(0.0, 1 - sum(chances.values())))
        return Next(chances, top, rest)

    def _by_number(self, entry: Any) -> dict[int, float]:
        """Probabilities of the tokens that a reply lists for one place."""
        listed, at = self.replies.at(entry, "top_logprobs"), self.replies.at
        if not isinstance(listed, list) or not listed:
            raise self.replies.lacking(BY_NUMBER)
        return self.replies.chances({self._number(one): at(one, "logprob") for one in listed}, BY_NUMBER)

    def _number(self, entry: Any) -> int:
        token = self.replies.at(entry, "token")
        named = isinstance(token, str) and token.startswith("token_id:")  # else a text, which may be of digits
        return self.replies.number(token.removeprefix("token_id:") if named else None, BY_NUMBER)

    def _entries(self, reply: Any, most: int | None = None) -> list[dict[int, Any]]:
        """What is said of the last tokens of a prompt, by token, up to one of which nothing is."""
        entries = self.replies.at(reply, "prompt_logprobs")
        if not isinstance(entries, list):
            raise self.replies.lacking(PROMPT)
        last = [*islice(takewhile(lambda one: one is not None, reversed(entries)), most)][::-1]
        if not last or not all(isinstance(one, dict) and one for one in last) or len(last) < (most or 0):
            raise self.replies.lacking(PROMPT)
        return [{self.replies.number(token, PROMPT): about for token, about in one.items()} for one in last]

    def _pieces(self, reply: Any) -> list[Piece]:
        firsts = [next(iter(entry.items())) for entry in self._entries(reply)]
        found = [(token, str(self.replies.at(about, "decoded_token") or "")) for token, about in firsts]
        for token, text in found:
            self.learn(token, text)
        return found

    def _tail(self, reply: Any, said: Said) -> Continued:
        found = [
            self.replies.chances({token: self.replies.at(about, "logprob") for token, about in entry.items()}, PROMPT)
            for entry in self._entries(reply, len(said.ids))
        ]
        if not all(token in values for token, values in zip(said.ids, found, strict=True)):
            raise self.replies.lacking(f"prompt_logprobs for the tokens of {said.text!r:.80}")
        chances = [values[token] for token, values in zip(said.ids, found, strict=True)]
        return Continued(chances, max(found[0], key=lambda token: found[0][token]))


class ChosenTokens(PromptTokens):
    """The same, with first tokens by number, however unlikely they are (vLLM: `logprob_token_ids`)."""

    level = "logprob_token_ids, prompt_logprobs"
    every_token = True

    def following(self, pictures: Pictures, question: str, ids: Collection[int] = ()) -> Request[Next]:
        """Probabilities of these first tokens."""
        chosen = {"logprob_token_ids": sorted(ids)} if ids else {}
        body = partial(self.talk.body, pictures, question, **(ASKED_BY_NUMBER | chosen))
        return Request(body, partial(self._chosen, ids=frozenset(ids)))

    def _chosen(self, reply: Any, ids: frozenset[int]) -> Next:
        found = self._numbered(reply)
        # One that ignores the field returns the likeliest: these may be the same, but not alone.
        if ids and (not ids <= found.chances.keys() or len(found.chances) > len(ids) + 1):
            raise self.replies.lacking("logprob_token_ids")
        return found
