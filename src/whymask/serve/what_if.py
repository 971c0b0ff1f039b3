"""What-ifs: what a model makes of any regions of a past result, asked between two batches of whatever else it does."""

import asyncio
import json
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, MutableMapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from whymask.errors import WhymaskError
from whymask.explainer.restored import Shown, WhatIf
from whymask.models.base import Model
from whymask.results import EvidenceMasks, Explanation
from whymask.serve.guard import RequestError
from whymask.serve.history import History
from whymask.serve.limits import unavailable
from whymask.utils.text import all_displayed

log = logging.getLogger(__name__)

HELD = 4  # results whose images stay bound to their models
MOST_WAITING = 16  # questions at the same time
PATIENCE = 60.0  # seconds that a question waits for the model
QUESTION_BYTES = 2**16
REGIONS = 10_000  # in a question


@dataclass(eq=False)
class Question:
    """Some regions of a result, and the answer once the model has given it.

    Where a result holds masks for several answers, `mask` is the number of the one that is asked about.
    """

    name: str
    regions: list[int]
    mask: int = 0
    answer: "Future[Shown]" = field(default_factory=Future)


class WhatIfs:
    """Questions wait here for the thread that uses the models, which answers them between two batches."""

    def __init__(
        self,
        history: History,
        models: Mapping[str, Callable[[], Model]],
        loaded: MutableMapping[str, Model],
        changed: threading.Condition,
    ) -> None:
        self.history, self.models, self.loaded, self.changed = history, models, loaded, changed
        self.waiting: deque[Question] = deque()
        self.held: OrderedDict[tuple[str, int], WhatIf] = OrderedDict()  # by result and mask, the latest last
        self.stopped = False

    async def ask(self, name: str, regions: list[int], mask: int = 0) -> dict[str, Any]:
        """What the model makes of these regions of a result."""
        question = Question(name, regions, mask)
        with self.changed:
            if self.stopped or len(self.waiting) >= MOST_WAITING:
                raise unavailable("questions")
            self.waiting.append(question)
            self.changed.notify()
        try:
            shown = await asyncio.wait_for(asyncio.wrap_future(question.answer), PATIENCE)
        except TimeoutError:
            raise RequestError(503, "the model is busy or still loading; try again in a moment.") from None
        return dict(all_displayed(asdict(shown)))

    def answer(self) -> None:
        """Answer those that wait; called by the thread that uses the models."""
        for _ in range(len(self.waiting)):  # those that come meanwhile wait for another batch
            question = self.waiting.popleft()
            if not question.answer.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                question.answer.set_result(self._what_if(question.name, question.mask).ask(question.regions))
            except (WhymaskError, RequestError) as error:
                question.answer.set_exception(error)
            except BaseException as error:
                # A model is the user's code, a file may be from elsewhere: whatever they do, the worker goes on.
                log.exception("a question about result %s failed", question.name)
                failed = f"the model failed on these regions ({type(error).__name__}); see the server's log."
                question.answer.set_exception(RequestError(422, failed))

    def forget(self, name: str) -> None:
        """Drop what is held of a result."""
        for key in [key for key in self.held if key[0] == name]:
            self.held.pop(key, None)

    def stop(self) -> None:
        """Take no more questions, and end those that wait."""
        with self.changed:
            self.stopped = True
        with suppress(IndexError):
            while True:
                self.waiting.popleft().answer.cancel()

    def _what_if(self, name: str, mask: int) -> WhatIf:
        """The image of a result on its model: that of its last question, or made from its file."""
        what_if = self.held.pop((name, mask), None)
        if what_if is None:
            result = self.history.load(name)
            if result is None:
                raise RequestError(404, "there is no such result.")
            masks = result.each if isinstance(result, EvidenceMasks) else (result,)
            if mask >= len(masks):
                raise WhymaskError(f"this result has no mask {mask}: its masks are numbered 0 to {len(masks) - 1}.")
            what_if = WhatIf(masks[mask], self._model(result))
        self.held[name, mask] = what_if
        while len(self.held) > HELD:
            self.held.popitem(last=False)
        if self.history.path(name) is None:  # deleted meanwhile: `forget` may have come before it was held
            self.forget(name)
            raise RequestError(404, "there is no such result.")
        return what_if

    def _model(self, result: Explanation) -> Model:
        """The model of a result, by its name and its fingerprint; one that is not loaded yet is loaded."""
        name, fingerprint = str(result.provenance.get("model")), result.provenance.get("model_fingerprint")
        if name in self.models and name not in self.loaded:
            self.loaded[name] = self.models[name]()
        known = [model for model in self.loaded.values() if model.name == name]
        for model in known:
            if model.fingerprint == fingerprint:
                return model
        if known:
            raise WhymaskError(f"{name} has changed since this result: explain the image again.")
        raise WhymaskError(f"this server does not have {name}, the model of this result.")


def parsed_question(body: bytes) -> tuple[list[int], int]:
    """The regions that a client sent as {"regions": [...]}, and the number of the mask, "mask", by default 0."""
    try:
        question = json.loads(body)
        given, mask = question["regions"], question.get("mask", 0)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        given, mask = None, 0
    if not isinstance(given, list) or len(given) > REGIONS or any(type(one) is not int for one in given):
        raise WhymaskError('a question must look like {"regions": [0, 3]}.')
    if type(mask) is not int or mask < 0:
        raise WhymaskError('"mask" must be the number of a mask of the result, counted from 0.')
    return given, mask
