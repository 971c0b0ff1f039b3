"""How few regions are enough, for how many forwards, and whether they survive another fill.

Masks are found on black for right answers, then scored on fills that no search has seen. Methods are tuned on the
photos with even numbers and reported on those with odd ones. The photos of a folder are taken as every second class of
ImageNet in the order of their names.
Run: python benchmarks/smallest.py FOLDER --half odd --count 60 smallest "discs+swap:k=8"
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import whymask
from whymask.explainer.case import Case
from whymask.methods import Recipe

NOISE = np.random.default_rng(0).normal(118, 60, (224, 224, 3)).clip(0, 255).astype(np.uint8)
FILLS = {"mean": "mean", "blur": "blur", "noise": NOISE}

COLUMNS = (
    "method", "photos", "reached", "with <= 24 regions", "regions", "area, mean", "area, median", "forwards",
    "kept on black", *FILLS, "half on all",
)  # fmt: skip


def recipe(text: str) -> Recipe:
    """A method and its parameters: "smallest:share=0.8,k_max=12"."""
    name, _, given = text.partition(":")
    pairs = (pair.split("=") for pair in given.split(",") if pair)
    return Recipe(name, {key: json.loads(value) for key, value in pairs})


def right_answers(model, folder: Path, half: str, count: int, regions: str):
    """The cases whose answer is the photo's class, spread over the half."""
    files = list(enumerate(sorted(folder.glob("*.jpg"))))[half == "odd" :: 2]
    stride = max(1, len(files) // (count + count // 4))
    first = [place for start in range(stride) for place in range(start, len(files), stride)]
    found = 0
    for number, file in (files[place] for place in first):
        case = Case.of(file, model, regions=regions)
        if case.bound.target.index == 2 * number:
            yield file.stem, case
            if (found := found + 1) == count:
                return


def measure(case: Case, method: Recipe, budget: int | None) -> dict:
    """Numbers of one mask."""
    (found,) = case.search(method, budget=budget)
    full, goal = found.image.full_score, found.goal
    kept = {"black": found.score / full}
    for name, fill in FILLS.items():
        other = case.again(fill=fill)
        ((score,),), _ = other.ask(found.chosen[None])
        kept[name] = score / full
    return {
        "forwards": found.ledger.mec,
        "regions": len(found.regions),
        "area": found.area,
        "reached": None if goal is None else bool(found.sufficient),
        "score": found.score,
        "kept": kept,
    }


def table(records: list[dict]) -> str:
    """A row of means for each method."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for name in dict.fromkeys(record["method"] for record in records):
        rows = [record for record in records if record["method"] == name]
        kept = np.array([[min(1, value) for value in row["kept"].values()] for row in rows])
        reached = np.array([bool(row["reached"]) for row in rows])
        few = np.array([row["regions"] <= 24 for row in rows])
        area = np.array([row["area"] for row in rows])
        numbers = [
            f"{len(rows)}", f"{reached.mean():.3f}", f"{(reached & few).mean():.3f}",
            f"{np.mean([row['regions'] for row in rows]):.1f}", f"{area.mean():.3f}", f"{np.median(area):.3f}",
            f"{np.mean([row['forwards'] for row in rows]):.0f}", *(f"{value:.3f}" for value in kept.mean(axis=0)),
            f"{(kept >= 0.5).all(axis=1).mean():.3f}",
        ]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--half", choices=("even", "odd"), default="even")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--regions", default="slico:64")
    parser.add_argument("--budget", type=int)
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--out", type=Path, help="append the numbers of every mask to this file, a JSON line each")
    options = parser.parse_args()
    model = whymask.load(options.model)
    records = []
    for photo, case in right_answers(model, options.folder, options.half, options.count, options.regions):
        for method in options.methods:
            case.forget()
            records.append({"photo": photo, "method": method} | measure(case, recipe(method), options.budget))
            if options.out:
                with options.out.open("a") as file:
                    file.write(json.dumps(records[-1]) + "\n")
        print(f"{len(records)} masks", end="\r", file=sys.stderr, flush=True)
    print(table(records))
