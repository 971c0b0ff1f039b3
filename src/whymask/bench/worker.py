"""Holds a model and computes results with it: in the process of the run or, with Ray, in another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from whymask.arrays import Bools
from whymask.bench.config import EMPHASES, Config, MethodSpec, ModelSpec, SplitSpec
from whymask.bench.measure import Measured, measure
from whymask.bench.records import Record, Row, Store, digest
from whymask.data import questions, splits
from whymask.data.manifest import Sample
from whymask.data.objects import overlap, truth
from whymask.data.questions import Asked
from whymask.errors import WhymaskError
from whymask.explainer.case import Case, versions
from whymask.explainer.explainer import sized
from whymask.models import Model, load
from whymask.search import Recipe
from whymask.search.recipes import plain
from whymask.utils.redact import public, redacted

SCHEMA = 1  # of the records: a change in what the numbers mean

Rows: TypeAlias = list[tuple[Row, Recipe, tuple[int, ...]]]  # each with its seeds
Plan: TypeAlias = dict[str, tuple[list[Sample], Rows]]  # by split


@dataclass(frozen=True)
class Work:
    """Samples that are searched together, and the rows they belong to."""

    samples: list[tuple[Sample, str]]  # with their digests
    rows: Rows

    @property
    def name(self) -> str:
        """The same for every process that would do this work."""
        return digest([self.rows[0][0].names[:2], [sample.id for sample, _ in self.samples]])

    @property
    def items(self) -> Iterator[tuple[Row, Recipe, int, Sample, str]]:
        """Every result: row, recipe, seed, sample and the result's key."""
        for row, recipe, seeds in self.rows:
            for seed in seeds:
                for sample, content in self.samples:
                    yield row, recipe, seed, sample, row.key(content, seed)

    def missing(self, store: Store) -> set[str]:
        """The keys of results that are not there."""
        return {key for *_, key in self.items if key not in store.records}


Waiting: TypeAlias = deque[tuple[Work, bool]]  # whether to wait for a process that has it


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

    def plan(self, listed: Mapping[str, list[Sample]], photos: list[Sample], asked: Asked) -> Plan:
        """The samples and rows of every split, by what the model answers.

        Args:
            listed: samples of the splits that have a manifest.
            photos: those that correct, cause and repair are made from.
            asked: the questions that pope and repope are made from.
        """
        config, cache, found = self.config, self.config.out / "splits", dict(listed)
        unlisted = {split.name for split in config.splits} - listed.keys()
        if config.photos and unlisted & {*splits.NAMES}:
            wanted = config.photos
            made = splits.build(photos, self.model, cache, correct=wanted.correct, wrong=wanted.wrong,
                                seed=wanted.seed, resize=config.resize)  # fmt: skip
            found = {name: made[name] for name in splits.NAMES} | found
        if config.questions and unlisted & {*splits.ASKED}:
            found = questions.build(asked, self.model, cache, config.questions.prompt) | found
        planned: Plan = {}
        for split in config.splits:
            samples = found[split.name]
            rows = [(method, sized(method.recipe, self.model)) for method in config.methods]
            planned[split.name] = (
                samples if split.draw is None else splits.draw(samples, split.draw),
                [(self._row(split, method, recipe), recipe, method.seeds) for method, recipe in rows],
            )
        return planned

    def results(self, waiting: Waiting, store: Store) -> Iterator[Record]:
        """Whatever has no record yet, piece by piece; each is kept from other processes while it is worked on."""
        while waiting:
            work, wait = waiting.popleft()
            if work.missing(store):
                with store.claim(work.name, wait) as free:
                    if free:
                        store.refresh()
                        yield from self.compute(work, work.missing(store))
                    else:  # another process has it: look again when nothing else is left
                        waiting.append((work, True))

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
        parameters = recipe.method.parameters | dict(recipe.params)
        settings = {
            "schema": SCHEMA,
            "model": {**spec.settings, **model.settings, "fingerprint": self.fingerprint},
            "method": recipe.name,
            "parameters": {name: plain(value) for name, value in parameters.items()},
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
