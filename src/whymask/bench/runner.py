"""Runs a configuration: whatever has no record yet is computed, several samples at a time."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from whymask.api import recipe_for
from whymask.bench.config import EMPHASES, Config, MethodSpec, ModelSpec, SplitSpec
from whymask.bench.imagenet import labelled
from whymask.bench.manifest import Sample, manifest_of, read_manifest, write_manifest
from whymask.bench.measure import Outcome, measure
from whymask.bench.records import Row, Store, digest
from whymask.bench.splits import build, draw
from whymask.case import Case, versions
from whymask.errors import WhymaskError
from whymask.files import writable
from whymask.models import Model, load
from whymask.search import Recipe
from whymask.search.recipes import plain

SCHEMA = 1  # of the records: a change in what the numbers mean


@dataclass
class Summary:
    """What a run's samples, methods and seeds have come to."""

    total: int = 0
    done: int = 0  # have a result, from this run or one before
    failed: list[str] = field(default_factory=list)  # "sample, method: error"

    def __str__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{self.done} of {self.total} results are there{failed}"


@dataclass(frozen=True)
class Work:
    """Samples that are searched together, and the rows they belong to."""

    samples: list[tuple[Sample, str]]  # with their digests
    rows: list[tuple[Row, Recipe, tuple[int, ...]]]

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


def load_model(spec: ModelSpec) -> Model:
    """The model of a configuration, or one sentence why it cannot be had."""
    try:
        return load(spec.id, **spec.options)
    except WhymaskError:
        raise
    except Exception as error:
        raise WhymaskError(f"the model {spec.id} cannot be loaded: {type(error).__name__}: {error}.") from error


def run(
    config: Config,
    *,
    shard: tuple[int, int] = (0, 1),
    load: Callable[[ModelSpec], Model] = load_model,
    quiet: bool = False,
) -> Summary:
    """Compute what has no record yet; what failed before is tried again.

    Args:
        config: see `read_config`.
        shard: (i, n) for the samples i, i + n, i + 2 n, ...
        load: makes the models; for those that have no id.
        quiet: no progress on stderr.
    """
    writable(config.out)
    store, summary = Store(config.out), Summary()
    listed = {split.name: read_manifest(split.manifest) for split in config.splits if split.manifest}
    photos = labelled(config.photos.source) if config.photos else []
    try:
        for spec in config.models:
            model = load(spec)
            _run_model(config, spec, model, _samples(config, model, listed, photos), shard, store, summary, quiet)
    finally:
        store.close()
    return summary


def _samples(
    config: Config, model: Model, listed: dict[str, list[Sample]], photos: list[Sample]
) -> dict[str, list[Sample]]:
    """The samples of every split, by what this model answers."""
    made = None
    if config.photos and any(split.name not in listed for split in config.splits):
        wanted = config.photos
        made = build(photos, model, config.out / "splits", correct=wanted.correct, wrong=wanted.wrong,
                     seed=wanted.seed, resize=config.resize)  # fmt: skip
    chosen = {}
    for split in config.splits:
        samples = listed[split.name] if split.name in listed else made[split.name] if made else []
        chosen[split.name] = samples if split.draw is None else draw(samples, split.draw)
    return chosen


def _run_model(
    config: Config,
    spec: ModelSpec,
    model: Model,
    samples: dict[str, list[Sample]],
    shard: tuple[int, int],
    store: Store,
    summary: Summary,
    quiet: bool,
) -> None:
    work: list[Work] = []
    for split in config.splits:
        write_manifest(manifest_of(config.out, spec.name, split.name), samples[split.name])
        rows = []
        for method in config.methods:
            recipe = recipe_for(model, method.recipe)
            rows.append((_row(config, spec, model, split, method, recipe), recipe, method.seeds))
        store.declare([row for row, _, _ in rows])
        own = [
            (sample, sample.digest() or f"no image {sample.id}") for sample in samples[split.name][shard[0] :: shard[1]]
        ]
        work += [Work(own[i : i + config.together], rows) for i in range(0, len(own), config.together)]
    items = [item for one in work for item in one.items]
    with Progress(spec.name, items, store, quiet) as progress:
        waiting = deque((one, False) for one in work)
        while waiting:
            one, wait = waiting.popleft()
            if all(key in store.records for *_, key in one.items):
                continue
            with store.claim(one.name, wait) as free:
                if free:
                    store.refresh()
                    _compute(config, model, one, store, progress)
                else:  # another process has it: look again when nothing else is left
                    waiting.append((one, True))
    summary.total += len(items)
    summary.done += sum(key in store.records for *_, key in items)
    for row, _, _, sample, key in items:
        if key in store.errors:
            summary.failed.append(f"{sample.id}, {row.method}: {store.errors[key]['error']}")


