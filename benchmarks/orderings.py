"""Insertion and deletion of the paper's six orderings on correctly classified ImageNet photos.

Photos are files named <wnid>_<name>.jpg, one for each second ImageNet class in wnid order, so file i has class 2i.
Many photos are searched together, so that the model's batches stay full.

Run: python benchmarks/orderings.py --photos ../shared/data/imagenet --count 300 --device cuda --out docs/results
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import whymask
from whymask.explainer.case import Case, responder
from whymask.search import Recipe, drive

RECIPES = ["greedy", "phasewin", "trace+greedy", "trace+phasewin", "copair+greedy", "copair+phasewin"]
PAIRS = [(recipe, "greedy") for recipe in RECIPES[1:]] + [
    ("trace+phasewin", "phasewin"),
    ("copair+phasewin", "phasewin"),
    ("copair+greedy", "trace+greedy"),
    ("copair+phasewin", "trace+phasewin"),
]
COLUMNS = {"insertion_auc": "Ins", "deletion_auc": "Del", "best@30": "@30", "best@50": "@50", "high": "High"}


def correct_cases(photos: Path, model, count: int, regions: str = "slico:64") -> list[Case]:
    """Cases of the first `count` photos, in a shuffled order, that the model classifies right."""
    files = sorted(photos.glob("n*.jpg"))
    chosen = []
    for i in np.random.default_rng(0).permutation(len(files)):
        case = Case.of(files[i], model, regions=regions)
        if case.bound.target.index == 2 * i:
            chosen.append(case)
        if len(chosen) == count:
            break
    return chosen


def measure(cases: list[Case], recipe: str, batch_size: int) -> list[dict]:
    """One record per case: the numbers of the paper's tables and the forwards."""
    searches = [case.start(Recipe(recipe)) for case in cases]
    results = dict(drive(searches, responder(), batch_size=batch_size))
    records = []
    for number, case in enumerate(cases):
        curves = case.replay(results[number].order.tolist())
        ledger = results[number].ledger
        records.append({**curves.summary(), "mec": ledger.mec, "nominal": ledger.nominal, "n": case.partition.n})
    return records


def interval(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Bootstrap 95 % interval of a mean."""
    means = values[rng.integers(0, len(values), (10_000, len(values)))].mean(axis=1)
    return tuple(np.quantile(means, [0.025, 0.975]))


def table(records: dict[str, list[dict]], settings: str) -> str:
    """Markdown: a row per recipe, then paired differences with intervals."""
    rng = np.random.default_rng(0)
    value = {r: {c: np.array([record[c] for record in rows]) for c in rows[0]} for r, rows in records.items()}
    lines = [settings, "", "| method | " + " | ".join(COLUMNS.values()) + " | MEC |", "|---" * (len(COLUMNS) + 2) + "|"]
    for recipe, columns in value.items():
        cells = [f"{columns[c].mean():.3f}" for c in COLUMNS] + [f"{columns['mec'].mean():.0f}"]
        lines.append(f"| {recipe} | " + " | ".join(cells) + " |")
    lines += ["", "Paired differences on the same photos, with a bootstrap 95 % interval:", ""]
    lines += ["| methods | Ins | Del | @50 | High |", "|---|---|---|---|---|"]
    for recipe, other in PAIRS:
        cells = []
        for c in ("insertion_auc", "deletion_auc", "best@50", "high"):
            gap = value[recipe][c] - value[other][c]
            low, high = interval(gap, rng)
            cells.append(f"{gap.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        lines.append(f"| {recipe} - {other} | " + " | ".join(cells) + " |")
    gaps = value["greedy"]["insertion_auc"] - value["phasewin"]["insertion_auc"]
    tail = gaps > 0.1
    share = gaps[tail].sum() / gaps[gaps > 0].sum()
    lines += [
        "",
        f"PhaseWin trails Greedy by more than 0.1 on {tail.mean():.0%} of the photos: {share:.0%} of the positive gap.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--photos", type=Path, default=Path("../shared/data/imagenet"))
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--together", type=int, default=50, help="photos searched at the same time")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no further group of photos after this"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    options = parser.parse_args()
    if not options.photos.is_dir():
        print(f"skipped: there is no folder {options.photos}.")
        sys.exit()
    model = whymask.load(options.model, device=options.device, dtype=options.dtype)
    batch_size = options.batch_size or model.batch_size
    started = time.perf_counter()
    cases = correct_cases(options.photos, model, options.count)
    print(f"{len(cases)} photos bound in {time.perf_counter() - started:.0f} s", flush=True)
    records: dict[str, list[dict]] = {recipe: [] for recipe in RECIPES}
    options.out.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(cases), options.together):
        if time.perf_counter() - started > options.seconds:
            break
        group = cases[start : start + options.together]
        for recipe in RECIPES:
            records[recipe] += measure(group, recipe, batch_size)
        for case in group:
            case.responses.clear()
        print(f"{start + len(group)} photos after {time.perf_counter() - started:.0f} s", flush=True)
        settings = (
            f"# The paper's six orderings\n\n`python {' '.join(sys.argv)}`\n\n"
            f"{options.model}, {len(records['greedy'])} correctly classified photos, its own preprocessing, slico:64 "
            f"(mean n {np.mean([r['n'] for r in records['greedy']]):.1f}), black fill, seed 0, {options.dtype}, "
            "paper defaults (PhaseWin without annealing, complete internal ordering). "
            "@30 and @50 are best@, MEC counts distinct masked images."
        )
        (options.out / "orderings.md").write_text(table(records, settings))
        (options.out / "orderings.json").write_text(json.dumps(records))
    print((options.out / "orderings.md").read_text())
