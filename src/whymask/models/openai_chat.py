"""Any OpenAI-compatible chat server of a multimodal model: the probability of a one-token answer to a question."""

import os
import re
from collections.abc import Sequence
from functools import partial
from math import exp
from typing import Any, TypeAlias, cast

import numpy as np

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import Canvas
from whymask.models.base import Bound, Response, Target, View, composed
from whymask.models.function import WholeImage
from whymask.models.remote import Remote, RemoteBound, Served, png
from whymask.models.spending import Spending
from whymask.utils.redact import urls_in

TOP_LOGPROBS = 20  # the most that such servers return
ROUNDING = 0.01  # log-probabilities may exceed 0 by this much: some are computed in half precision or cut to two digits

Tokens: TypeAlias = list[tuple[str, float]]
"""The likeliest first tokens of an answer with their probabilities, likeliest first."""


class OpenAIChatModel(Served):
    """A model that answers questions about an image, asked for one token and its alternatives per masked image.

    The score of an answer word is the probability of all returned tokens that equal it, up to case and surrounding
    spaces. Only whole tokens count: "Yes" gets the tokens "Yes", " yes" and "YES", not "Y". A word that is not among
    the returned tokens gets a floor, and `floored` counts those answers: where nearly all are, the word is not one
    token for this model. Scores vary a little with what else the server is doing, hence not deterministic.
    """

    default_k = 10
    deterministic = False

    def __init__(
        self,
        model: str,
        *,
        base_url: str | Sequence[str],
        api_key: str | None = None,
        max_side: int = 448,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int | None = None,
        floor: float | None = None,
        price: str | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """A model of a chat server.

        Args:
            model: its name on the server.
            base_url: up to the version, such as http://localhost:8000/v1. Several of them, a list or separated by
                commas, are endpoints of one and the same model.
            api_key: by default the environment's OPENAI_API_KEY, unless base_url has a password; "" sends none.
            max_side, timeout, retries, concurrency, price, max_requests, max_cost: as for `HttpModel`.
            floor: the score of a word that is not among the returned tokens; by default as large as it can be, the
                smaller of the least returned probability and what the returned ones leave of 1.
        """
        if floor is not None and not 0 <= floor <= 1:
            raise WhymaskError(f"floor must lie in [0, 1], not {floor!r}.")
        if api_key is None:  # what is in the URL was given for this server, what is in the environment was not
            known = any(re.match(r"\w+://[^/?#]*@", str(url)) for url in urls_in(base_url))
            api_key = "" if known else os.environ.get("OPENAI_API_KEY", "")
        key = api_key.strip()
        self.remote = Remote(
            base_url,
            "/chat/completions",
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            spending=Spending(price, max_requests, max_cost),
        )
        self.model, self.name = model, f"openai:{model}"
        self.geometry = WholeImage(whole("max_side", max_side, 1))
        self.floor, self.floored = floor, 0
        self.batch_size = (
            8 * self.remote.at_once
        )  # several rounds, so that one slow answer does not leave the server idle
        self.settings = {"url": self.remote.shown}
        self.fingerprint = composed(
            f"openai {model} {self.remote.fingerprint}",
            geometry=self.geometry.fingerprint,
            top_logprobs=TOP_LOGPROBS,
            floor=floor,
        )

    def tokens_expected(self, height: int, width: int, question: str | None) -> tuple[float, float]:
        """About how many: a token for 750 pixels, as Claude has them; patches of 28 x 28 pixels come close."""
        return height * width // 750 + len(question or "") // 4 + 20, 1

    def settle(self, view: View, target: int | str | None, question: str | None) -> RemoteBound:
        """Without a target, explain the token the model gives for the whole image."""
        question = self.asked(question)
        said = str(target) if target is not None else self.tokens([view.canvas], [question])[0][0][0]
        word = said.strip()
        if len(word.split()) != 1:
            source = "answered" if target is None else "was given the target"
            raise WhymaskError(f"{self.name} {source} {said!r:.80}: pass a target of one word, such as 'Yes'.")
        probes = 1 if target is None else 0
        return RemoteBound.of(view, Target.named(word), sent=question, probes=probes)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Probabilities that the answer to row i of images (B, H, W, 3) is the word of bounds[i]."""
        questions = [cast(str, bound.sent) for bound in cast(Sequence[RemoteBound], bounds)]
        answers = self.tokens(inputs, questions)
        scores = [self._score(tokens, bound.target.label) for tokens, bound in zip(answers, bounds, strict=True)]
        return Response(np.array(scores, dtype=np.float64), None)

    def tokens(self, images: Sequence[Canvas], questions: Sequence[str]) -> list[Tokens]:
        """What the model may begin its answer with, for each image (H, W, 3) and its question."""
        asked = zip(images, questions, strict=True)
        return self.remote.ask([(partial(self._body, image, question), self._read) for image, question in asked])

    def _body(self, image: Canvas, question: str) -> dict[str, Any]:
        content = [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png(image)}"}},
            {"type": "text", "text": question},
        ]
        return {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": TOP_LOGPROBS,
        }

    def _read(self, answer: Any) -> Tokens:
        try:
            returned = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            tokens = [(entry["token"], entry["logprob"]) for entry in returned]
        except (KeyError, IndexError, TypeError):
            tokens = []
        if not tokens or not all(type(text) is str and type(logprob) is float for text, logprob in tokens):
            raise WhymaskError(
                f"{self.remote.shown} returned no top_logprobs for a token of {self.model}, which scores are made of."
            )
        # NaN is not at most anything. -inf is allowed, for a probability of 0.
        possible = all(logprob <= ROUNDING for _, logprob in tokens)
        if not possible or sum(exp(logprob) for _, logprob in tokens) > exp(ROUNDING):
            raise WhymaskError(
                f"{self.remote.shown} returned top_logprobs of {self.model} that are not log-probabilities: each must "
                "be a number of at most 0, and together they must stand for a probability of at most 1."
            )
        return sorted(((text, exp(logprob)) for text, logprob in tokens), key=lambda token: -token[1])

    def _score(self, tokens: Tokens, word: str) -> float:
        wanted = word.casefold()
        matches = [probability for text, probability in tokens if text.strip().casefold() == wanted]
        if matches:
            return min(1.0, sum(matches))
        self.floored += 1
        if self.floor is not None:
            return self.floor
        return max(0.0, min(tokens[-1][1], 1 - sum(probability for _, probability in tokens)))
