"""Jobs: a bounded queue, one worker that uses the models, and what is known of each job while it runs."""

import logging
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from PIL import Image

from whymask.errors import WhymaskError
from whymask.explainer.explainer import Explainer
from whymask.explainer.repairing import repair
from whymask.explainer.several import explain_words, recipe_for
from whymask.images.imaging import viewable
from whymask.methods import Recipe
from whymask.models.base import Model
from whymask.results.base import Explanation
from whymask.results.ordering import Ordering
from whymask.search.driver import Progress
from whymask.search.joint import Joint
from whymask.serve.again import on_its_photo
from whymask.serve.history import History
from whymask.serve.request import MAX_PIXELS, Request
from whymask.serve.what_if import WhatIfs
from whymask.utils.text import all_displayed
from whymask.views.document import picture, thumbnail

log = logging.getLogger(__name__)

MAX_HELD = 4 * MAX_PIXELS  # pixels of all waiting images together, 4 bytes each
HIDDEN = 60.0  # seconds between two requests of a hidden page: browsers slow its timers down to one a minute

State = Literal["queued", "running", "done", "failed", "cancelled"]


class QueueFullError(Exception):
    """There are as many jobs as may wait."""


class Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """Ends a job between two batches."""


@dataclass(eq=False)
class Job:
    """One image to explain, and its progress. The worker writes it, any thread may read it."""

    id: str
    request: Request
    image: Image.Image | None  # until the job is over
    before: Explanation | None = None  # the result that it is a question about
    state: State = "queued"
    forwards: int = 0  # so far, batch by batch; methods that use gradients count those of their passes
    expected: int = 0  # about how many forwards the search takes
    regions: tuple[int, ...] = ()  # the best mask so far
    score: float | None = None  # what it keeps
    message: str = ""
    picture: dict[str, Any] | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    seen: float = field(default_factory=time.monotonic)  # when somebody last asked about it

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in ("done", "failed", "cancelled")

    def as_dict(self) -> dict[str, Any]:
        """The state of the job for clients."""
        names = ("id", "state", "forwards", "expected", "regions", "score", "message")
        return {name: getattr(self, name) for name in names} | {"picture": self.picture is not None}

    @cached_property
    def about(self) -> dict[str, Any]:
        """What is explained: the image in small, the model and the question."""
        image = self.image
        small = image.convert("RGB") if image else Image.new("RGB", (1, 1))  # it has ended meanwhile
        small.thumbnail((240, 240))
        asked = {"model": self.request.model, "question": self.request.question}
        return {**all_displayed(asked), "thumbnail": thumbnail(np.asarray(small))}


