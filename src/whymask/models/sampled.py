"""Chat servers that show no probabilities: scores are measured from answers."""

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial
from math import ceil
from typing import Any, TypeAlias, cast

import numpy as np

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import Canvas, ImageSource, Resize, WholeImage
from whymask.models.base import Bound, Response, Target, View, composed
from whymask.models.chat.asking import ROUTE, ask
from whymask.models.chat.messages import LOSSY, Conversation, Pictures, bearer, check_format
from whymask.models.chat.probe import LATER, PLAIN, QUESTION
from whymask.models.dialogue import MARKED
from whymask.models.posting import StatusError
from whymask.models.remote import Remote, RemoteBound, Served
from whymask.models.spending import Spending, prompt_tokens

Scorer: TypeAlias = Callable[[str, str], float]
"""How right an answer is, given what is wanted: a number in [0, 1]."""

ROOM = 8  # tokens of an answer beyond what is wanted
EACH = 4  # tokens that a word may take


class AnsweringModel(Served):
    """A model that answers questions about an image in words, and shows nothing else.

    A score is measured: the mean, over `samples` answers to the same masked image, of how right each is. The answers
    are drawn at the model's own temperature of 1, so that for a word the score is its probability.
    """

    default_k = 10
    deterministic = False

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Sequence[str],
        samples: int = 16,
        reported: int = 64,
        scorer: Scorer | None = None,
        temperature: float = 1.0,
        tokens: int | None = None,
        api_key: str | None = None,
        max_side: int = 448,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int | None = None,
        system: str | None = None,
        image_format: str = "png",
        ca: str | None = None,
        price: str | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """A model of a chat server.

        Args:
            model: its name on the server.
            base_url: up to the version, such as http://localhost:8000/v1; several are endpoints of one
                and the same model.
            samples: answers to each masked image. Images whose score decides something are asked about again.
            reported: answers, at least, behind each score of a result; they are drawn after the search.
            scorer: how right an answer is, a function (answer, wanted) -> [0, 1]. By default a word is right where the
                answer begins with it, a [[marked]] word where it is in the answer, and a text by how much of it is
                said (`rightness`).
            temperature: at which answers are drawn.
            tokens: the most that an answer may have, a reasoning model's thoughts included; by default somewhat more
                than what is wanted.
            api_key, max_side, timeout, retries, concurrency, system, image_format, ca, price, max_requests, max_cost:
                as for `OpenAIChatModel`.
        """
        if not 0 < temperature <= 2:
            raise WhymaskError(f"temperature must lie in (0, 2], not {temperature!r}: answers have to vary.")
        self.remote = Remote(
            base_url,
            ROUTE,
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            headers=bearer(base_url, api_key),
            ca=ca,
            spending=Spending(price, max_requests, max_cost),
        )
        self.model, self.name = model, f"answers:{model}"
        self.talk, self.form = Conversation(model, system), check_format(image_format)
        self.samples, self.scorer = whole("samples", samples, 1), scorer
        self.reported = whole("reported", reported, 1)
        self.temperature, self.tokens = temperature, None if tokens is None else whole("tokens", tokens, 1)
        self.geometry = WholeImage(max_side)
        self.batch_size = 8 * self.remote.at_once
        self.at_once = self._probed()
        self.spending.usual = ceil(self.samples / self.at_once)
        self.settings = {
            "url": self.remote.shown,
            "scores": f"measured from {samples} answers at temperature {temperature:g}, {self.at_once} a request",
        }
        self.fingerprint = composed(
            f"answers {model} {self.remote.fingerprint}",
            geometry=self.geometry.fingerprint,
            samples=samples,
            scorer=None if scorer is None else f"{scorer.__module__}.{getattr(scorer, '__qualname__', scorer)}",
            temperature=temperature,
            tokens=tokens,
            system=system,
            image_format=LOSSY.get(image_format),
        )

    def tokens_expected(self, height: int, width: int, question: str | None) -> tuple[float, float]:
        """About how many tokens a request has, and its reply."""
        return prompt_tokens(height, width, question), self.at_once * (self.tokens or ROOM)

    def settle(self, view: View, target: int | str | None, question: str | None) -> RemoteBound:
        """Without a target, explain what the model answers to the whole image."""
        question, probes = self.asked(question), 0
        if target is None:
            (target,), probes = self._texts([view.canvas], [question], 0, 1, self.tokens or 32)[0], 1
        wanted = str(target).strip()
        if not words(wanted):
            raise WhymaskError(f"the answer {wanted!r:.80} of {self.name} contains no words: pass a target with words.")
        return RemoteBound.of(view, Target.named(wanted), sent=question, probes=probes)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """The mean rightness of the answers to images (B, H, W, 3)."""
        wanted = [bound.target.label for bound in bounds]
        questions = [cast(str, cast(RemoteBound, bound).sent) for bound in bounds]
        most = self.tokens or max(ROOM + EACH * len(words(text)) for text in wanted)
        found = self._texts(inputs, questions, self.temperature, self.samples, most)
        scores = [np.mean([self._right(said, text) for said in some]) for some, text in zip(found, wanted, strict=True)]
        return Response(np.array(scores, dtype=np.float64), None)

    def generate(self, inputs: Any, bounds: Sequence[Bound], tokens: int) -> list[str]:
        """The likeliest answers to masked images, at most `tokens` tokens long."""
        questions = [cast(str, cast(RemoteBound, bound).sent) for bound in bounds]
        return [said for (said,) in self._texts(inputs, questions, 0, 1, tokens)]

    def answer(self, image: ImageSource, question: str, *, tokens: int = 32, resize: Resize = "own") -> str:
        """The model's own answer to a question about the whole image."""
        canvas = self.view(image, resize).canvas
        return self._texts([canvas], [self.asked(question)], 0, 1, tokens)[0][0]

    def _right(self, said: str, wanted: str) -> float:
        score = rightness(said, wanted) if self.scorer is None else float(self.scorer(said, wanted))
        if not 0 <= score <= 1:
            raise WhymaskError(f"the scorer must return a number in [0, 1], not {score!r}.")
        return score

    def _texts(
        self, images: Sequence[Canvas], questions: Sequence[str], temperature: float, count: int, tokens: int
    ) -> list[list[str]]:
        """So many answers to each image, in as few requests as the server allows."""
        most = min(count, self.at_once)
        asked = [(i, min(most, count - start)) for i in range(len(images)) for start in range(0, count, most)]
        options: dict[str, Any] = {"tokens": tokens, "temperature": temperature}
        pictures = [Pictures(image, form=self.form) for image in images]
        replies = ask(
            self.remote,
            self.talk,
            [
                (partial(self.talk.body, pictures[i], questions[i], **options, **several(number)), self._read)
                for i, number in asked
            ],
            hedge=temperature == 0,
        )
        found: list[list[str]] = [[] for _ in images]
        for (i, number), texts in zip(asked, replies, strict=True):
            if len(texts) < number:
                raise WhymaskError(f"{self.remote.shown} was asked for {number} answers but returned {len(texts)}.")
            found[i] += texts[:number]
        return found

    def _probed(self) -> int:
        """How many answers a request returns: some servers give one, or reject more than a few."""
        count = self.samples
        while count > 1:
            body = partial(self.talk.body, Pictures(PLAIN), QUESTION, temperature=self.temperature, **several(count))
            try:
                (choices,) = ask(self.remote, self.talk, [(body, self._choices)], [0])
                return min(len(choices), count)
            except StatusError as error:
                if error.status in (404, *LATER):
                    raise
                count //= 2
        return 1

    def _choices(self, reply: Any) -> list[dict[str, Any]]:
        found = reply.get("choices") if isinstance(reply, dict) else None
        if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
            raise self._no_answer()
        return found

    def _read(self, reply: Any) -> list[str]:
        return [self._text(choice) for choice in self._choices(reply)]

    def _text(self, choice: dict[str, Any]) -> str:
        """What an answer says; a model that ends it at once, or declines to answer, says nothing."""
        message, end = choice.get("message"), choice.get("finish_reason")
        text = message.get("content") if isinstance(message, dict) else None
        if isinstance(text, str):
            return text
        if text is not None or end not in ("stop", "length", "content_filter"):
            raise self._no_answer()
        if end == "length":
            raise WhymaskError(
                f"{self.model} used all tokens before it gave an answer, as reasoning models do: pass a "
                "larger limit, such as tokens=2048."
            )
        return ""

    def _no_answer(self) -> WhymaskError:
        return WhymaskError(f"{self.remote.shown} returned no answer of {self.model}.")


def several(count: int) -> dict[str, Any]:
    """The field by which a request asks for several answers."""
    return {} if count == 1 else {"n": count}


def words(text: str) -> list[str]:
    """The words of a text, in lower case and without punctuation.

    >>> words("Yes, there's a cup.")
    ['yes', 'there', 's', 'a', 'cup']
    """
    return re.findall(r"\w+", text.casefold())


def rightness(said: str, wanted: str) -> float:
    """The rightness of an answer, in [0, 1].

    A word is right or wrong: the answer begins with it, or, where it is marked in a text, has it. A text is as right as
    the share of words that both say in the same order.

    >>> rightness("Yes, there is.", "yes"), rightness("A black dog.", "a [[cat]] on a sofa")
    (1.0, 0.0)
    >>> rightness("a dog on a sofa", "a dog on the sofa")
    0.8
    """
    spoken, marked = words(said), MARKED.search(wanted)
    if marked:
        return float(set(words(marked[1])) <= set(spoken))
    right = words(wanted)
    if len(right) == 1:
        return float(spoken[:1] == right)
    return SequenceMatcher(None, spoken, right, autojunk=False).ratio()
