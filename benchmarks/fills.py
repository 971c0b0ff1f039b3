"""Do masks survive a change of fill? Masks are searched on one fill or on several, and scored on seven.

They explain right answers, or, with --null, another class for each photo, drawn at random. Methods are tuned on the
photos with even numbers and reported on those with odd ones. The photos of a folder are taken as every second class of
ImageNet, in the order of their names. A row is a method with its parameters and, where they differ from the defaults,
fill=, over_fills=, regions= and budget=.

Run: python benchmarks/fills.py run FOLDER OUT.jsonl --half odd "smallest fill=several" "discs+swap tries=426"
     python benchmarks/fills.py table OUT.jsonl --against "discs+swap tries=426"
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

import whymask
from whymask.bench.stats import intervals
from whymask.explainer.case import Case, batching
from whymask.explainer.together import search_together
from whymask.methods import Recipe

FOUR = ("black", "mean", "blur", "grey noise")  # no search uses the last
OTHERS = ("noise", "dark_defocus", "photo")
SIX = (*FOUR, *OTHERS[:2])  # "photo" shows something else instead
SETTINGS = ("fill", "over_fills", "regions")
AT_ONCE = 25  # photos


def parsed(text: str) -> tuple[Recipe, dict, int | None]:
    """The recipe, the settings of its cases and the budget of a row: "discs+swap tries=426 fill=several budget=900"."""
    method, *given = text.split()
    pairs = dict(pair.split("=", 1) for pair in given)
    settings = {name: pairs.pop(name) for name in SETTINGS if name in pairs}
    budget = json.loads(pairs.pop("budget", "null"))
    return Recipe(method, {name: json.loads(value) for name, value in pairs.items()}), settings, budget


def right_answers(model, options) -> list[tuple[int, Path]]:
    """The class and file of photos whose answer is their class, spread over the half; of those this part."""
    files = [*enumerate(sorted(options.folder.glob("*.jpg")))][options.half == "odd" :: 2]
    stride = max(1, len(files) // (options.count + options.count // 4))
    spread = [files[place] for start in range(stride) for place in range(start, len(files), stride)]
    part, parts = options.part
    found = []
    for number, file in spread[part::parts]:
        if len(found) < -(-options.count // parts) and model.bind(file).target.index == 2 * number:
            found.append((2 * number, file))
    return found


def others_of(file: Path, size: tuple[int, int]) -> dict:
    """What masks are scored on, by name; "photo" is another photo of the folder."""
    files = sorted(file.parent.glob("*.jpg"))
    photo = str(files[(files.index(file) + len(files) // 2) % len(files)])
    grey = np.random.default_rng(0).normal(118, 60, (*size, 3)).clip(0, 255).astype(np.uint8)
    return {name: name for name in (*FOUR, *OTHERS)} | {"grey noise": grey, "photo": photo}


def run(options) -> None:
    """Search every row on every photo; a JSON line per mask is appended to the file."""
    model = whymask.load(options.model, **json.loads(options.options))
    photos, start = right_answers(model, options), time.perf_counter()
    if options.null:
        rng = np.random.default_rng(options.part[0])
        photos = [((number + int(rng.integers(1, 1000))) % 1000, file) for number, file in photos]
    for first in range(0, len(photos), AT_ONCE):
        some = photos[first : first + AT_ONCE]
        for text in options.rows:
            recipe, settings, budget = parsed(text)
            cases = [Case.of(file, model, target=target, **settings) for target, file in some]
            for number, found, _ in search_together(cases, recipe, 0, batching(model), budget=budget):
                record = {"photo": some[number][1].stem, "row": text, "null": options.null}
                record |= numbers(cases[number], some[number][1], found)
                with options.out.open("a") as out:
                    out.write(json.dumps(record) + "\n")
            print(
                f"{first + len(some)} photos, {text}, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True
            )


def numbers(case: Case, file: Path, found) -> dict:
    """Numbers of one mask."""
    evidence = case.result(found, case.provenance(found.recipe, 0, ""))
    others = others_of(file, evidence.image.canvas.shape[:2])
    scores = {name: float(case.again(fill=fill).ask(found.mask[None])[0][0, 0]) for name, fill in others.items()}
    return {
        "forwards": evidence.ledger.mec,
        "regions": len(evidence.regions),
        "area": evidence.area,
        "full": evidence.image.full_score,
        "score": evidence.score,
        "removed": evidence.removed_score,
        "blank": evidence.image.blank_score,
        "reached": evidence.sufficient,
        "verdict": evidence.verdict.code,
        "controls": evidence.controls.as_dict(),
        "scores": scores,
    }


def table(options) -> None:
    """Print a row of means for each method, and its differences to the row it is compared with."""
    records = [json.loads(line) for file in options.files for line in file.read_text().splitlines()]
    by_row: dict[tuple, dict] = {}
    for record in records:
        by_row.setdefault((record["row"], record["null"]), {})[record["photo"]] = record
    print(f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), sep="\n")
    for (name, null), masks in by_row.items():
        base = {} if null else by_row.get((options.against, null), {})
        print(f"| {name}{', another class' if null else ''} | {' | '.join(line(masks, base))} |")
    for name, masks in by_row.items():
        codes = [mask["verdict"] for mask in masks.values()]
        print(f"\n{name[0]}{', another class' if name[1] else ''}:", end=" ")
        print(", ".join(f"{code} {codes.count(code) / len(codes):.0%}" for code in sorted(set(codes))))


COLUMNS = (
    "row", "photos", "forwards", "regions", "area, median", "reached", *FOUR, "mean of four", "difference", *OTHERS,
    "grey noise: difference", "half on all six",
)  # fmt: skip


def line(masks: dict, base: dict) -> list[str]:
    """The cells of a row: `masks` and those it is compared with, by photo."""
    scores = {name: np.array([mask["scores"][name] for mask in masks.values()]) for name in (*FOUR, *OTHERS)}
    full = np.array([mask["full"] for mask in masks.values()])
    half = np.all([scores[name] >= 0.5 * full for name in SIX], axis=0)
    reached = [mask["reached"] for mask in masks.values()]

    def difference(*names: str) -> str:
        both = [photo for photo in masks if photo in base]
        if not both or base is masks:
            return ""
        gaps = [
            np.mean([masks[photo]["scores"][name] - base[photo]["scores"][name] for name in names]) for photo in both
        ]
        (low,), (high,) = intervals(np.array(gaps)[:, None])
        return f"{np.mean(gaps):+.3f} [{low:+.3f}, {high:+.3f}]"

    def means(names) -> list[str]:
        return [f"{scores[name].mean():.3f}" for name in names]

    return [
        f"{len(masks)}", f"{np.mean([mask['forwards'] for mask in masks.values()]):.0f}",
        f"{np.mean([mask['regions'] for mask in masks.values()]):.1f}",
        f"{np.median([mask['area'] for mask in masks.values()]):.3f}",
        "" if None in reached else f"{np.mean(reached):.3f}",
        *means(FOUR), f"{np.mean([scores[name].mean() for name in FOUR]):.3f}", difference(*FOUR), *means(OTHERS),
        difference("grey noise"), f"{half.mean():.3f}",
    ]  # fmt: skip


def share(text: str) -> tuple[int, int]:
    """A part of several: "0/16" is the first of 16."""
    part, parts = map(int, text.split("/"))
    return part, parts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("folder", type=Path)
    running.add_argument("out", type=Path)
    running.add_argument("rows", nargs="+")
    running.add_argument("--half", choices=("even", "odd"), default="even")
    running.add_argument("--count", type=int, default=40)
    running.add_argument("--part", type=share, default=(0, 1), help="of several processes, such as 0/16")
    running.add_argument("--null", action="store_true", help="search for another class each")
    running.add_argument("--model", default="efficientnet-lite0")
    running.add_argument("--options", default="{}", help="of the model, as JSON")
    running.set_defaults(run=run)
    showing = commands.add_parser("table")
    showing.add_argument("files", type=Path, nargs="+")
    showing.add_argument("--against", default="")
    showing.set_defaults(run=table)
    options = parser.parse_args()
    options.run(options)
