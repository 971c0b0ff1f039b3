"""One image on one model: where the searches, which know only sets, meet pixels and scores."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import whole
from whymask.images.imaging import ImageSource, Resize, viewable
from whymask.images.masking import Fill, blend, compose, fill_name, stack
from whymask.images.partition import Partition, Regions, partition
from whymask.methods import Recipe
from whymask.metrics.curves import Curves
from whymask.models.base import Bound, Model, Response, named
from whymask.models.batching import Batching, is_out_of_memory, single, too_large
from whymask.models.memory import PeakMemory
from whymask.results.base import ExplainedImage
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.search.driver import Piece, Progress, Search, SearchResult, drive, in_batches
from whymask.search.objective import SUFF_NECC, SUFFICIENCY, Ledger, Objective, Oracle, Responses, pack
from whymask.search.protocol import Problem
from whymask.version import __version__

if TYPE_CHECKING:
    from whymask.models.differentiable import Differentiable

Listener: TypeAlias = Callable[[Progress], None] | None  # called after each batch


@dataclass(eq=False)
class Case:
    """A bound image with its partition, and every response known so far.

    Searches and replays of one case share its responses; each search still keeps its own ledger.
    """

    model: Model
    bound: Bound
    partition: Partition
    batching: Batching
    settings: dict[str, Any]  # question, resize, fill: what else the provenance contains
    responses: Responses = field(default_factory=Responses)
    before_batch: Callable[[int], None] | None = None
    """Called with the size of each batch, of gradient methods too; an exception raised here ends the search."""

    @classmethod
    def of(
        cls,
        image: ImageSource,
        model: Model,
        *,
        target: int | str | None = None,
        question: str | None = None,
        regions: Regions = "slico:64",
        fill: Fill = "black",
        resize: Resize = "own",
        batch_size: int | None = None,
    ) -> Case:
        """Bind an image to a model and divide what the model sees into regions."""
        bound = bind(model, image, target=target, question=question, resize=resize, fill=fill)
        width, height = bound.image.size
        parts = partition(bound.canvas, regions, image_shape=(height, width), box=bound.box)
        settings = {"question": question, "resize": resize, "fill": fill_name(fill)}
        return cls(model, bound, parts, batching(model, batch_size), settings)

    def again(self, **changes: Any) -> Case:
        """The same image and regions with another target or fill."""
        options = {name: self.settings.get(name) for name in ("question", "resize")}
        options |= {"target": self.bound.target.name, "fill": self.bound.fill, **changes}
        return replace(self, bound=bind(self.model, self.bound.image, **options), responses=Responses())

    def __post_init__(self) -> None:
        self._index = self.bound.index(self.partition.labels)

    def inputs(self, rows: Rows, room: Any = None) -> Any:
        """The masked inputs (B, ...) of kept sets (B, n) or pixel masks (B, H, W), sets in the memory of `room`."""
        x, x0 = self.bound.inputs, self.bound.fill_inputs
        if rows.dtype == np.bool_:
            return compose(rows, self._index, x, x0, room)
        return blend(rows, self.bound.pixel, x, x0)

    def differentiable(self) -> Differentiable:
        """The image for methods that use gradients, where its model can."""
        image = self._differentiable

        def read(inputs: Any) -> Any:
            if self.before_batch:
                self.before_batch(len(inputs))
            return image.read(inputs)

        return replace(image, read=read)

    @cached_property
    def _differentiable(self) -> Differentiable:
        from whymask.models.differentiable import checked

        if self.before_batch:
            self.before_batch(2)
        return checked(self.model, self.bound)

    def ask(self, rows: Bools, objective: Objective = SUFFICIENCY) -> tuple[Floats, int]:
        """Responses (sides, B) outside a search, and how many images had to be sent for them."""
        oracle = Oracle(self.responses)
        query = oracle.open(rows, objective, "probe")
        (responses,) = in_batches([(self, query.send)], Responder(), lambda: self.batching.size)
        return oracle.by_side(query, responses), len(query.send)

    def problem(self, seed: int) -> Problem:
        """What a search may know of this case; its random choices depend on the seed and the picture."""
        picture = int.from_bytes(hashlib.sha256(self.bound.canvas.tobytes()).digest()[:8])
        parts = self.partition
        return Problem(
            parts.n,
            (seed, picture),
            parts.centroids,
            parts.areas,
            parts.labels,
            differentiable=self.differentiable,
            parents=parts.parents,
        )

    def start(self, recipe: Recipe, seed: int = 0, *, budget: int | None = None, progress: Listener = None) -> Search:
        """A search of this case, for the driver to advance."""
        oracle = Oracle(self.responses)
        return Search(recipe, self.problem(seed), self, budget=budget, oracle=oracle, progress=progress)

    def search(
        self, recipe: Recipe, seeds: Sequence[int] = (0,), *, budget: int | None = None, progress: Listener = None
    ) -> list[EvidenceMask | Ordering]:
        """Run a recipe once per seed, all of them together; a result per seed."""
        memory = PeakMemory(self.model)
        start = time.perf_counter()
        searches = [self.start(recipe, seed, budget=budget, progress=progress) for seed in seeds]
        found = dict(drive(searches, Responder(), batch_size=lambda: self.batching.size))
        spent = {**memory.spent(), "budget": budget, "seconds": time.perf_counter() - start}  # the device has finished
        fingerprint = self.model.fingerprint
        return [
            self.result(found[i], self.provenance(recipe, seed, fingerprint) | spent) for i, seed in enumerate(seeds)
        ]

    def replay(self, order: Sequence[int]) -> Curves:
        """Insertion and deletion curves of an ordering; what is known is not sent again."""
        (insertion, deletion), sent = self.ask(prefixes(order), SUFF_NECC)
        return Curves(np.cumsum(self.partition.areas[list(order)]), insertion, deletion, forwards=sent)

    def result(self, found: SearchResult, provenance: dict[str, Any]) -> EvidenceMask | Ordering:
        """What a search found, as a user sees it: with the picture and its reference scores."""
        whole_image = np.ones(self.partition.n, dtype=bool)
        rows = [whole_image, ~whole_image]
        selection = found.selection
        masks = [selection, *selection.others] if found.order is None and selection is not None else []
        for one in masks:
            rows += [one.mask, ~one.mask]
        ((full, blank, *own),), _ = self.ask(np.array(rows))
        ledger = Ledger(dict(found.ledger.entries))
        # Counted as if this search ran alone: what it has asked for itself is known, other images are not.
        fresh = len(set(pack(np.array(rows))) - found.asked)
        ledger.add("probe", "suff", len(rows) + self.bound.probes, fresh + self.bound.probes)
        image = ExplainedImage(
            photo=viewable(self.bound.image),
            canvas=self.bound.canvas,
            fill=self.bound.fill,
            box=self.bound.box,
            partition=self.partition,
            target=self.bound.target,
            prediction=named(self.model, self.responses.answers_to(whole_image[None])[0]),
            full_score=float(full),
            blank_score=float(blank),
        )
        if found.order is not None:
            order = tuple(found.order.tolist())
            kept = 0 if selection is None else selection.kept
            regions = () if selection is None else selection.regions
            return Ordering(
                image, ledger, provenance, found.complete, order=order, initial_mask=regions, kept=kept, map=found.map
            )
        assert selection is not None
        first = EvidenceMask(
            image,
            ledger,
            provenance,
            found.complete,
            regions=selection.regions,
            ordered=len(selection.order or ()) == len(selection.regions),
            score=float(own[0]),
            removed_score=float(own[1]),
            frontier=found.frontier,
            goal=selection.goal,
            local_optimum=selection.local_optimum,
        )
        others = zip(selection.others, own[2::2], own[3::2], strict=True)
        return first.with_alternatives(
            [(np.flatnonzero(other.mask).tolist(), float(kept), float(removed)) for other, kept, removed in others]
        )

    def provenance(self, recipe: Recipe, seed: int, fingerprint: str) -> dict[str, Any]:
        """Everything needed to get a result again; the model's fingerprint is given, since it may take seconds."""
        return {
            "method": recipe.name,
            "needs": recipe.method.needs,
            "parameters": recipe.parameters,
            "seed": seed,
            "model": self.model.name,
            "model_fingerprint": fingerprint,
            "deterministic": self.model.deterministic,
            "regions": self.partition.name,
            "partition_fingerprint": self.partition.fingerprint,
            "canvas_fingerprint": hashlib.sha256(self.bound.canvas.tobytes()).hexdigest()[:16],
            "fill_fingerprint": hashlib.sha256(self.bound.fill.tobytes()).hexdigest()[:16],
            **self.settings,
            **self.model.settings,
            "batch_size": self.batching.size,
            "versions": {"python": platform.python_version(), **versions()},
        }


