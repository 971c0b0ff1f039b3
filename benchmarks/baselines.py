"""The methods the paper compares with, beside the searches: the same photos, regions, fill and replay for all.

Every method's records are written as soon as they are there, and a run that was stopped goes on where it was.

Run: python benchmarks/baselines.py --photos ../shared/data/imagenet --count 60 --device cuda --out docs/results
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from orderings import COLUMNS, correct_cases, interval

import whymask
from whymask.explainer.case import Case, responder
from whymask.search import Recipe, drive
from whymask.utils.files import atomic

SEARCHES = ["greedy", "phasewin", "trace+greedy", "copair+greedy", "eagle-efficient", "lima-bidirectional"]
FORWARD = ["rise", "hsic", "occlusion", "lime", "kernelshap"]
BACKWARD = ["gradient", "integrated-gradients", "ig2", "igos++", "grad-cam"]
ROWS: dict[str, tuple[Recipe, int]] = {  # the recipe and the seed of every row
    **{name: (Recipe(name), 0) for name in SEARCHES},
    **{f"random-k+greedy, seed {seed}": (Recipe("random-k+greedy"), seed) for seed in range(3)},
    **{f"asn+greedy, {rule}": (Recipe("asn+greedy", {"rule": rule}), 0) for rule in ("fixed", "knee", "plateau")},
    **{name: (Recipe(name), 0) for name in FORWARD + BACKWARD},
}
SAVING = {"memory_saving": True}


def searched(cases: list[Case], recipe: Recipe, seed: int, batch_size: int, device: torch.device) -> list[dict]:
    """One record per case, all cases searched together: the numbers of the paper's tables and what it cost."""
    with Meter(device) as meter:
        searches = (case.start(recipe, seed) for case in cases)
        results = dict(drive(searches, responder(), batch_size=batch_size))
    records = []
    for number, case in enumerate(cases):
        curves = case.replay(results[number].order.tolist())
        cost = {"mec": results[number].ledger.mec, "n": case.partition.n, "seconds": meter.seconds / len(cases)}
        records.append({**curves.summary(), **cost, "peak": meter.peak})
    return records


class Meter:
    """Seconds, and bytes of the device beyond those that were held before (on CUDA)."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds, self.peak = device, 0.0, None

    def __enter__(self) -> "Meter":
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            self.held = torch.cuda.memory_allocated()
        self.start = time.perf_counter()
        return self

    def __exit__(self, *problem: object) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            self.peak = torch.cuda.max_memory_allocated() - self.held
        self.seconds = time.perf_counter() - self.start


def saved_memory(cases: list[Case], recipe: Recipe, device: torch.device) -> dict[str, list[float | None]]:
    """Seconds and peak bytes of a backward method on a few photos, one by one, plain and memory-saving."""
    spent: dict[str, list[float | None]] = {}
    for name, extra in (("plain", {}), ("saving", SAVING)):
        meters = []
        for case in cases:
            with Meter(device) as meter:
                case.search(Recipe(recipe.name, {**recipe.params, **extra}))
            meters.append(meter)
        # The first one may plan or compile.
        seconds = float(np.median([meter.seconds for meter in meters]))
        spent[name] = [seconds, None if meters[0].peak is None else max(meter.peak for meter in meters)]
    return spent


def table(records: dict[str, list[dict]], memory: dict[str, dict], settings: str) -> str:
    """Markdown: a row per method with intervals, then paired differences to trace+greedy, then time and memory."""
    rng = np.random.default_rng(0)
    value = {r: {c: np.array([record[c] for record in rows]) for c in COLUMNS} for r, rows in records.items()}
    lines = [settings, "", "| method | " + " | ".join(COLUMNS.values()) + " | MEC |", "|---" * (len(COLUMNS) + 2) + "|"]
    for row, columns in value.items():
        cells = []
        for c in COLUMNS:
            low, high = interval(columns[c], rng)
            cells.append(f"{columns[c].mean():.3f} [{low:.3f}, {high:.3f}]")
        lines.append(f"| {row} | " + " | ".join(cells) + f" | {cost(row, records[row])} |")
    lines += [
        "",
        "MEC counts distinct masked images; — is a method that goes backward, * a search that starts from one (its "
        "forwards are counted, its gradients are not).",
    ]
    if "trace+greedy" in value:
        lines += ["", "Insertion of trace+greedy less that of the others, on the same photos:", ""]
        lines += ["| method | difference |", "|---|---|"]
        for row, columns in value.items():
            if row == "trace+greedy":
                continue
            gap = value["trace+greedy"]["insertion_auc"] - columns["insertion_auc"]
            low, high = interval(gap, rng)
            lines.append(f"| {row} | {gap.mean():+.3f} [{low:+.3f}, {high:+.3f}] |")
    if memory:
        about = "median seconds and, on a GPU, the most memory beyond what was held before"
        lines += [
            "",
            f"Methods that go backward, one photo at a time: {about}, plain and with `memory_saving=True`:",
            "",
        ]
        lines += ["| method | s | MiB | s, saving | MiB, saving |", "|---|---|---|---|---|"]
        for row, spent in memory.items():
            cells = [f"{seconds:.2f} | {mebibytes(peak)}" for seconds, peak in (spent["plain"], spent["saving"])]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cost(row: str, records: list[dict]) -> str:
    """The row's forwards as the paper would print them."""
    needs, mec = ROWS[row][0].method.needs, np.mean([record["mec"] for record in records])
    if needs == "gradients" and not mec:
        return "—"
    published = f" ({2 * mec:.0f} as published)" if row == "rise" else ""
    return f"{mec:.0f}{'*' if needs == 'gradients' else ''}{published}"


