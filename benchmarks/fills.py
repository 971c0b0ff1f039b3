"""Do masks survive a change of fill? Masks are searched on one fill or on several, and scored on eight.

They explain right answers, or, with --null, another class for each photo, drawn at random. Methods are tuned on the
photos with even numbers and reported on those with odd ones. The photos of a folder are taken as every second class of
ImageNet, in the order of their names. A row is a method with its parameters, and fill= (else black), regions=,
over_fills=, keep=answer and budget= where they matter.

Run: python benchmarks/fills.py run FOLDER OUT.jsonl --half odd "smallest fill=several" "discs+swap tries=426"
     python benchmarks/fills.py table OUT.jsonl
     python benchmarks/fills.py page     (docs/fills.md, from the records in results/fills)
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import whymask
from whymask.bench.stats import intervals
from whymask.explainer.case import Case, batching
from whymask.explainer.together import search_together
from whymask.images.inpaint import inpainted
from whymask.images.masking import fills_of
from whymask.methods import Recipe
from whymask.results.verdict import Controls, judge

FOUR = ("black", "mean", "blur", "grey noise")  # no search uses the last
OTHERS = ("noise", "dark_defocus", "photo")
SIX = (*FOUR, *OTHERS[:2])  # "photo" shows something else instead
MORE = ("mean", "dark_defocus", "noise", "grey noise")  # two more: the first two that a row did not search
CODES = ("enough", "redundant", "one_fill", "shape_only", "not_enough")
ROOT = Path(__file__).parents[1]
PAGE, RECORDS, MARK = ROOT / "docs" / "fills.md", ROOT / "results" / "fills", "## The tables"
SETTINGS = ("fill", "over_fills", "regions")
LINEAR = ", linear surrogate"  # in the names of the records of the earlier search
AT_ONCE = 25  # photos


def parsed(text: str) -> tuple[Recipe, dict, int | None]:
    """The recipe, the settings of its cases and the budget of a row: "discs+swap tries=426 fill=several budget=900"."""
    method, *given = text.split()
    pairs = dict(pair.split("=", 1) for pair in given)
    settings: dict = {name: pairs.pop(name) for name in SETTINGS if name in pairs}
    if pairs.pop("keep", "") == "answer":
        settings["keep_answer"] = True
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
    canvas = evidence.image.canvas
    others = others_of(file, canvas.shape[:2]) | {"inpaint": inpainted(canvas, evidence.mask)}
    scores = {name: float(case.again(fill=fill).ask(found.mask[None])[0][0, 0]) for name, fill in others.items()}
    kept = evidence.controls.kept
    return {
        "forwards": evidence.ledger.mec,
        "regions": len(evidence.regions),
        "area": evidence.area,
        "full": evidence.image.full_score,
        "score": evidence.score,
        "removed": evidence.removed_score,
        "blank": evidence.image.blank_score,
        "reached": kept.alone if kept else evidence.sufficient,
        "controls": evidence.controls.as_dict(),
        "scores": scores,
    }


def read(file: Path) -> dict[tuple[str, bool], dict[str, dict]]:
    """The masks of a file of records by row and null, by photo."""
    with gzip.open(file, "rt") if file.suffix == ".gz" else file.open() as lines:
        records = [json.loads(line) for line in lines]
    rows: dict[tuple[str, bool], dict[str, dict]] = {}
    for record in records:
        record["scores"].setdefault("inpaint", record["controls"]["fills"].get("inpaint", np.nan))  # not of older masks
        rows.setdefault((record["row"], record["null"]), {})[record["photo"]] = record
    return rows


def tables(rows: dict[tuple[str, bool], dict[str, dict]]) -> str:
    """Masks of a given size by their budget, each with its differences to the first row; then the smallest masks."""
    parts = []
    given = {key: masks for key, masks in rows.items() if next(iter(masks.values()))["reached"] is None}
    budgets = sorted({budget_of(name) for name, null in given if not null})
    for budget in budgets:
        some = {name: masks for (name, null), masks in given.items() if budget_of(name) == budget and not null}
        first = next((masks for name, masks in some.items() if "fill=" not in name), None)
        parts.append(as_table(GIVEN, [[shown(name), *given_cells(masks, first)] for name, masks in some.items()]))
    null = {name: masks for (name, null), masks in rows.items() if null}
    if null:
        cells = [[f"{shown(name)}: another class", *given_cells(masks, None)] for name, masks in null.items()]
        parts.append(as_table(GIVEN, cells))
    smallest = {name: masks for (name, null), masks in rows.items() if (name, null) not in given and not null}
    if smallest:
        parts.append(as_table(SMALLEST, [[shown(name), *smallest_cells(masks)] for name, masks in smallest.items()]))
    return "\n\n".join(parts)


GIVEN = (
    "masks", "photos", "forwards", *FOUR,"mean of four", "half on all six",
    "difference", *(f"difference, {name}" for name in ("grey noise", "noise", "inpaint")),
)  # fmt: skip
SMALLEST = (
    "masks", "photos", "forwards", "goal reached", "regions", "area, median", "area, mean",
    *(f"half on {name}" for name in SIX), "half on its own and two more", "half on all six", "half on inpaint",
    "half on another photo", *CODES,
)  # fmt: skip
AGAINST = (
    "masks", "photos", "forwards, before", "forwards", "score on its own fills", "area", "mean of four", "grey noise",
    "noise",
)  # fmt: skip


def budget_of(name: str) -> int:
    """The forwards of a row of masks of a given size; trace takes 160."""
    return int(name.partition("budget=")[2].split()[0]) if "budget=" in name else 160


def shown(name: str) -> str:
    """A row as the page names it."""
    return f"`{name}`"


def given_cells(masks: dict, first: dict | None) -> list[str]:
    """The numbers of masks of a given size."""
    means = [np.mean([mask["scores"][name] for mask in masks.values()]) for name in FOUR]
    gaps = [difference(masks, first, names) for names in (FOUR, ("grey noise",), ("noise",), ("inpaint",))]
    forwards = np.mean([mask["forwards"] for mask in masks.values()])
    null = any(mask["null"] for mask in masks.values())  # of which even the whole image scores nothing
    six = "" if null else halved(masks, SIX, ".3f")
    scores = [*(f"{mean:.3f}" for mean in means), f"{np.mean(means):.3f}"]
    return [f"{len(masks)}", f"{forwards:.0f}", *scores, six, *gaps]


def smallest_cells(masks: dict) -> list[str]:
    """The numbers of masks whose size was searched."""
    codes = [verdict(mask) for mask in masks.values()]
    area = [mask["area"] for mask in masks.values()]
    return [
        f"{len(masks)}",
        *(f"{np.mean([mask[name] for mask in masks.values()]):{form}}" for name, form in NUMBERS.items()),
        f"{np.median(area):.3f}",
        f"{np.mean(area):.3f}",
        *(halved(masks, (name,)) for name in SIX),
        held(masks, own_and_two(next(iter(masks.values()))["row"])),
        halved(masks, SIX, ".3f"),
        *(halved(masks, (name,)) for name in ("inpaint", "photo")),
        *(f"{codes.count(code) / len(codes):.0%}" for code in CODES),
    ]


def held(masks: dict, names) -> str:
    """The share of masks that keep at least half of the score on all of some fills, with its interval."""
    least = np.array([min(mask["scores"][name] for name in names) / mask["full"] for mask in masks.values()])
    (low,), (high,) = intervals((least >= 0.5).astype(float)[:, None])
    return f"{np.mean(least >= 0.5):.3f} [{low:.3f}, {high:.3f}]"


def halved(masks: dict, names, form: str = ".2f") -> str:
    """The share of masks that keep at least half of the whole image's score on all of some fills."""
    least = np.array([[mask["scores"][name] / mask["full"] for name in names] for mask in masks.values()]).min(axis=1)
    return "" if np.isnan(least).any() else f"{np.mean(least >= 0.5):{form}}"


