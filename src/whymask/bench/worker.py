"""Holds a model and computes results with it: in the process of the run or, with Ray, in another."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from whymask.bench.config import EMPHASES, Config, MethodSpec, ModelSpec, SplitSpec
from whymask.bench.layout import Layout
from whymask.bench.measure import Measurement, Outcome, Subject, measure
from whymask.bench.records import Record, Row
from whymask.bench.work import Item, Planned, Queue, Work
from whymask.data.manifest import Sample
from whymask.data.objects import truth
from whymask.errors import WhymaskError
from whymask.explainer.case import versions
from whymask.explainer.explainer import Explainer
from whymask.methods import Recipe
from whymask.models import Model, load
from whymask.utils.redact import public, redacted

SCHEMA = 1  # of the records: a change in what the numbers mean


class Plan(NamedTuple):
    """The samples that a model explains, and the rows."""

    samples: dict[str, list[Sample]]  # by split; the run adds those of manifests
    rows: dict[str, list[Planned]]  # by split


def load_model(spec: ModelSpec) -> Model:
    """Load the model of a configuration; any failure is a WhymaskError."""
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
    def explainer(self) -> Explainer:
        """Binds images to the model as the configuration says."""
        return Explainer(self.model, **self.config.case)

    @cached_property
    def fingerprint(self) -> str:
        """The model's; reading all weights takes a while, and they do not change during a run."""
        return self.model.fingerprint

    def ready(self) -> None:
        """Load the model now."""
        _ = self.model

    def plan(self, read: Mapping[str, list[Sample]]) -> Plan:
        """The splits of what sources have read, by their names, and the rows of all splits."""
        config = self.config
        samples: dict[str, list[Sample]] = {}
        for name, found in read.items():
            samples.update(config.sources[name].splits(found, self.model, config.place))
        settings = self.explainer.settings
        recipes = [(one, Explainer(self.model, settings, method=one.recipe).recipe) for one in config.methods]
        rows = {
            split.name: [Planned(self._row(split, method, recipe), recipe, method.seeds) for method, recipe in recipes]
            for split in config.splits
        }
        return Plan(samples, rows)

    def layouts(self, samples: Sequence[Sample]) -> list[Layout]:
        """The regions of these samples."""
        cases = (self.explainer.case(one.image, target=one.target, question=one.question) for one in samples)
        return [Layout.of(case) for case in cases]

    def results(self, queue: Queue) -> Iterator[Record]:
        """Compute everything that has no record; the caller appends each record before it asks for the next."""
        while claim := queue.claim():
            with claim.held:
                yield from self.compute(claim.work, claim.missing)

    def compute(self, work: Work, missing: Collection[str]) -> Iterator[Record]:
        """Bind the samples once, then run every method and seed whose key is missing."""
        config, secrets = self.config, self.spec.secrets
        bound: dict[str, Subject | Exception] = {}

        def subject(sample: Sample) -> Subject | Exception:
            if sample.id not in bound:
                try:
                    made = self.explainer.case(sample.image, target=sample.target, question=sample.question)
                    bound[sample.id] = Subject(made, None if sample.mask is None else truth(sample.mask, made))
                except Exception as error:
                    bound[sample.id] = error
            return bound[sample.id]

        for row, recipe, seeds in work.rows:
            method = config.methods[row.place[2]]
            for seed in seeds:
                wanted = Measurement(
                    recipe,
                    seed,
                    config.budget,
                    method.budgets,
                    config.fills,
                    method.target == "given",
                    bool(config.keep),
                )
                items = [item for item in work.results(row, seed) if item.key in missing]
                for item, outcome in _outcomes([(item, subject(item.sample)) for item in items], wanted):
                    if isinstance(outcome, Exception):
                        kind = "" if isinstance(outcome, WhymaskError) else f"{type(outcome).__name__}: "
                        outcome = {"error": redacted(f"{kind}{outcome}", secrets)}
                    yield {**item.names, **outcome}

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
            # Below: only what is used, so that older records keep their hash.
            **({"budgets": list(method.budgets)} if method.budgets else {}),
            **({"fills": list(config.fills)} if config.fills else {}),
            **({"target": method.target} if method.target else {}),
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


def _outcomes(pairs: Sequence[tuple[Item, Subject | Exception]], wanted: Measurement) -> Iterator[tuple[Item, Outcome]]:
    ready = [(item, subject) for item, subject in pairs if isinstance(subject, Subject)]
    yield from ((item, subject) for item, subject in pairs if isinstance(subject, Exception))
    if ready:
        for number, outcome in measure([subject for _, subject in ready], wanted):
            yield ready[number][0], outcome
