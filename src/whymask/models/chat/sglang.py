"""SGLang's own `/generate`: log-probabilities of a prompt's tokens, and of tokens by number."""

from collections.abc import Collection
from functools import partial
from typing import Any

from whymask.errors import WhymaskError
from whymask.models.chat.engine import Continued, Engine, Next, Request
from whymask.models.chat.messages import Conversation, Pictures
from whymask.models.chat.replies import Replies
from whymask.models.chat.tokens import Piece, Said

SLOT = "{question}"


class InputTokens(Engine):
    """A prompt is sent as text, since `/generate` applies no chat template; an answer follows it.

    The prompt's image tokens are as many as the server makes of an image, so answers are found from the end.
    """

    level = "input_token_logprobs"

    def __init__(self, talk: Conversation, replies: Replies, prompt: str) -> None:
        super().__init__(talk, replies)
        if prompt.count(SLOT) != 1:
            raise WhymaskError(f"prompt is the model's chat template as text, with {SLOT} once, not {prompt!r:.80}.")
        self.before, self.after = prompt.split(SLOT)
        self.gap = "" if prompt[-1].isspace() or prompt.endswith(">") else " "  # special tokens end so

    def following(self, pictures: Pictures, question: str, ids: Collection[int] = ()) -> Request[Next]:
        """Probabilities of these first tokens."""
        body = partial(self._body, pictures, question, token_ids_logprob=sorted(ids) or None)
        return Request(body, partial(self._next, ids=frozenset(ids)))

    def continued(self, pictures: Pictures, question: str, said: Said) -> Request[Continued]:
        """The probabilities of a text's tokens, by one request that ends with the text."""
        body = partial(self._body, pictures, question, said.text, logprob_start_len=0, top_logprobs_num=1)
        return Request(body, partial(self._tail, said=said))

    def pieces(self, pictures: Pictures, question: str, text: str) -> Request[list[Piece]]:
        """The prompt's tokens, by a request that ends with the text."""
        return Request(partial(self._body, pictures, question, text, logprob_start_len=0), self._pieces)

    def generated(self, pictures: Pictures, question: str, tokens: int) -> Request[str]:
        """The text that follows the prompt."""
        body = partial(self._body, pictures, question, tokens=tokens, return_logprob=False)
        return Request(body, lambda reply: str(self.replies.at(reply, "text") or "").strip())

    def _body(
        self, pictures: Pictures, question: str, text: str | None = None, tokens: int = 1, **fields: Any
    ) -> dict[str, Any]:
        sampling = {"max_new_tokens": tokens, "temperature": 0}
        if self.talk.seed is not None:
            sampling["sampling_seed"] = self.talk.seed
        body = {
            "image_data": pictures.encoded,
            "text": self.before + question + self.after + ("" if text is None else self.gap + text),
            "sampling_params": sampling,
            "return_logprob": True,
            "return_text_in_logprobs": True,
        }
        return body | {name: value for name, value in fields.items() if value is not None}

    def _triples(self, reply: Any, *path: str | int) -> list[tuple[Any, int, Any]]:
        """(log-probability, token, text) of every token in a list of a reply."""
        found, what = self.replies.at(reply, "meta_info", *path), str(path[0])
        if not isinstance(found, list) or not found or not all(isinstance(one, list) for one in found):
            raise self.replies.lacking(what)
        at = self.replies.at
        return [(at(one, 0), self.replies.number(at(one, 1), what), at(one, 2)) for one in found]

    def _next(self, reply: Any, ids: frozenset[int]) -> Next:
        value, top, text = self._triples(reply, "output_token_logprobs")[0]
        self.learn(top, text)
        named = {top: value}
        if ids:
            named |= {token: own for own, token, _ in self._triples(reply, "output_token_ids_logprobs", 0)}
        if not ids <= named.keys():
            raise self.replies.lacking("output_token_ids_logprobs")
        return Next(self.replies.chances(named, "output_token_ids_logprobs"), top)

    def _pieces(self, reply: Any) -> list[Piece]:
        found = self._triples(reply, "input_token_logprobs")
        for _, token, text in found:
            self.learn(token, text)
        return [(token, text if isinstance(text, str) else "") for _, token, text in found]

    def _tail(self, reply: Any, said: Said) -> Continued:
        found = self._triples(reply, "input_token_logprobs")[-len(said.ids) :]
        if [token for _, token, _ in found] != [*said.ids]:
            raise self.replies.lacking(f"input_token_logprobs for the tokens of {said.text!r:.80}")
        chances = [self.replies.chance(value, "input_token_logprobs") for value, *_ in found]
        firsts = self._triples(reply, "input_top_logprobs", -len(said.ids))
        return Continued(chances, max(firsts, key=lambda one: self.replies.chance(one[0], "input_top_logprobs"))[1])
