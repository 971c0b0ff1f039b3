"""One image on one model: where the searches, which know only sets, meet pixels and scores."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

import whymask
from whymask.imaging import ImageSource, Resize
from whymask.masking import Fill, compose, fill_name
from whymask.metrics.curves import Curves
from whymask.models.base import Bound, Model
from whymask.objective import SUFF_NECC, SUFFICIENCY, Bools, Floats, Ledger, Objective, Oracle
from whymask.partition import Partition, Regions, partition
from whymask.results import EvidenceMask, Ordering, Scene, reduced
from whymask.search.driver import Part, Progress, Search, SearchResult, drive, in_batches
from whymask.search.protocol import Problem
from whymask.search.recipes import Recipe


@dataclass
class Case:
    """A bound image with its partition, and every response known so far.

    Searches and replays of one case share what is known; each search still keeps the ledger of its own.
    """

    model: Model
    bound: Bound
    partition: Partition
    batch_size: int
    settings: dict[str, Any]  # resize, fill: what else the provenance tells
    known: dict[bytes, float] = field(default_factory=dict)
    forward_seconds: float = 0.0

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
        bound = model.bind(image, target=target, question=question, resize=resize, fill=fill)
        width, height = bound.image.size
        parts = partition(bound.canvas, regions, image_shape=(height, width), box=bound.box)
        settings = {"resize": resize, "fill": fill_name(fill)}
        return cls(model, bound, parts, batch_size or model.batch_size, settings)

    def __post_init__(self) -> None:
        self._index = self.bound.index(self.partition.labels)

    def inputs(self, rows: Bools) -> Any:
        """The masked inputs (B, ...) of kept sets (B, n)."""
        return compose(rows, self._index, self.bound.inputs, self.bound.fill_inputs)

    def respond(self, parts: Sequence[Part]) -> list[Floats]:
        """One model batch for the driver; every part is about this case."""
        rows = np.concatenate([rows for _, rows in parts])
        inputs = self.inputs(rows)
        start = time.perf_counter()
        scores = self.model.respond(inputs, [self.bound] * len(rows)).score
        self.forward_seconds += time.perf_counter() - start
        return np.split(scores, np.cumsum([len(rows) for _, rows in parts])[:-1])

    def ask(self, rows: Bools, objective: Objective = SUFFICIENCY) -> tuple[Floats, int]:
        """Responses (sides, B) outside a search, and how many images had to be sent for them."""
        question = Oracle(self.known).open(rows, objective, "probe")
        responses = in_batches([(0, question.send)], self.respond, self.batch_size)[0]
        self.known.update(zip(question.send_keys, responses.tolist(), strict=True))
        values = np.array([self.known[key] for key in question.keys])
        return values.reshape(len(objective.sides), -1), len(question.send)

    def search(
        self,
        recipe: Recipe,
        seeds: Sequence[int] = (0,),
        *,
        budget: int | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> list[EvidenceMask | Ordering]:
        """Run a recipe once per seed, all of them together; a result per seed."""
        start, forwards_before = time.perf_counter(), self.forward_seconds
        picture = int.from_bytes(hashlib.sha256(self.bound.canvas.tobytes()).digest()[:8])
        searches = []
        for seed in seeds:
            problem = Problem(
                n=self.partition.n,
                seed=(seed, picture),
                centroids=self.partition.centroids,
                areas=self.partition.areas,
            )
            searches.append(Search(recipe, problem, budget=budget, oracle=Oracle(self.known), progress=progress))
        found = dict(drive(searches, self.respond, batch_size=self.batch_size))
        spent = {
            "seconds": time.perf_counter() - start,
            "forward_seconds": self.forward_seconds - forwards_before,
        }
        return [self._result(found[i], self._provenance(recipe, seed) | spent) for i, seed in enumerate(seeds)]

    def replay(self, order: Sequence[int]) -> Curves:
        """Insertion and deletion curves of an ordering; what is known is not sent again."""
        prefixes = np.zeros((self.partition.n, self.partition.n), dtype=bool)
        for t, region in enumerate(order):
            prefixes[t:, region] = True
        (insertion, deletion), sent = self.ask(prefixes, SUFF_NECC)
        return Curves(np.cumsum(self.partition.areas[list(order)]), insertion, deletion, forwards=sent)

    def _result(self, found: SearchResult, provenance: dict[str, Any]) -> EvidenceMask | Ordering:
        whole = np.ones(self.partition.n, dtype=bool)
        rows = [whole, ~whole]
        if found.order is None and found.mask is not None:
            rows += [found.mask, ~found.mask]
        ((full, blank, *own),), sent = self.ask(np.array(rows))
        ledger = Ledger(dict(found.ledger.entries))
        ledger.add("probe", "suff", len(rows) + self.bound.probes, sent + self.bound.probes)
        scene = Scene(
            photo=reduced(self.bound.image),
            canvas=self.bound.canvas,
            fill=self.bound.fill,
            box=self.bound.box,
            partition=self.partition,
            target=self.bound.target,
            full_score=float(full),
            blank_score=float(blank),
        )
        seed = found.seed
        inside = seed.order if seed is not None and seed.order is not None else ()
        if found.order is not None:
            kept = 0 if seed is None else seed.kept
            order = tuple(found.order.tolist())
            return Ordering(scene, ledger, provenance, found.complete, order=order, seed=inside, kept=kept)
        assert found.mask is not None
        ordered = len(inside) == int(found.mask.sum())
        return EvidenceMask(
            scene,
            ledger,
            provenance,
            found.complete,
            regions=inside if ordered else tuple(np.flatnonzero(found.mask).tolist()),
            ordered=ordered,
            score=float(own[0]),
            removed_score=float(own[1]),
        )

    def _provenance(self, recipe: Recipe, seed: int) -> dict[str, Any]:
        parameters = recipe.method.parameters | dict(recipe.params)
        return {
            "method": recipe.name,
            "parameters": {name: value if _plain(value) else str(value) for name, value in parameters.items()},
            "seed": seed,
            "model": self.model.name,
            "model_fingerprint": self.model.fingerprint,
            "deterministic": self.model.deterministic,
            "regions": self.partition.name,
            "partition_fingerprint": self.partition.fingerprint,
            **self.settings,
            **self.model.settings,
            "batch_size": self.batch_size,
            "versions": {
                "whymask": whymask.__version__,
                "python": platform.python_version(),
                **{name: version(name) for name in ("numpy", "scikit-image", "scikit-learn", "torch")},
            },
        }


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