def prefixes(order: Sequence[int]) -> Bools:
    """The first 1 ... n regions of an ordering as kept sets, (n, n)."""
    return np.arange(len(order))[:, None] >= np.argsort(order)


def versions() -> dict[str, str]:
    """Of this package and those that can move a score."""
    packages = ("numpy", "pillow", "scikit-image", "scikit-learn", "torch")
    return {"whymask": __version__, **{name: version(name) for name in packages}}


_LEARNED: WeakKeyDictionary[Model, Batching] = WeakKeyDictionary()


def batching(model: Model, batch_size: int | None = None) -> Batching:
    """The user's batch size, or what this model has learned so far."""
    if batch_size is not None:
        return Batching(whole("batch_size", batch_size, 1), fixed=True)
    return _LEARNED.setdefault(model, Batching(model.batch_size))


def bind(model: Model, image: ImageSource, **options: Any) -> Bound:
    """Bind an image to a model; one that does not fit into memory is an error."""
    with single():
        return model.bind(image, **options)


class Responder:
    """Answers the driver's batches: each piece is about a case, and rows that fit together share a forward.

    A batch that does not fit into memory is sent in halves.
    """

    def __init__(self) -> None:
        self._room: dict[Hashable, Any] = {}  # the last batch of tensors: the next of its kind reuses its memory

    def __call__(self, pieces: Sequence[Piece]) -> list[Floats]:
        """The scores of each piece."""
        answers: list[Floats] = [np.empty(0)] * len(pieces)
        by_key: dict[Hashable, list[int]] = {}
        for i, (case, _) in enumerate(pieces):
            by_key.setdefault((id(case.model), case.bound.key), []).append(i)
        for together in by_key.values():
            some = [pieces[i] for i in together]
            for i, scores in zip(together, _by_piece(self._forward(some), some), strict=True):
                answers[i] = scores
        return answers

    def _forward(self, pieces: Sequence[Piece]) -> Floats:
        first: Case = pieces[0][0]
        count = sum(len(rows) for _, rows in pieces)
        if first.before_batch:
            first.before_batch(count)
        start = time.perf_counter()
        response = self._attempt(pieces, count)
        if response is None:
            if count == 1:
                raise too_large()
            first.batching.out_of_memory(count)
            return np.concatenate([self._forward(half) for half in halves(pieces)])
        first.batching.record(count, time.perf_counter() - start)
        if response.top is not None:
            for (case, rows), answers in zip(pieces, _by_piece(response.top, pieces), strict=True):
                case.responses.answers.update(zip(pack(rows), answers.tolist(), strict=True))
        return response.score

    def _attempt(self, pieces: Sequence[Piece], count: int) -> Response | None:
        """The response to a batch; None when memory ran out, and then nothing of the batch is left in it."""
        first, room = pieces[0][0], self._room
        key = (id(first.model), first.bound.key)
        if key not in room or len(room[key]) < count:
            room.clear()  # first, so that two batches are never held at once
        try:
            if len(pieces) == 1:  # one image: its batches can be composed in the same memory
                inputs = first.inputs(pieces[0][1], room.get(key))
                if not isinstance(inputs, np.ndarray):  # only tensors are composed in given memory
                    room.setdefault(key, inputs)
            else:
                inputs = stack([case.inputs(rows) for case, rows in pieces])
            response: Response = first.model.respond(inputs, [case.bound for case, rows in pieces for _ in rows])
            return response
        except Exception as error:  # of any library
            if not is_out_of_memory(error):
                raise
            room.clear()
            return None


def _by_piece(values: NDArray[Any], pieces: Sequence[Piece]) -> list[NDArray[Any]]:
    return np.split(values, np.cumsum([len(rows) for _, rows in pieces])[:-1])


def halves(pieces: Sequence[Piece]) -> tuple[list[Piece], list[Piece]]:
    """The same rows in two lists of pieces, about half of them in each."""
    left = sum(len(rows) for _, rows in pieces) // 2
    first: list[Piece] = []
    second: list[Piece] = []
    for about, rows in pieces:
        if left:
            first.append((about, rows[:left]))
        if len(rows) > left:
            second.append((about, rows[left:]))
        left = max(0, left - len(rows))
    return first, second
