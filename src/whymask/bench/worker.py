"""Holds a model and computes results with it: in the process of the run or, with Ray, in another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from whymask.api import sized
from whymask.arrays import Bools
from whymask.bench.config import EMPHASES, Config, MethodSpec, ModelSpec, SplitSpec
from whymask.bench.measure import Measured, measure
from whymask.bench.records import Record, Row
from whymask.bench.work import Planned, Queue, Work
from whymask.data.manifest import Sample
from whymask.data.objects import overlap, truth
from whymask.errors import WhymaskError
from whymask.explainer.case import Case, versions
from whymask.methods import Recipe
from whymask.models import Model, load
from whymask.utils.redact import public, redacted

SCHEMA = 1  # of the records: a change in what the numbers mean


class Plan(NamedTuple):
    """What a model is to explain."""

    samples: dict[str, list[Sample]]  # by split, of those that sources make
    rows: dict[str, list[Planned]]  # by split


def load_model(spec: ModelSpec) -> Model:
    """The model of a configuration, or one sentence why it cannot be had."""
    try:
        return load(spec.id, **spec.options)
    except WhymaskError:
        raise
    except Exception as error:
        raise WhymaskError(f"the model {public(spec.id)} cannot be loaded: {type(error).__name__}: {error}.") from error


class Worker:
    """One model of a configuration, loaded when it is first needed."""

    def __init__(self, config: Config, spec: ModelSpec, load: Callable[[ModelSpec], Model] = load_model) -> None:
        self.config, self.spec, self.load = config, spec, load

    @cached_property
    def model(self) -> Model:
        """The model itself."""
        return self.load(self.spec)

    @cached_property
    def fingerprint(self) -> str:
        """The model's; reading all weights takes a while, and they do not change during a run."""
        return self.model.fingerprint

    def ready(self) -> None:
        """Load it now."""
        _ = self.model

    def plan(self, read: Mapping[str, list[Sample]]) -> Plan:
        """The splits of what sources have read, by their names, and the rows of all splits."""
        config = self.config
        samples: dict[str, list[Sample]] = {}
        for name, found in read.items():
            samples.update(config.sources[name].splits(found, self.model, config.place))
        recipes = [(method, sized(method.recipe, self.model)) for method in config.methods]
        rows = {
            split.name: [Planned(self._row(split, method, recipe), recipe, method.seeds) for method, recipe in recipes]
            for split in config.splits
        }
        return Plan(samples, rows)

    def results(self, queue: Queue) -> Iterator[Record]:
        """Everything that has no record yet; whoever gets a record must append it before asking for the next one."""
        while claim := queue.claim():
            with claim.held:
                yield from self.compute(claim.work, claim.missing)

    def compute(self, work: Work, missing: Collection[str]) -> Iterator[Record]:
        """Bind the samples once, then run every method and seed whose key is missing."""
        secrets = self.spec.secrets
        bound: dict[str, Case | Exception] = {}
        objects: dict[str, Bools] = {}

        def case(sample: Sample) -> Case | Exception:
            if sample.id not in bound:
                try:
                    made = Case.of(
                        sample.image, self.model, target=sample.target, question=sample.question, **self.config.case
                    )
                    if sample.mask is not None:
                        objects[sample.id] = truth(sample.mask, made)
                    bound[sample.id] = made
                except Exception as error:
                    bound[sample.id] = error
            return bound[sample.id]

        for row, recipe, seeds in work.rows:
            for seed in seeds:
                keys = {s.id: key for s, content in work.samples if (key := row.key(content, seed)) in missing}
                pending = [(sample, case(sample)) for sample, _ in work.samples if sample.id in keys]
                for sample, outcome in _outcomes(pending, recipe, seed, self.config.budget):
                    about = {"key": keys[sample.id], "row": row.hash, "sample": sample.id, "seed": seed}
                    if isinstance(outcome, Exception):
                        kind = "" if isinstance(outcome, WhymaskError) else f"{type(outcome).__name__}: "
                        yield {**about, "error": redacted(f"{kind}{outcome}", secrets)}
                        continue
                    there, shown = bound[sample.id], objects.get(sample.id)
                    if isinstance(there, Case) and shown is not None:
                        first = outcome["order"][: self.model.default_k] if "order" in outcome else outcome["mask"]
                        outcome |= overlap(there, shown, first)
                    yield {**about, **outcome}

    def _row(self, split: SplitSpec, method: MethodSpec, recipe: Recipe) -> Row:
        config, spec, model = self.config, self.spec, self.model
        settings = {
            "schema": SCHEMA,
            "model": {**spec.settings, **model.settings, "fingerprint": self.fingerprint},
            "method": recipe.name,
            "parameters": recipe.parameters,
            "budget": config.budget,
            **config.case,
            "versions": versions(),
        }
        return Row(
            spec.name,
            split.name,
            method.name,
            settings,
            emphasis=EMPHASES[split.emphasis],
            returns=recipe.method.returns,
            needs=recipe.method.needs,
            place=(config.models.index(spec), config.splits.index(split), config.methods.index(method)),
        )


def _outcomes(
    pairs: Sequence[tuple[Sample, Case | Exception]], recipe: Recipe, seed: int, budget: int | None
) -> Iterator[tuple[Sample, Measured]]:
    ready = [(sample, case) for sample, case in pairs if isinstance(case, Case)]
    for sample, case in pairs:
        if isinstance(case, Exception):
            yield sample, case
    if ready:
        for number, outcome in measure([case for _, case in ready], recipe, seed, budget):
            yield ready[number][0], outcome
