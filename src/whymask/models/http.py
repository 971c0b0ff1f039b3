"""Any HTTP endpoint that scores images."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.errors import WhymaskError, whole
from whymask.images.imaging import WholeImage
from whymask.models.base import Bound, Response, Target, View, composed
from whymask.models.chat.messages import encoded
from whymask.models.remote import Remote, RemoteBound, Served
from whymask.models.spending import Spending

OWN_ANSWER = "the server's answer"


class HttpModel(Served):
    """A server that takes `POST {"images": [base64 PNG, ...], "target": ...}` and answers `{"scores": [...]}`.

    Images are RGB, their longer side at most `max_side`; scores lie in [0, 1], one per image. The target is sent as
    the user gave it, a name, a number or null: what null means is the server's choice. A reply is at most 4 MiB and not
    compressed.
    """

    default_k = 8

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        max_side: int = 512,
        timeout: float = 60.0,
        retries: int = 4,
        concurrency: int | None = None,
        batch_size: int = 16,
        headers: Mapping[str, str] | None = None,
        deterministic: bool = True,
        name: str | None = None,
        ca: str | None = None,
        price: str | None = None,
        max_requests: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        """A model behind a URL.

        Args:
            url: where to POST; user and password in it are sent as basic authentication. Several of them, a list or
                separated by commas, are endpoints of one and the same model.
            max_side: larger images are reduced to this many pixels on their longer side.
            timeout: seconds one try may take, from connecting to the last byte of the answer.
            retries: further tries after a lost connection, a timeout or a status 429, 500, 502, 503 or 504, at each
                endpoint.
            concurrency: the most requests under way at once at each endpoint; how many there are is learned.
            batch_size: images in one request.
            headers: sent with every request.
            deterministic: whether the server gives equal scores for equal images.
            name: how results call the model; by default by its URL.
            ca: a file of certificates (PEM) of a private authority, besides the usual ones.
            price: what a million tokens cost, "IN/OUT", where replies report their `usage`.
            max_requests, max_cost: the most that may be sent, and spent, as long as this model lives.
        """
        self.per_request = whole("batch_size", batch_size, 1)
        self.geometry = WholeImage(max_side)
        self.remote = Remote(
            url,
            timeout=timeout,
            retries=retries,
            concurrency=concurrency,
            headers=headers or {},
            ca=ca,
            spending=Spending(price, max_requests, max_cost, self.per_request),
        )
        self.name = name or self.remote.shown
        self.deterministic = deterministic
        self.batch_size = batch_size * self.remote.at_once
        self.settings = {"url": self.remote.shown}
        self.fingerprint = composed(f"http {self.remote.fingerprint}", geometry=self.geometry.fingerprint)

    def settle(self, view: View, target: int | str | None, question: str | None) -> RemoteBound:
        """Settle the target; nothing is sent yet."""
        if question is not None:
            raise WhymaskError(f"{self.name} takes a target, not a question.")
        sent = None if target == OWN_ANSWER else target  # the label of a saved result means the same
        if sent is not None and not isinstance(sent, str):
            sent = whole("a target that is a number", sent, 0)
        meant = Target(sent, str(sent)) if isinstance(sent, int) else Target.named(OWN_ANSWER if sent is None else sent)
        return RemoteBound.of(view, meant, sent=sent, probes=0)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Scores of images (B, H, W, 3); a request holds images of one target."""
        rows: dict[str | int | None, list[int]] = {}
        for i, bound in enumerate(cast(Sequence[RemoteBound], bounds)):
            rows.setdefault(bound.sent, []).append(i)
        step = self.per_request
        parts = [(sent, some[i : i + step]) for sent, some in rows.items() for i in range(0, len(some), step)]
        answers = self.remote.ask(
            [(partial(_body, inputs[part], sent), partial(self._scores, count=len(part))) for sent, part in parts],
            [len(part) for _, part in parts],
        )
        scores = np.empty(len(bounds))
        for (_, part), some in zip(parts, answers, strict=True):
            scores[part] = some
        return Response(scores, None)

    def _scores(self, answer: Any, count: int) -> Floats:
        scores = answer.get("scores") if isinstance(answer, dict) else None
        if not isinstance(scores, list) or not all(type(score) is float and isfinite(score) for score in scores):
            raise WhymaskError(f'{self.remote.shown} must return {{"scores": [...]}}, a list of numbers.')
        if len(scores) != count:
            raise WhymaskError(f"{self.remote.shown} was sent {count} images but returned {len(scores)} scores.")
        return np.array(scores, dtype=np.float64)


def _body(images: NDArray[np.uint8], target: str | int | None) -> dict[str, Any]:
    return {"images": [encoded(image, "png") for image in images], "target": target}
