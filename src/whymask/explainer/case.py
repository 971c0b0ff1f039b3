"""One image on one model: where the searches, which know only sets, meet pixels and scores."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from whymask.arrays import Bools, Floats, Rows
from whymask.errors import WhymaskError, whole
from whymask.explainer.answers import first_choices
from whymask.explainer.binding import answering, bind_fills, divided
from whymask.explainer.controls import controls
from whymask.explainer.costs import affordable, costs, unknown_cost
from whymask.explainer.responder import Filled, Responder
from whymask.explainer.scored import scored_sets
from whymask.images.imaging import ImageSource, Resize, viewable
from whymask.images.masking import Fills, fills_name, fills_of
from whymask.images.partition import Partition, Regions
from whymask.methods import Recipe
from whymask.metrics.curves import Curves
from whymask.models.base import Bound, Measures, Model, Wanted, meaning, named
from whymask.models.batching import Batching
from whymask.models.memory import PeakMemory
from whymask.models.spending import Spent, account
from whymask.results.base import ExplainedImage
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.search.answer import AnswerOracle, score
from whymask.search.batches import Piece, in_batches
from whymask.search.driver import Progress, Search, SearchResult, drive
from whymask.search.measured import Measured, MeasuredOracle
from whymask.search.objective import SUFF_NECC, SUFFICIENCY, Ledger, Objective, OverFills
from whymask.search.oracle import Oracle, Responses
from whymask.search.protocol import Algorithm, Problem
from whymask.version import __version__

if TYPE_CHECKING:
    from whymask.models.differentiable import Differentiable

Listener: TypeAlias = Callable[[Progress], None] | None  # called after each batch


@dataclass(eq=False)
class Case:
    """A bound image with its partition, and every response known so far.

    Searches and replays of one case share its responses; each search still keeps its own ledger. With several fills, a
    set is scored on all of them.
    """

    model: Model
    bound: Bound
    partition: Partition
    batching: Batching
    settings: dict[str, Any]  # question, resize, fill and more, for the provenance
    further: tuple[Bound, ...] = ()  # the same image and answer on further fills
    over_fills: OverFills = "mean"
    keep_answer: bool = False  # whether a set is enough where the model still gives the answer, however it scores
    rival: Bound | None = None  # another answer; the score is then the margin over it
    sent: int = 0  # images sent outside of searches
    spent: Spent = field(default_factory=Spent)  # on requests
    before_batch: Callable[[int], None] | None = None
    """Called with the size of each batch, of gradient methods too; an exception raised here ends the search."""

    @classmethod
    def of(
        cls,
        image: ImageSource,
        model: Model,
        *,
        target: Wanted = None,
        question: str | None = None,
        regions: Regions = "slico:64",
        fill: Fills = "black",
        over_fills: OverFills = "mean",
        resize: Resize = "own",
        batch_size: int | None = None,
        keep_answer: bool = False,
        against: int | str | None = None,
    ) -> Case:
        """Bind an image to a model and divide what the model sees into regions."""
        fills, before = fills_of(fill), account(model)
        bound, *further = bind_fills(model, image, fills, target=target, question=question, resize=resize)
        parts = divided(bound, regions)
        settings: dict[str, Any] = {"question": question, "resize": resize, "fill": fills_name(fills)}
        if further:
            settings["over_fills"] = over_fills
        if keep_answer:
            settings["keep"] = "answer"
        case = cls(model, bound, parts, batching(model, batch_size), settings, tuple(further), over_fills, keep_answer)
        case.spent = account(model) - before
        return case if against is None else case.against(against)

    def against(self, answer: int | str) -> Case:
        """The case whose score is the margin over another answer, max(0, f_y - f_z)."""
        if self.keep_answer:
            raise WhymaskError("against explains a margin between two scores: keep a share of it, keep=0.9.")
        rival = answering(self.model, self.bound, answer, self.settings.get("question"))
        if meaning(rival) == meaning(self.bound):
            raise WhymaskError(f"the answer and the one it is explained against are both {rival.target.label!r}.")
        return replace(self, rival=rival, settings=self.settings | {"against": rival.target.label, "rival": rival.aim})

    def answering(self, answer: int | str) -> Case:
        """The same image and fills with another answer, without a forward."""
        question = self.settings.get("question")
        bounds = [answering(self.model, filled.bound, answer, question) for filled in self.fills]
        return replace(self, bound=bounds[0], further=tuple(bounds[1:]))

    def filled(self, bound: Bound) -> Filled:
        """A bound image (this one on a fill, or a control) with its own responses to the same answers."""
        responses = Measured(samples=self.model.samples) if isinstance(self.model, Measures) else Responses()
        if self.rival is None:
            return Filled(self, bound, responses)
        return Filled(self, bound, responses, each=(bound, self.rival), margin=True)

    def again(self, **changes: Any) -> Case:
        """The same image and regions with another target (None: the model's own answer), or with other fills."""
        options: dict[str, Any] = {name: self.settings.get(name) for name in ("question", "resize")}
        options |= {"target": self.bound.aim, **changes}
        fills = fills_of(options.pop("fill", [filled.bound.fill for filled in self.fills]))
        if self.bound.panels:
            options["resize"] = "none"
        bound, *further = bind_fills(self.model, self.bound.source, fills, **options)
        return replace(self, bound=bound, further=tuple(further))

    def __post_init__(self) -> None:
        self.fills = tuple(self.filled(bound) for bound in (self.bound, *self.further))

    def inputs(self, rows: Rows) -> Any:
        """The masked inputs (B, ...) of kept sets (B, n) or pixel masks (B, H, W), on the first fill."""
        return self.fills[0].inputs(rows)

    @property
    def whole_image(self) -> Bools:
        """(1, n) all regions, as a set."""
        return np.ones((1, self.partition.n), dtype=bool)

    @property
    def responses(self) -> Responses:
        """To masked versions of the image on the first fill."""
        return self.fills[0].responses

    def oracle(self) -> Oracle:
        """A new oracle over the responses known so far."""
        kind = MeasuredOracle if isinstance(self.model, Measures) else Oracle
        return kind(*(filled.responses for filled in self.fills), how=self.over_fills)

    def _oracle_of_search(self) -> Oracle:
        """The oracle of a search; with `keep_answer` it rewards sets that keep the answer."""
        if not self.keep_answer:
            return self.oracle()
        known = [filled.responses for filled in self.fills]
        return AnswerOracle(*known, answers=first_choices(self.bound), how=self.over_fills)

    def kept(self, rows: Bools) -> list[bool]:
        """Whether the model gives the answer to each of some sets (B, n) on every fill; they must have been scored."""
        answers, wanted = [filled.responses.answers_to(rows) for filled in self.fills], first_choices(self.bound)
        return [all(top in wanted for top in tops) for tops in zip(*answers, strict=True)]

    def forget(self) -> None:
        """Drop every response."""
        for filled in self.fills:
            filled.responses.clear()

    def differentiable(self) -> Differentiable:
        """The image for methods that use gradients; raises an error where the model offers none."""
        if self.rival is not None:
            raise WhymaskError("methods that use gradients explain one answer: leave against out.")
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
        oracle = self.oracle()
        query = oracle.open(rows, objective, "probe")
        (*responses,) = self.send([*zip(self.fills, query.by_fill, strict=True)])
        return oracle.by_side(query, np.concatenate(responses)), len(query.send)

    def send(self, pieces: Sequence[Piece]) -> list[Floats]:
        """The responses to each piece."""
        self.sent += sum(len(rows) for _, rows in pieces)
        return in_batches(pieces, Responder(), lambda: self.batching.size)

    @property
    def answers(self) -> dict[str, int]:
        """How many answers each reported score is a share of, for the provenance; empty where it is a probability."""
        if not isinstance(self.model, Measures):
            return {}
        alike = len(self.fills) if self.over_fills == "mean" else 1
        return {"answers": self.times * self.model.samples * alike}

    @property
    def times(self) -> int:
        """How often each masked image of a result is asked about."""
        if not isinstance(self.model, Measures):
            return 1
        return ceil(self.model.reported / (self.model.samples * len(self.fills)))

    def problem(self, seed: int) -> Problem:
        """What a search may know of this case; random choices depend on the seed and the canvas."""
        canvas = int.from_bytes(hashlib.sha256(self.bound.canvas.tobytes()).digest()[:8])
        parts = self.partition
        return Problem(
            parts.n,
            (seed, canvas),
            parts.centroids,
            parts.areas,
            parts.labels,
            differentiable=self.differentiable,
            parents=parts.parents,
        )

    def start(self, recipe: Recipe, seed: int = 0, *, budget: int | None = None, progress: Listener = None) -> Search:
        """A search of this case, for the driver to advance."""
        if unknown_cost(self.model):
            self.ask(self.whole_image)
        problem, oracle = self.problem(seed), self._oracle_of_search()
        return Search(recipe, problem, self, budget=budget, oracle=oracle, progress=progress, fills=self.fills)

    def search(
        self, recipe: Recipe, seeds: Sequence[int] = (0,), *, budget: int | None = None, progress: Listener = None
    ) -> list[EvidenceMask | Ordering]:
        """Run a recipe once per seed, all of them together; a result per seed."""
        memory = PeakMemory(self.model)
        start = time.perf_counter()
        searches = [self.start(recipe, seed, budget=budget, progress=progress) for seed in seeds]
        found = dict(drive(searches, Responder(), batch_size=lambda: self.batching.size, affordable=affordable))
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
        """The result that a user gets: what a search found, with the image, reference scores and controls."""
        selection = found.selection
        masks = [selection, *selection.others] if found.order is None and selection is not None else []
        rows = [row for kept in (self.whole_image[0], *(one.mask for one in masks)) for row in (kept, ~kept)]
        mask = masks[0].mask if masks else rows[1]
        (full, blank, *own), shown, nominal, fresh = controls(self, mask, np.array(rows), found.asked)
        provenance = provenance | costs(self.model, self.spent)
        ledger = Ledger(dict(found.ledger.entries))
        ledger.add("probe", "suff", nominal + self.bound.probes, fresh + self.bound.probes)
        image = self.explained(full, blank)
        if found.order is not None:
            order = tuple(found.order.tolist())
            kept = 0 if selection is None else selection.kept
            regions = () if selection is None else selection.regions
            return Ordering(
                image,
                ledger,
                provenance,
                found.complete,
                order=order,
                initial_mask=regions,
                kept=kept,
                map=found.map,
                scored=scored_sets(found, self.fills, self.over_fills, order, range(len(order) + 1)),
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
            frontier=self._scores(found.frontier),
            goal=None if self.keep_answer else selection.goal,
            local_optimum=selection.local_optimum,
            controls=shown,
            scored=scored_sets(found, self.fills, self.over_fills, selection.regions, [len(selection.regions)]),
        )
        others = zip(selection.others, own[2::2], own[3::2], strict=True)
        return first.with_alternatives(
            [(np.flatnonzero(other.mask).tolist(), float(kept), float(removed)) for other, kept, removed in others]
        )

    def explained(self, full: float, blank: float) -> ExplainedImage:
        """The image with the scores of the whole image, which must have been asked for, and of the fill."""
        return ExplainedImage(
            photo=viewable(self.bound.image),
            canvas=self.bound.canvas,
            fill=self.bound.fill,
            further_fills=tuple(bound.fill for bound in self.further),
            box=self.bound.box,
            partition=self.partition,
            target=self.bound.target,
            prediction=named(self.model, self.responses.answers_to(self.whole_image)[0]),
            full_score=float(full),
            blank_score=float(blank),
            photo_size=(self.bound.image.height, self.bound.image.width),
        )

    def _scores(self, frontier: Mapping[int, float]) -> dict[int, float]:
        """The best score of every size; where the answer must be kept, of the sets that keep it."""
        if not self.keep_answer:
            return dict(frontier)
        scores = {size: score(value) for size, value in frontier.items()}
        return {size: value for size, value in scores.items() if value is not None}

    def provenance(self, recipe: Algorithm, seed: int, fingerprint: str) -> dict[str, Any]:
        """Everything needed to get a result again; the model's fingerprint is given, since it may take seconds."""
        return {
            "method": recipe.name,
            "needs": recipe.needs,
            "parameters": recipe.parameters,
            "seed": seed,
            "model": self.model.name,
            "model_fingerprint": fingerprint,
            "deterministic": self.model.deterministic,
            "regions": self.partition.name,
            "partition_fingerprint": self.partition.fingerprint,
            "canvas_fingerprint": hashlib.sha256(self.bound.canvas.tobytes()).hexdigest()[:16],
            "fill_fingerprint": hashlib.sha256(
                b"".join(filled.bound.fill.tobytes() for filled in self.fills)
            ).hexdigest()[:16],
            **self.settings,
            **self.answers,
            **self.model.settings,
            **self.bound.settings,
            "batch_size": self.batching.size,
            "versions": {"python": platform.python_version(), **versions()},
        }


def prefixes(order: Sequence[int]) -> Bools:
    """The first 1 ... n regions of an ordering as kept sets, (n, n)."""
    return np.arange(len(order))[:, None] >= np.argsort(order)


def versions() -> dict[str, str]:
    """The versions of this package and of those that can change a score."""
    packages = ("numpy", "pillow", "scikit-image", "scikit-learn", "torch")
    return {"whymask": __version__, **{name: version(name) for name in packages}}


_LEARNED: WeakKeyDictionary[Model, Batching] = WeakKeyDictionary()


def batching(model: Model, batch_size: int | None = None) -> Batching:
    """The user's batch size, or what this model has learned so far."""
    if batch_size is not None:
        return Batching(whole("batch_size", batch_size, 1), fixed=True)
    return _LEARNED.setdefault(model, Batching(model.batch_size))