class Jobs:
    """The queue and its worker."""

    def __init__(
        self, models: Mapping[str, Callable[[], Model]], history: History, *, waiting: int = 8, patience: float = 20.0
    ) -> None:
        self.models, self.history = models, history
        self.waiting, self.patience = waiting, patience
        self.loaded: dict[str, Model] = {}
        self.jobs: dict[str, Job] = {}  # the latest ones, so that a page that is loaded again finds its job
        self.queue: deque[Job] = deque()
        self.changed = threading.Condition()
        self.what_ifs = WhatIfs(history, self.models, self.loaded, self.changed)
        self.stopping = False
        self.worker = threading.Thread(target=self._work, name="whymask-worker", daemon=True)
        self.worker.start()

    @property
    def full(self) -> bool:
        """Whether another job would be refused."""
        return len(self.queue) >= self.waiting

    def submit(self, request: Request, image: Image.Image, before: Explanation | None = None) -> Job:
        """Put a job into the queue."""
        with self.changed:
            held = sum(math.prod(job.image.size) for job in self.queue if job.image)
            if self.full or self.stopping or held + math.prod(image.size) > MAX_HELD:
                raise QueueFullError
            job = Job(secrets.token_hex(8), request, image, before)
            self.jobs[job.id] = job
            for old in [one for one in self.jobs.values() if one.over][:-32]:
                del self.jobs[old.id]
            self.queue.append(job)
            self.changed.notify()
        return job

    def ahead(self, job: Job) -> int:
        """How many jobs have to end before this one begins."""
        waiting = [*self.queue]
        return (
            waiting.index(job) + any(one.state == "running" for one in [*self.jobs.values()]) if job in waiting else 0
        )

    def under_way(self) -> list[dict[str, Any]]:
        """What a list shows of the jobs that run and wait, in the order of their turns."""
        return [job.as_dict() | job.about | {"ahead": self.ahead(job)} for job in [*self.jobs.values()] if not job.over]

    def cancel(self, job: Job) -> None:
        """End a job: at once when it waits, before its next batch when it runs."""
        job.cancelled.set()
        with self.changed:
            if job in self.queue:
                self.queue.remove(job)
                self._end(job, "cancelled", "Cancelled.")

    def watch(self, job: Job, *, hidden: bool = False) -> None:
        """Note that somebody asks about a job: one that nobody has asked about for a while is ended.

        A page that is hidden cannot ask as often, so its job goes on for longer.
        """
        job.seen = max(job.seen, time.monotonic() + (HIDDEN if hidden else 0))

    def forget(self, name: str) -> None:
        """Drop what is known of a job that is over, and of its result."""
        self.what_ifs.forget(name)
        with self.changed:
            if name in self.jobs and self.jobs[name].over:
                del self.jobs[name]

    def stop(self) -> None:
        """End the worker before its next batch, and with it every job."""
        with self.changed:
            self.stopping = True
            self.changed.notify()
        self.what_ifs.stop()
        self.worker.join(timeout=30)
        for job in self.jobs.values():
            if not job.over:  # it has waited, or its model does not come back
                self._end(job, "cancelled", "The server was stopped.")

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.queue or self.what_ifs.waiting or self.stopping)
                if self.stopping:
                    return
                job = self.queue.popleft() if self.queue else None
            self.what_ifs.answer()
            if job is None:
                continue
            job.state = "running"
            try:
                self._check(job)
                self._run(job)
                self._end(job, "done", "")
            except Stopped as stopped:
                self._end(job, "cancelled", str(stopped))
            except WhymaskError as error:
                self._end(job, "failed", str(error))
            except BaseException as error:
                # A model is the user's code: whatever it does, the worker goes on.
                log.exception("job %s failed", job.id)
                self._end(
                    job, "failed", f"the model failed on this image ({type(error).__name__}); see the server's log."
                )

    def _end(self, job: Job, state: State, message: str) -> None:
        job.message, job.image, job.before = message, None, None
        job.state = state  # last: readers of the new state then see everything else

    def _check(self, job: Job) -> None:
        if job.cancelled.is_set():
            raise Stopped("Cancelled.")
        if self.stopping:
            raise Stopped("The server was stopped.")
        if time.monotonic() - job.seen > self.patience:
            raise Stopped("The page was closed, so the search was stopped.")

    def _between_batches(self, job: Job) -> None:
        self._check(job)
        self.what_ifs.answer()

    def _run(self, job: Job) -> None:
        request = job.request
        if request.model not in self.loaded:
            job.message = "Loading the model."
            self.loaded[request.model] = self.models[request.model]()
            job.message = ""
        explainer = Explainer(self.loaded[request.model], request.settings)
        assert job.image is not None
        if request.words:
            case, text = explainer.text(job.image, question=request.question)
            recipe: Recipe | Joint = recipe_for(request.settings, len(text.split()))
        else:
            target = request.want or request.target
            case, recipe = explainer.case(job.image, target=target, question=request.question), explainer.recipe
        job.expected = recipe.estimate(case.partition.n, len(case.fills))
        bound, before = case.bound, job.before and job.before.image
        photo, box = (before.photo, before.box) if before else (viewable(bound.image), bound.box)
        job.picture = picture(photo, bound.canvas, bound.fill, box, case.partition)

        def count(images: int) -> None:
            self._between_batches(job)
            job.forwards += images

        def report(progress: Progress) -> None:
            job.forwards = progress.forwards  # what is known already was not sent
            job.regions, job.score = progress.standing()

        case.before_batch = count
        result: Explanation
        if request.words:
            result = explain_words(case, text, request.settings, report)
        elif request.want:
            result = repair(case, explainer.recipe, request.settings.seed, progress=report)
        else:
            (result,) = explainer.search(case, progress=report)
        job.forwards = result.ledger.mec
        case.before_batch = lambda _: self._between_batches(job)
        if isinstance(result, Ordering):
            job.message = "Replaying the ordering."
            result = result.with_curves(case.replay(result.order))
        result = replace(result, provenance={**result.provenance, "offered_as": request.model})
        self.history.save(job.id, on_its_photo(result, before) if before else result)