def mebibytes(peak: float | None) -> str:
    """A peak for the table."""
    return "—" if peak is None else f"{peak / 2**20:.0f}"


def with_params(rows: dict[str, tuple[Recipe, int]], params: dict) -> dict[str, tuple[Recipe, int]]:
    """The rows with those of the parameters each of them has: for a quick try."""
    return {
        row: (
            Recipe(
                recipe.name, {**recipe.params, **{k: v for k, v in params.items() if k in recipe.method.parameters}}
            ),
            seed,
        )
        for row, (recipe, seed) in rows.items()
    }


def fingerprint(photos: Path) -> str:
    """What tells one folder of photos from another, wherever they lie."""
    names = [f"{file.name} {file.stat().st_size}" for file in sorted(photos.glob("n*.jpg"))]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=Path, default=Path("../shared/data/imagenet"))
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--together", type=int, default=30, help="photos searched at the same time")
    parser.add_argument("--regions", default="slico:64")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS), help="only these methods")
    parser.add_argument("--params", type=json.loads, default={}, help="JSON of parameters, for methods that have them")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing further after this")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    if not options.photos.is_dir():
        print(f"skipped: there is no folder {options.photos}.")
        sys.exit()
    file = options.out / "baselines.json"
    wanted = {name: getattr(options, name) for name in ("model", "regions", "device", "dtype", "params")}
    wanted["photos"] = fingerprint(options.photos)
    done = json.loads(file.read_text()) if file.is_file() else {"settings": wanted, "records": {}, "memory": {}}
    if done["settings"] != wanted:
        sys.exit(f"{file} holds records of {done['settings']}, not of {wanted}: pass another --out.")
    records, memory = done["records"], done["memory"]
    started = time.perf_counter()
    model = whymask.load(options.model, device=options.device, dtype=options.dtype)
    device, batch_size = torch.device(options.device), options.batch_size or model.batch_size
    cases = correct_cases(options.photos, model, options.count, options.regions)
    print(f"{len(cases)} photos bound in {time.perf_counter() - started:.0f} s", flush=True)
    ROWS.update(with_params(ROWS, options.params))
    settings = (
        f"# The methods the paper compares with\n\n`python {' '.join(sys.argv)}`\n\n"
        f"{options.model}, {len(cases)} correctly classified photos, its own preprocessing, {options.regions}, black "
        f"fill, {options.dtype}, every method as `whymask methods NAME` shows it. @30 and @50 are best@; brackets are "
        "bootstrap 95 % intervals of the mean."
    )

    def write() -> None:
        """Everything so far, in the order of ROWS."""
        whole = {row: records[row][: len(cases)] for row in ROWS if len(records.get(row, [])) >= len(cases)}
        with atomic(file) as out:
            out.write(json.dumps({"settings": wanted, "records": records, "memory": memory}).encode())
        with atomic(options.out / "baselines.md") as out:
            out.write(table(whole, memory, settings).encode())

    def late() -> bool:
        """Whether the time is up."""
        return time.perf_counter() - started > options.seconds

    for row in options.rows:
        recipe, seed = ROWS[row]
        known = records.setdefault(row, [])
        for start in range(len(known), len(cases), options.together):
            if late():
                break
            group = cases[start : start + options.together]
            known += searched(group, recipe, seed, batch_size, device)
            for case in group:
                case.responses.clear()
            write()
        print(f"{row}: {len(known)} photos after {time.perf_counter() - started:.0f} s", flush=True)
        if row in BACKWARD and row not in memory and not late():
            memory[row] = saved_memory(cases[:5], recipe, device)
            write()
    print((options.out / "baselines.md").read_text())
