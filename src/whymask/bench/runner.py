"""Runs a configuration: whatever has no record yet is computed, several samples at a time."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field

import numpy as np

from whymask.bench.cluster import Workers, connected
from whymask.bench.config import Config, ModelSpec
from whymask.bench.layout import has_layout
from whymask.bench.records import Record, Row, Store
from whymask.bench.work import Item, Queue, Work
from whymask.bench.worker import Plan, Worker, load_model
from whymask.data.manifest import Sample, draw, manifest_of, read_manifest, write_manifest
from whymask.errors import WhymaskError
from whymask.models import Model
from whymask.utils.files import writable
from whymask.utils.redact import redacted_errors


@dataclass
class Summary:
    """What a run's samples, methods and seeds have come to."""

    total: int = 0
    done: int = 0  # have a result, from this run or one before
    failed: list[str] = field(default_factory=list)  # "sample, method: error"
    skipped: int = 0  # lines of earlier records that could not be read
    unkept: int = 0  # results from before `keep` was set: no figure can show their evidence

    def __str__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{self.done} of {self.total} results are there{failed}"

    def count(self, items: Sequence[Item], store: Store, keep: bool) -> None:
        """Add what has become of these."""
        self.total += len(items)
        done = [store.records[item.key] for item in items if item.key in store.records]
        self.done += len(done)
        self.unkept += keep * sum("layout" not in record for record in done)
        for row, _, sample, key in items:
            if key in store.errors:
                self.failed.append(f"{sample.id}, {row.method}: {store.errors[key]['error']}")


def run(
    config: Config,
    *,
    shard: tuple[int, int] = (0, 1),
    load: Callable[[ModelSpec], Model] = load_model,
    ray: str | None = None,
    quiet: bool = False,
) -> Summary:
    """Compute what has no record yet; what failed before is tried again.

    Args:
        config: see `read_config`.
        shard: (i, n) for the samples i, i + n, i + 2 n, ...
        load: makes the models; for those that have no id.
        ray: the address of a Ray that computes instead of this process, or "auto".
        quiet: no progress on stderr.
    """
    writable(config.out)
    store, summary, place = Store(config.out), Summary(), config.place
    listed = {split.name: read_manifest(split.manifest) for split in config.splits if split.manifest}
    read = {name: one.read(place) for name, one in config.sources.items() if {*one.makes} & {*place.splits}}
    try:
        with nullcontext() if ray is None else connected(ray):
            for spec in config.models:
                worker = Worker(config, spec, load)
                made = nullcontext(worker) if ray is None else Workers(worker)
                with redacted_errors(spec.secrets), made as workers:
                    plan = workers.plan(read)
                    plan.samples.update(listed)
                    work = [*_work(config, spec, plan, shard, store)]
                    items = [item for one in work for item in one.items]
                    if config.keep and (lost := _without_layout(items, store)):
                        for layout in workers.layouts(lost):
                            layout.save(config.out)
                    with closing(ProgressBar(spec.name, items, store, quiet)) as bar:
                        for record in workers.results(Queue(work, store)):
                            store.append(record)
                            bar.add(store.rows[record["row"]], record)
                summary.count(items, store, bool(config.keep))
    finally:
        store.close()
    summary.skipped = store.skipped
    return summary


def _work(config: Config, spec: ModelSpec, plan: Plan, shard: tuple[int, int], store: Store) -> Iterator[Work]:
    """All pieces of work of a model, split by split; the samples of each split are kept as a manifest."""
    for split in config.splits:
        if split.name not in plan.samples:
            raise WhymaskError(f"the split {split.name!r} was not made by its source.")
        samples, rows = plan.samples[split.name], plan.rows[split.name]
        if split.draw is not None:
            samples = draw(samples, split.draw)
        write_manifest(manifest_of(config.out, spec.name, split.name), samples)
        store.declare([row for row, _, _ in rows])
        # Samples that are the same to the byte under two names have one result.
        contents = {sample.digest() or f"no image {sample.id}": sample for sample in samples[shard[0] :: shard[1]]}
        own = [(sample, content) for content, sample in contents.items()]
        yield from (Work(own[i : i + config.together], rows) for i in range(0, len(own), config.together))


def _without_layout(items: Sequence[Item], store: Store) -> list[Sample]:
    """A sample for every file of regions that records name and that is not there."""
    named = {record["layout"]: item.sample for item in items if "layout" in (record := store.records.get(item.key, {}))}
    return [sample for name, sample in named.items() if not has_layout(store.folder, name)]


class ProgressBar:
    """A bar on stderr: results and their rate, the time left, forwards a second, and the mean of the row at work."""

    def __init__(self, name: str, items: Sequence[Item], store: Store, quiet: bool) -> None:
        from tqdm import tqdm

        done = sum(item.key in store.records for item in items)
        # In a log file a line every half minute is enough.
        every = 0.2 if sys.stderr.isatty() else 30
        self.bar = tqdm(total=len(items), initial=done, unit="sample", desc=name, disable=quiet, mininterval=every)
        self.start, self.forwards, self.failed = time.perf_counter(), 0, 0
        self.values: dict[str, list[float]] = {}  # by row

    def close(self) -> None:
        """No more results come."""
        self.bar.close()

    def add(self, row: Row, record: Record) -> None:
        """One more result, or failure."""
        values = self.values.setdefault(row.hash, [])
        if "error" in record:
            self.failed += 1
        else:
            self.forwards += record["mec"] + record.get("replay", 0)
            shown = record.get(row.emphasis, record.get("score"))
            if shown is not None:
                values.append(shown)
        speed = self.forwards / (time.perf_counter() - self.start)
        mean = f"{np.mean(values):.3f}" if values else "—"
        failed = f", {self.failed} failed" if self.failed else ""
        self.bar.set_postfix_str(f"{speed:.0f} forwards/s, {row.split} {row.method} {mean}{failed}", refresh=False)
        self.bar.update()
