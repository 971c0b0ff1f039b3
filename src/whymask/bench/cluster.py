"""Workers on Ray: every GPU, or every CPU slot, is an actor that holds the model and pulls samples.

This process hands out the work and gets the records as they come; what a lost worker has not sent is done by another.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from signal import SIGTERM, getsignal, signal
from socket import create_connection
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

from whymask.bench.config import ModelSpec
from whymask.bench.layout import Layout
from whymask.bench.records import Record
from whymask.bench.work import Claim, Queue, Work
from whymask.bench.worker import Plan, Worker
from whymask.data.manifest import Sample
from whymask.errors import WhymaskError
from whymask.models import Model
from whymask.models.packages import optional

TRIES = 2  # workers that may die on a single sample
EVERY = 5.0  # seconds between two looks at the head
PATIENCE = 30.0  # seconds it may be away; after 60, Ray ends this process without a message from us


class LostHeadError(WhymaskError):
    """The head of the cluster is gone."""


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to the Ray at an address; "auto" takes one that runs here, or starts one on this machine."""
    ray = optional("ray")
    if ray is None:
        raise WhymaskError("--ray needs Ray: pip install 'whymask[bench]'.")
    if ray.is_initialized():  # by the caller, who will end it
        yield
        return
    if address.rpartition(":")[2].isdecimal():  # Ray itself would try for minutes
        try:
            _reach(address.rpartition("//")[2])
        except (OSError, OverflowError, ValueError) as error:
            raise WhymaskError(f"there is no Ray cluster at {address!r}: {error}.") from None
    handler = getsignal(SIGTERM)
    try:
        ray.init(None if address == "auto" else address, log_to_driver=False, logging_level="error")
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise WhymaskError(
            f"cannot connect to the Ray cluster at {address!r}: {reason}. Its version must be {ray.__version__}; if it "
            "requires a token, set RAY_AUTH_TOKEN."
        ) from None
    try:
        if callable(handler) and handler is not getsignal(SIGTERM):  # Ray's own handler exits silently
            signal(SIGTERM, handler)
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    host, _, port = address.rpartition(":")
    create_connection((host.strip("[]"), int(port)), timeout=10).close()


