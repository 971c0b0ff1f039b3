"""One worker drives a multimodal model: requests that wait together share its batches."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from whymask.errors import WhymaskError
from whymask.models.batching import Batching, is_out_of_memory, too_large
from whymask.models.dialogue import Answer
from whymask.models.mllm import Mllm, MllmBound
from whymask.serve.chat import Asked, ChatRequest, Conversation, FieldError
from whymask.serve.guard import RequestError
from whymask.serve.limits import unavailable
from whymask.serve.sampling import Choice, Place, Sampler, places

log = logging.getLogger(__name__)

KEPT = 8  # models with limits of their own; they share all weights


@dataclass(eq=False)
class Reply:
    """What the model made of a request."""

    prompt: int  # tokens, those of images included
    prompt_ids: list[int]  # of the text, an image being one token
    continued: list[Place] | None  # the tokens of the message that is continued
    choices: list[Choice]


@dataclass(eq=False)
class Work:
    """A request on its way through the model."""

    asked: Asked
    done: Future[Reply] = field(default_factory=Future)
    bound: MllmBound | None = None
    model: Mllm | None = None  # within the limits of the request
    said: tuple[int, ...] = ()  # the tokens of the message that is continued
    prompt_ids: list[int] = field(default_factory=list)

    @property
    def on(self) -> Mllm:
        """The model it is for."""
        assert self.model is not None
        return self.model


class Engine:
    """The queue of a model and its worker.

    While one batch is computed, the next requests gather. Those that need the probabilities of a given text, or one
    token, are scored by a single forward, which is shared by all n answers of a request; longer answers are written.
    """

    def __init__(self, model: Mllm, *, waiting: int = 512) -> None:
        self.model, self.waiting = model, waiting
        self.batching = Batching(model.batch_size)
        self.longest = context(model)
        self.limited: dict[tuple[tuple[str, int], ...], Mllm] = {}
        self.queue: deque[Work] = deque()
        self.changed = threading.Condition()
        self.stopping = False
        self.worker = threading.Thread(target=self._work, name="whymask-engine", daemon=True)
        self.worker.start()

    @property
    def full(self) -> bool:
        """Whether another request would be refused."""
        return len(self.queue) >= self.waiting

    def submit(self, asked: Asked) -> Future[Reply]:
        """Put a request into the queue."""
        work = Work(asked)
        with self.changed:
            if self.full or self.stopping:
                raise unavailable("requests")
            self.queue.append(work)
            self.changed.notify()
        return work.done

    def stop(self) -> None:
        """End the worker after its batch; waiting requests get an error."""
        with self.changed:
            self.stopping = True
            self.changed.notify()
        self.worker.join(timeout=30)
        for work in self.queue:
            _fail(work, unavailable("requests"))

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.queue or self.stopping)
                if self.stopping:
                    return
                some = [self.queue.popleft() for _ in range(min(len(self.queue), self.batching.size))]
            self._answer([work for work in some if work.done.set_running_or_notify_cancel()])

    def _answer(self, some: Sequence[Work]) -> None:
        """Run requests in batches; an error fails only the requests of its own batch."""
        kinds: dict[tuple[Hashable, ...], list[Work]] = {}
        for work in some:
            try:
                self._prepare(work)
            except Exception as error:  # of any library
                _fail(work, error)
                continue
            bound = cast(MllmBound, work.bound)
            kinds.setdefault((id(work.model), bound.key, _written(work.asked.request)), []).append(work)
        for (*_, written), together in kinds.items():
            self._together(self._write if written else self._score, together)

    def _together(self, run: Callable[[Sequence[Work]], None], some: Sequence[Work]) -> None:
        """Run a batch; one that does not fit into memory is run in halves."""
        start = time.perf_counter()
        try:
            run(some)
        except Exception as error:  # of any library
            if is_out_of_memory(error) and len(some) > 1:
                self.batching.out_of_memory(len(some))
            else:
                for work in some:
                    _fail(work, too_large() if is_out_of_memory(error) else error)
                return
        else:
            self.batching.record(len(some), time.perf_counter() - start)
            return
        for half in (some[: len(some) // 2], some[len(some) // 2 :]):
            self._together(run, half)

    def _prepare(self, work: Work) -> None:
        """Put images and prompt into the model's layout."""
        request, model = work.asked.request, self.model
        prompt = rendered(model, request)
        work.prompt_ids = model.dialogue.tokens(prompt)
        if request.prompt_logprobs is not None:
            before = {"messages": request.messages[:-1], "continue_final_message": False, "add_generation_prompt": True}
            prompt = rendered(model, request.model_copy(update=before))
            ids = model.dialogue.tokens(prompt)
            if work.prompt_ids[: len(ids)] != ids or len(ids) == len(work.prompt_ids):
                raise FieldError(
                    "messages", "cannot be scored: the last one changes the tokens of the prompt before it."
                )
            work.said = tuple(work.prompt_ids[len(ids) :])
        images = work.asked.images
        model = work.model = self._within(request.mm_processor_kwargs.model_dump(exclude_none=True))
        view = model.view(images[0] if len(images) == 1 else images)
        bound = model.prompted(view, prompt)
        work.bound = bound.answered(Answer("", ((),) * (len(work.said) + 1), work.said), 0) if work.said else bound
        needed = self._length(work) + request.tokens
        if needed > self.longest:
            raise RequestError(400, f"prompt and answer would have {needed} tokens, more than {self.longest}.")

    def _within(self, pixels: dict[str, int]) -> Mllm:
        """The model with the limits of a request; a few of these are kept."""
        key = tuple(sorted(pixels.items()))
        if pixels and key not in self.limited:
            while len(self.limited) >= KEPT:
                self.limited.pop(next(iter(self.limited)))
            self.limited[key] = self.model.within(**pixels)
        return self.limited[key] if pixels else self.model

    def _length(self, work: Work) -> int:
        return work.on.length(cast(MllmBound, work.bound)) + len(work.said)

    def _score(self, some: Sequence[Work]) -> None:
        """One forward: the text that is continued, and one token after it."""
        bounds = [cast(MllmBound, work.bound) for work in some]
        counts = [len(bound.answer.wanted) for bound in bounds]
        starts = torch.tensor([0, *counts]).cumsum(0).tolist()
        with torch.no_grad():
            logits = torch.cat([piece.float() for piece in some[0].on.logits(stacked(bounds), bounds)])
            for i, work in enumerate(some):
                own = logits[starts[i] : starts[i + 1]]
                request = work.asked.request
                continued = None
                if request.prompt_logprobs is not None:
                    continued = places(own[:-1], torch.tensor(work.said), request.prompt_logprobs)
                sampler = Sampler([request])
                chosen = sampler(own[-1:].expand(request.n, -1), range(request.n)).tolist()
                self._finish(work, sampler, [(token,) for token in chosen], continued)

    def _write(self, some: Sequence[Work]) -> None:
        """Answers of several tokens, n to each request."""
        bounds = [cast(MllmBound, work.bound) for work in some]
        sampler = Sampler([work.asked.request for work in some])
        most = max(work.asked.request.tokens for work in some)
        said = some[0].on.write(stacked(bounds), bounds, most, sampler, [work.asked.request.n for work in some])
        start = 0
        for work in some:
            request = work.asked.request
            own = [ids[: request.tokens] for ids in said[start : start + request.n]]
            self._finish(work, sampler, own, None, start)
            start += request.n

    def _finish(
        self,
        work: Work,
        sampler: Sampler,
        said: Sequence[tuple[int, ...]],
        continued: list[Place] | None,
        start: int = 0,
    ) -> None:
        ends = self.model.ends()
        choices = [
            Choice(ids, self.model.said(ids), ids[-1] in ends, sampler.places(start + i, len(ids)))
            for i, ids in enumerate(said)
        ]
        work.done.set_result(Reply(self._length(work), work.prompt_ids, continued, choices))


def rendered(model: Mllm, request: Conversation) -> str:
    """The messages as the model's chat template writes them."""
    try:
        return model.dialogue.chat(
            request.turns,
            add_generation_prompt=request.add_generation_prompt,
            continue_final_message=request.continue_final_message,
        )
    except Exception as error:  # templates fail in ways of their own
        reason = " ".join(str(error).split())[:200]
        raise FieldError("messages", f"do not fit the model's chat template ({reason}).") from None


def context(model: Mllm) -> int:
    """How many tokens prompt and answer may have together."""
    return int(model.module.config.get_text_config().max_position_embeddings)


def stacked(bounds: Sequence[MllmBound]) -> Any:
    """The inputs (B, ...) of images, none of them masked."""
    return torch.stack([bound.inputs for bound in bounds])


def _written(request: ChatRequest) -> bool:
    return request.tokens > 1


def _fail(work: Work, error: Exception) -> None:
    if not isinstance(error, WhymaskError | RequestError):
        log.exception("a request failed", exc_info=error)
        error = RequestError(500, f"the model failed on this request ({type(error).__name__}); see the server's log.")
    if not work.done.done():
        work.done.set_exception(error)