def own_and_two(row: str) -> list[str]:
    """The fills that a row searched and the first two of `MORE` that it did not."""
    own = fills_of(parsed(row)[1].get("fill", "black"))
    return [*own, *[name for name in MORE if name not in own][:2]]


NUMBERS = {"forwards": ".0f", "reached": ".3f", "regions": ".1f"}


def verdict(mask: dict) -> str:
    """The verdict on a mask that was searched on the fills of its row."""
    controls = Controls.from_dict(mask["controls"])
    numbers = {name: mask[name] for name in ("full", "score", "removed", "blank", "area")}
    share = float(mask["row"].partition("share=")[2] or 0.9)
    goal = min(share * mask["full"], mask["score"]) if mask["reached"] else 1.0  # records are rounded
    return judge(**numbers, goal=goal, controls=controls).code


def difference(masks: dict, first: dict | None, names) -> str:
    """The mean difference of scores to the same photos in another row, with its interval."""
    return paired(masks, first, lambda mask: np.mean([mask["scores"][name] for name in names]))


def paired(masks: dict, first: dict | None, value: Callable[[dict], float]) -> str:
    """The mean difference of a number to the same photos in another row, with its interval."""
    both = [photo for photo in masks if first is not None and photo in first]
    gaps = np.array([value(masks[photo]) - value(first[photo]) for photo in both])
    if masks is first or not both or np.isnan(gaps).any():
        return ""
    (low,), (high,) = intervals(gaps[:, None])
    return f"{gaps.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def against(rows: dict, before: dict) -> str:
    """What rows gain over those of the same name in other records, on the same photos."""
    cells = []
    for (name, null), masks in rows.items():
        first = before.get((name, null))
        if null or first is None:
            continue
        both = [photo for photo in masks if photo in first]
        forwards = (f"{np.mean([one[photo]['forwards'] for photo in both]):.0f}" for one in (first, masks))
        gaps = (difference(masks, first, names) for names in (FOUR, ("grey noise",), ("noise",)))
        own = [paired(masks, first, lambda mask, of=of: mask[of]) for of in ("score", "area")]
        cells.append([shown(name), f"{len(both)}", *forwards, *own, *gaps])
    return as_table(AGAINST, cells)


def as_table(columns, rows) -> str:
    """Markdown, without columns that are empty."""
    filled = [any(cells) for cells in zip(*rows, strict=True)]
    columns, *rows = ([cell for cell, some in zip(cells, filled, strict=True) if some] for cells in (columns, *rows))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))


def page() -> str:
    """docs/fills.md: its text with the tables of the published records."""
    files = sorted(RECORDS.glob("*.jsonl.gz"), key=lambda file: (LINEAR in file.name, file.name))
    found = [f"### {file.name.removesuffix('.jsonl.gz')}\n\n{tables(read(file))}" for file in files]
    now, before = (read(RECORDS / f"efficientnet-lite0{surrogate}.jsonl.gz") for surrogate in ("", LINEAR))
    found.insert(0, f"### The Gaussian process against the linear surrogate\n\n{against(now, before)}")
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(MARK)[0] + "\n\n".join([MARK, *found]) + "\n"


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
    showing.add_argument("file", type=Path)
    showing.set_defaults(run=lambda options: print(tables(read(options.file))))
    writing = commands.add_parser("page")
    writing.set_defaults(run=lambda _: PAGE.write_text(page(), encoding="utf-8"))
    options = parser.parse_args()
    options.run(options)