class Head:
    """The head of the cluster, which this process cannot go on without."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.seen = self.looked = monotonic()

    def check(self, *, wait: bool = False) -> None:
        """Check every few seconds that it can be reached, or wait until it can; raises an error after PATIENCE.

        Ray itself says nothing about it: calls hang, until it ends the process.
        """
        while wait or monotonic() - self.looked > EVERY:
            self.looked = monotonic()
            try:
                _reach(self.address)
            except OSError:
                if self.looked - self.seen > PATIENCE:
                    raise LostHeadError(f"the head of the Ray cluster, {self.address}, was lost.") from None
                sleep(min(1.0, PATIENCE / 10))
            else:
                self.seen, wait = self.looked, False


class Job(NamedTuple):
    """What an actor does: it computes a piece of work or, without one, loads its model."""

    actor: Any
    claim: Claim | None = None

    def end(self) -> None:
        """Let other processes claim what is left of it."""
        if self.claim:
            self.claim.held.close()


class Workers:
    """Does what a worker does, on as many actors as the cluster has room for."""

    def __init__(self, worker: Worker) -> None:
        ray: Any = optional("ray")
        self.ray, self.name = ray, worker.spec.name
        kind = "GPU" if str(worker.spec.options.get("device")).startswith("cuda") else "CPU"
        self.slots = int(ray.cluster_resources().get(kind, 0))
        if not self.slots:
            raise WhymaskError(f"{self.name} needs a {kind}, and this Ray cluster has none.")
        self.head = Head(ray.get_runtime_context().gcs_address)
        load = partial(_load, load=worker.load, folder=Path.cwd(), threads=1 if kind == "CPU" else None)
        actor = ray.remote(**{f"num_{kind.lower()}s": 1})(Worker)
        self._start = partial(actor.remote, worker.config, worker.spec, load)
        self.idle: list[Any] = []
        self.jobs: dict[Any, Job] = {}  # by the handles of their results

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        for job in self.jobs.values():
            job.end()
        for actor in [*self.idle, *(job.actor for job in self.jobs.values())]:
            self.ray.kill(actor)

    def plan(self, read: Mapping[str, list[Sample]]) -> Plan:
        """As `Worker.plan`, by the first actor."""
        self.idle.append(self._start())
        planned: Plan = self._alone(self.idle[0].plan.remote(read))
        return planned

    def layouts(self, samples: Sequence[Sample]) -> list[Layout]:
        """As `Worker.layouts`, by the first actor."""
        made: list[Layout] = self._alone(self.idle[0].layouts.remote(samples))
        return made

    def results(self, queue: Queue) -> Iterator[Record]:
        """As `Worker.results`; the records of several pieces of work come as they are found."""
        lost: Counter[str] = Counter()
        for _ in range(1, min(self.slots, sum(bool(work.missing(queue.store)) for work in queue.waiting))):
            self._add()
        while True:
            self._hand_out(queue)
            if not queue and not self._at_work():
                return
            ready = self._first([*self.jobs])
            job = self.jobs[ready]
            try:
                if job.claim:
                    yield self._ready(next(ready))
                    continue
                self._ready(ready)
            except StopIteration:
                pass
            except self.ray.exceptions.RayActorError:
                del self.jobs[ready]
                job.end()
                if not job.claim:
                    raise self._died_early() from None
                self._add()
                yield from _requeued(job.claim.work, queue, lost)
                continue
            del self.jobs[ready]
            job.end()
            self.idle.append(job.actor)

    def _alone(self, reference: Any) -> Any:
        """What the first actor answers, while there is no other."""
        try:
            return self._ready(self._first([reference]))
        except self.ray.exceptions.RayActorError:
            raise self._died_early() from None

    def _add(self) -> None:
        """One more actor; it gets work once it has its model, so that none waits for room in the cluster."""
        self.head.check(wait=True)
        actor = self._start()
        self.jobs[actor.ready.remote()] = Job(actor)

    def _first(self, references: list[Any]) -> Any:
        """The first of these references that is ready."""
        while True:
            self.head.check()
            ready, _ = self.ray.wait(references, num_returns=1, timeout=EVERY)
            if ready:
                return ready[0]

    def _at_work(self) -> bool:
        return any(job.claim for job in self.jobs.values())

    def _hand_out(self, queue: Queue) -> None:
        # Other processes may have what is left: our own work first.
        while self.idle and (claim := queue.claim(wait=not self._at_work())):
            actor = self.idle.pop()
            stream = actor.compute.options(num_returns="streaming").remote(claim.work, claim.missing)
            self.jobs[stream] = Job(actor, claim)

    def _ready(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, WhymaskError):
                raise WhymaskError(str(error.cause)) from None
            raise

    def _died_early(self) -> WhymaskError:
        return WhymaskError(f"a Ray worker died while it loaded {self.name}; check the memory per worker.")


def _requeued(work: Work, queue: Queue, lost: Counter[str]) -> Iterator[Record]:
    """Queue the samples of a lost worker one by one; one that several workers died on is recorded as failed."""
    if len(work.samples) > 1:
        queue.waiting.extendleft(Work([sample], work.rows) for sample in work.samples)
        return
    lost[work.name] += 1
    if lost[work.name] < TRIES:
        queue.waiting.appendleft(work)
        return
    missing = work.missing(queue.store)
    for item in work.items:
        if item.key in missing:
            yield {**item.names, "error": f"the worker died {TRIES} times on this sample alone"}


def _load(spec: ModelSpec, load: Callable[[ModelSpec], Model], folder: Path, threads: int | None) -> Model:
    """Load a model in an actor, in the working directory of the run, so that relative paths stay valid."""
    os.chdir(folder)
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    return load(spec)