def _row(config: Config, spec: ModelSpec, model: Model, split: SplitSpec, method: MethodSpec, recipe: Recipe) -> Row:
    parameters = recipe.method.parameters | dict(recipe.params)
    settings = {
        "schema": SCHEMA,
        "model": {"id": spec.id, **spec.options, **model.settings, "fingerprint": model.fingerprint},
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


def _compute(config: Config, model: Model, work: Work, store: Store, progress: Progress) -> None:
    """Bind the samples once, then run every method and seed that has no record."""
    bound: dict[str, Case | Exception] = {}

    def case(sample: Sample) -> Case | Exception:
        if sample.id not in bound:
            try:
                bound[sample.id] = Case.of(
                    sample.image, model, target=sample.target, question=sample.question, **config.case
                )
            except Exception as error:
                bound[sample.id] = error
        return bound[sample.id]

    for row, recipe, seeds in work.rows:
        for seed in seeds:
            keys = {s.id: key for s, content in work.samples if (key := row.key(content, seed)) not in store.records}
            pending = [sample for sample, _ in work.samples if sample.id in keys]
            for sample, outcome in _outcomes([(s, case(s)) for s in pending], recipe, seed, config.budget):
                about = {"key": keys[sample.id], "row": row.hash, "sample": sample.id, "seed": seed}
                if isinstance(outcome, Exception):
                    kind = "" if isinstance(outcome, WhymaskError) else f"{type(outcome).__name__}: "
                    record = {**about, "error": f"{kind}{outcome}"}
                else:
                    record = {**about, **outcome}
                store.append(record)
                progress.tell(row, record)


def _outcomes(
    pairs: Sequence[tuple[Sample, Case | Exception]], recipe: Recipe, seed: int, budget: int | None
) -> Iterator[tuple[Sample, Outcome]]:
    ready = [(sample, case) for sample, case in pairs if isinstance(case, Case)]
    for sample, case in pairs:
        if isinstance(case, Exception):
            yield sample, case
    if ready:
        for number, outcome in measure([case for _, case in ready], recipe, seed, budget):
            yield ready[number][0], outcome


class Progress:
    """A bar on stderr: results and their rate, the time left, forwards a second, and the mean of the row at work."""

    def __init__(self, name: str, items: list[Any], store: Store, quiet: bool) -> None:
        from tqdm import tqdm

        done = sum(key in store.records for *_, key in items)
        # In a log file a line every half minute is enough.
        every = 0.2 if sys.stderr.isatty() else 30
        self.bar = tqdm(total=len(items), initial=done, unit="sample", desc=name, disable=quiet, mininterval=every)
        self.start, self.forwards, self.failed = time.perf_counter(), 0, 0
        self.row, self.values = "", list[float]()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *problem: object) -> None:
        self.bar.close()

    def tell(self, row: Row, record: dict[str, Any]) -> None:
        """One more result, or failure."""
        if row.hash != self.row:
            self.row, self.values = row.hash, []
        if "error" in record:
            self.failed += 1
        else:
            self.forwards += record["mec"] + record.get("replay", 0)
            self.values.append(record[row.emphasis if row.returns == "ordering" else "score"])
        speed = self.forwards / (time.perf_counter() - self.start)
        mean = f"{np.mean(self.values):.3f}" if self.values else "—"
        failed = f", {self.failed} failed" if self.failed else ""
        self.bar.set_postfix_str(f"{speed:.0f} forwards/s, {row.split} {row.method} {mean}{failed}", refresh=False)
        self.bar.update()
