"""How a run scales on Ray: one process with one thread, one with all threads, and one Ray worker per CPU.

Every row explains the same scenes, and their records are compared. Rounds are interleaved, since other programs may
share the machine. Samples a second are counted after the first quarter of the records, when all workers have their
model; the seconds are of the whole run, with loading models and starting workers.
Run: python benchmarks/ray_scale.py
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import ray
import torch

from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.data.manifest import Sample, write_manifest

CPUS = len(os.sched_getaffinity(0))
ROWS = {
    "one process, one thread": (1, None),
    f"one process, {CPUS} threads": (CPUS, None),
    f"Ray, {CPUS} workers with one thread each": (1, "auto"),
}


class Clock:
    """Notes when records are written."""

    def __init__(self) -> None:
        self.ticks, self.append = [], Store.append

    def __enter__(self) -> list[float]:
        Store.append = lambda store, record: (self.append(store, record), self.ticks.append(time.perf_counter()))
        return self.ticks

    def __exit__(self, *problem) -> None:
        Store.append = self.append


def measured(folder: Path, row: str, options: argparse.Namespace) -> tuple[float, float, dict[str, dict]]:
    """Seconds of a run, samples a second after its first quarter, and its records by key."""
    threads, address = ROWS[row]
    torch.set_num_threads(threads)
    out = folder / f"{time.time_ns()}"
    wanted = config({
        "out": str(out),
        "models": [options.model],
        "methods": [options.method],
        "splits": {"scenes": {"manifest": str(folder / "scenes.jsonl")}},
        "together": 2,
        "batch_size": 16,
    })  # fmt: skip
    start = time.perf_counter()
    with Clock() as ticks:
        run(wanted, ray=address, quiet=True)
    first = len(ticks) // 4
    return ticks[-1] - start, (len(ticks) - 1 - first) / (ticks[-1] - ticks[first]), Store(out).records


def difference(one: dict[str, dict], other: dict[str, dict]) -> float:
    """The largest difference of a score between records of the same results with the same masks."""
    assert one.keys() == other.keys()
    assert all(record["mask"] == other[key]["mask"] for key, record in one.items())
    return max(abs(record["score"] - other[key]["score"]) for key, record in one.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--method", default="trace")
    parser.add_argument("--count", type=int, default=64, help="scenes")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ray.init(num_cpus=CPUS, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_manifest(folder / "scenes.jsonl", [Sample(str(i), f"scene:{i}") for i in range(options.count)])
        seconds: dict[str, list[float]] = {row: [] for row in ROWS}
        rates: dict[str, list[float]] = {row: [] for row in ROWS}
        records = {}
        for _ in range(options.rounds):
            for row in ROWS:
                spent, rate, records[row] = measured(folder, row, options)
                seconds[row].append(spent)
                rates[row].append(rate)
        first = next(iter(ROWS))
        print(f"{options.model}, {options.method}, {options.count} scenes, medians of {options.rounds} rounds\n")
        print("| run | whole run s | samples/s | times the first row, by round | largest difference of a score |")
        print("|---" * 5 + "|")
        for row in ROWS:
            ratios = [mine / theirs for mine, theirs in zip(rates[row], rates[first], strict=True)]
            shown = f"{median(ratios):.2f} ({min(ratios):.2f} ... {max(ratios):.2f})"
            gap = difference(records[first], records[row])
            print(f"| {row} | {median(seconds[row]):.1f} | {median(rates[row]):.2f} | {shown} | {gap:.1g} |")
    ray.shutdown()
