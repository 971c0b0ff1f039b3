"""Masks and orderings beyond the paper's: quality against forwards, on photos no method was tuned on.

Photos are files named <wnid>_<name>.jpg, one for each second ImageNet class in wnid order, so file i has class 2i.
Methods were tuned on files of even i; those of odd i are reported. tiny-qwen and tiny-llava are asked adversarial
questions about their scenes instead, on which nothing was tuned. Splits: correct (the model is right), cause (it is
wrong, and its answer is explained), repair (the same images, the truth is explained). Everything is searched on black;
masks and orderings are scored again on blurred and on mean-coloured fill, because a search can fool the metric it
optimises.

Measure (parts may run side by side):  python benchmarks/beyond.py measure --part 0/4 --device cuda --out part0.jsonl
Tables:                                python benchmarks/beyond.py table part*.jsonl --out docs/results/masks.md
"""

import argparse
import gzip
import json
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import whymask
from whymask.data import scenes as scene_questions
from whymask.explainer.answers import PLAIN, answer_all, repope_cases, yes_or_no
from whymask.explainer.case import Case, responder
from whymask.search import Recipe, drive

BUDGETS = (80, 160, 320, 450, 900)
K = 8
FILLS = ("blur", "mean")
SEEDED = {"trace": Recipe("trace"), "trace+swap": Recipe("trace+swap", {"tries": 290}),
          "discs+swap": Recipe("discs+swap", {"tries": 426})}  # fmt: skip
"""Masks over five seeds, by budget from one run where the method can be stopped at any time."""
ONCE = {
    "random, best of B": {b: Recipe("random-k", {"draws": b}) for b in BUDGETS},
    "trace, M = B / 5": {b: Recipe("trace", {"samples": b // 5}) for b in BUDGETS},
    "trace, 14 rounds": {450: Recipe("trace", {"rounds": 14})},
    "stochastic greedy": {b: Recipe("greedy-k", {"candidates": b // K}) for b in (80, 160, 320)},
    "greedy prefix, suff": {484: Recipe("greedy-k")},
    "greedy prefix, suff + necc": {968: Recipe("greedy-k", {"init_objective": "suff_necc"})},
    "greedy-k+swap": {900: Recipe("greedy-k+swap", {"tries": 416})},
    "discs+swap to 900": {900: Recipe("discs+swap", {"tries": 876})},
    "smallest": {450: Recipe("smallest")},
}
RIVALS = (("trace+greedy", "insertion_auc"), ("copair+greedy", "insertion_auc"), ("greedy", "deletion_auc"))
BOTH = {"init_objective": "suff_necc", "order_objective": "suff_necc", "gamma": 1.0}
ORDERINGS = {
    "greedy": Recipe("greedy"),
    "phasewin": Recipe("phasewin"),
    "trace+greedy": Recipe("trace+greedy"),
    "trace+phasewin": Recipe("trace+phasewin"),
    "copair+greedy": Recipe("copair+greedy"),
    "copair+phasewin": Recipe("copair+phasewin"),
    "discs+swap+greedy": Recipe("discs+swap+greedy", {"tries": 426}),
    "discs+swap+lean": Recipe("discs+swap+lean", {"tries": 426}),
    "discs+swap+lean, 160": Recipe("discs+swap+lean"),
    "discs+swap+lean, both": Recipe("discs+swap+lean", {"tries": 126, **BOTH}),
    "discs+swap+greedy, both": Recipe("discs+swap+greedy", {"tries": 201, **BOTH}),
}


def load(options: argparse.Namespace):
    """A model by its id, or the ResNet-50 of `--weights`."""
    if options.model == "resnet50":
        from resnet50 import load as keras

        return keras(options.weights, device=options.device)
    return whymask.load(options.model, device=options.device)


def chosen(photos: Path, model, part: tuple[int, int], count: int, wrong: int) -> dict[str, list[tuple[str, Case]]]:
    """(photo, case) by split: this part's share of `count` right answers and of `wrong` ones."""
    files = sorted(photos.glob("n*.jpg"))
    held_out = [i for i in np.random.default_rng(0).permutation(len(files)).tolist() if i % 2]
    splits = defaultdict(list)
    for i in held_out[part[0] :: part[1]]:
        case = Case.of(files[i], model)
        if case.bound.target.index == 2 * i:
            if len(splits["correct"]) < count // part[1]:
                splits["correct"].append((files[i].stem, case))
        elif len(splits["cause"]) < wrong // part[1]:
            splits["cause"].append((files[i].stem, case))
            splits["repair"].append((files[i].stem, Case.of(files[i], model, target=2 * i)))
    return splits


def asked(model, part: tuple[int, int], count: int, wrong: int) -> dict[str, list[tuple[str, Case]]]:
    """(question, case) by split for a multimodal model: this part's share of right yeses and of wrong answers."""
    splits = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        scene_questions.write(folder, "adversarial", 300)
        answers = list(answer_all(model, scene_questions.questions("adversarial", 300), folder, prompt=PLAIN))
        yeses = [one for one in answers if one.question.label == "yes" and yes_or_no(one.answer) == "Yes"]
        mistakes = [one for one, _ in repope_cases(answers)]
        for split, some, target in (
            ("correct", yeses[:count], lambda one: "Yes"),
            ("cause", mistakes[:wrong], lambda one: yes_or_no(one.answer)),
            ("repair", mistakes[:wrong], lambda one: one.question.want),
        ):
            for one in some[part[0] :: part[1]]:
                case = Case.of(one.image, model, target=target(one), question=one.prompt)
                splits[split].append((f"question {one.question.number}", case))
    return splits


def search(cases: list[Case], recipe: Recipe, seed: int) -> tuple[list, list[list[tuple[int, float]]]]:
    """Results, and for each the (forwards, best score) after every batch."""
    seen: list[list[tuple[int, float]]] = [[] for _ in cases]

    def noting(history):
        def note(progress):
            score = getattr(progress.best, "score", None)
            history.append((progress.forwards, 0.0 if score is None else score))

        return note

    searches = [case.start(recipe, seed, progress=noting(history)) for case, history in zip(cases, seen, strict=True)]
    found = dict(drive(searches, responder(), batch_size=cases[0].model.batch_size))
    return [found[i] for i in range(len(cases))], seen


def other_fills(case: Case) -> dict[str, Case]:
    """The same canvas, answer and regions on other fills."""
    bound = case.bound
    return {
        fill: Case(
            case.model,
            case.model.bind(
                bound.canvas, target=bound.target.name, question=case.settings["question"], resize="none", fill=fill
            ),
            case.partition,
            case.batching,
            settings={},
        )
        for fill in FILLS
    }


def measure(options: argparse.Namespace) -> None:
    """Write one JSON line per photo, method and seed."""
    part = tuple(int(number) for number in options.part.split("/"))
    model = load(options)
    started = time.perf_counter()
    if options.model.startswith("tiny-"):
        splits = asked(model, part, options.count, options.wrong)
    else:
        splits = chosen(options.photos, model, part, options.count, options.wrong)
    print({split: len(cases) for split, cases in splits.items()}, f"{time.perf_counter() - started:.0f} s", flush=True)
    with options.out.open("w") as out:

        def tell(photo: str, split: str, method: str, **values) -> None:
            print(json.dumps({"model": options.model, "photo": photo, "split": split, "method": method} | values),
                  file=out, flush=True)  # fmt: skip

        for split, named in splits.items() if options.masks else ():
            names, cases = [name for name, _ in named], [case for _, case in named]
            elsewhere = [other_fills(case) for case in cases]

            def masks(method, recipe, seed, budgets, names=names, cases=cases, elsewhere=elsewhere, split=split):
                results, seen = search(cases, recipe, seed)
                rows = [result.mask for result in results]
                for name, case, other, row, history in zip(names, cases, elsewhere, rows, seen, strict=True):
                    (score,), _ = case.ask(row[None])
                    at = {b: max((s for f, s in history if f <= b), default=0.0) for b in budgets[:-1]}
                    moved = {fill: float(moved.ask(row[None])[0][0, 0]) for fill, moved in other.items()}
                    mec = results[names.index(name)].ledger.mec
                    tell(name, split, method, seed=seed, k=int(row.sum()), mec=mec,
                         area=float(case.partition.areas[row].sum()),
                         full=float(case.ask(np.ones((1, len(row)), dtype=bool))[0][0, 0]),
                         at=at | {budgets[-1]: float(score[0])}, **moved)  # fmt: skip

            for seed in range(options.seeds if split == "correct" else 1):
                masks("trace", SEEDED["trace"], seed, (80, 160))
                for method in ("trace+swap", "discs+swap"):
                    masks(method, SEEDED[method], seed, (80, 160, 320, 450))
            for method, recipes in ONCE.items():
                for budget, recipe in recipes.items():
                    masks(method, recipe, 0, (budget,))
            print(f"{split}: masks after {time.perf_counter() - started:.0f} s", flush=True)
        named = splits["correct"][: options.orderings // part[1]]
        cases = [case for _, case in named]
        for method, recipe in ORDERINGS.items() if cases else ():
            for case in cases:
                case.responses.clear()
            for (name, case), result in zip(named, search(cases, recipe, 0)[0], strict=True):
                order = result.order.tolist()
                curves = case.replay(order).summary()
                moved = {fill: other.replay(order).summary() for fill, other in other_fills(case).items()}
                tell(name, "orderings", method, mec=result.ledger.mec, **curves,
                     **{f"{key}, {fill}": values[key] for fill, values in moved.items()
                        for key in ("insertion_auc", "deletion_auc")})  # fmt: skip
            print(f"{method} after {time.perf_counter() - started:.0f} s", flush=True)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Bootstrap 95 % interval of a mean."""
    draws = np.random.default_rng(0).integers(0, len(values), (10_000, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def versus(ours: dict[str, float], theirs: dict[str, float]) -> str:
    """The ratio of two means over the same photos, and their difference with its interval."""
    photos = sorted(ours.keys() & theirs.keys())
    a, b = (np.array([values[photo] for photo in photos]) for values in (ours, theirs))
    low, high = interval(a - b)
    return f"{a.mean() / b.mean():.2f} times, {(a - b).mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def by_photo(records: list[dict], value, over=np.mean) -> dict[str, float]:
    """One number per photo, the mean (or another summary) over its seeds."""
    photos = defaultdict(list)
    for record in records:
        photos[record["photo"]].append(value(record))
    return {photo: float(over(values)) for photo, values in photos.items()}


def samples(records: list[dict]) -> str:
    """What the model of the records is asked about."""
    return "questions" if records[0]["model"].startswith("tiny-") else "photos"


def mask_tables(records: list[dict], split: str) -> list[str]:
    """The frontier of one split, what carries over to other fills, and the comparisons."""
    methods = defaultdict(list)
    for record in records:
        if record["split"] == split and record["method"] != "smallest":
            methods[record["method"]].append(record)
    count = len({record["photo"] for record in methods["trace"]})
    lines = [
        f"### {split}, {count} {samples(records)}",
        "",
        "| method | " + " | ".join(map(str, BUDGETS)) + " | MEC | blur | mean fill |",
    ]
    lines.append("|---" * (len(BUDGETS) + 4) + "|")
    means: dict[tuple[str, int], dict[str, float]] = {}
    for method, rows in methods.items():
        budgets = {int(b) for row in rows for b in row["at"]}
        for budget in budgets:
            means[method, budget] = by_photo(
                [row for row in rows if str(budget) in row["at"]], lambda row, b=str(budget): row["at"][b]
            )
        cells = []
        for column in BUDGETS:
            budget = (
                {450: 484, 900: 968}.get(column) if not {column} & budgets else column
            )  # prefixes cost what they cost
            cell = means.get((method, budget))
            cells.append("" if cell is None else f"{np.mean(list(cell.values())):.3f}")
        last = max(budgets)
        final = [row for row in rows if str(last) in row["at"]]
        cells.append(f"{np.mean([row['mec'] for row in final]):.0f}")
        cells += [f"{np.mean(list(by_photo(final, lambda row, f=fill: row[f]).values())):.3f}" for fill in FILLS]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    spread = [
        f"{method} {np.mean([*by_photo(methods[method], lambda row, b=b: row['at'][b], np.std).values()]):.3f} at {b}"
        for method, b in (("trace", "160"), ("discs+swap", "160"), ("discs+swap", "450"))
    ]
    lines.append("")
    if len({row["seed"] for row in methods["trace"]}) > 1:
        lines += [f"Standard deviation over seeds, mean of the {samples(records)}: {', '.join(spread)}.", ""]
    for ours, theirs in (
        (("discs+swap", 160), ("trace", 160)),
        (("discs+swap", 450), ("trace", 160)),
        (("discs+swap", 450), ("greedy prefix, suff", 484)),
        (("discs+swap", 450), ("greedy prefix, suff + necc", 968)),
        (("discs+swap", 450), ("trace, M = B / 5", 450)),
        (("discs+swap", 450), ("trace+swap", 450)),
    ):
        lines.append(
            f"- {ours[0]} at {ours[1]} against {theirs[0]} at {theirs[1]}: {versus(means[ours], means[theirs])}"
        )
    return [*lines, ""]


def smallest_line(records: list[dict]) -> list[str]:
    """What no k to guess gives."""
    rows = [r for r in records if r["method"] == "smallest" and r["split"] == "correct"]
    enough = [r for r in rows if r["at"]["450"] >= 0.9 * r["full"] - 1e-6]
    return [
        f"`smallest` (90 % of the full score): a sufficient mask on {len(enough)} of {len(rows)} {samples(records)}, "
        f"{np.mean([r['k'] for r in enough]):.1f} regions and {np.mean([r['area'] for r in enough]):.0%} of the area "
        f"in the mean, {np.mean([r['mec'] for r in rows]):.0f} forwards.",
        "",
    ]


def ordering_table(records: list[dict]) -> list[str]:
    """Insertion and deletion of every recipe, and what carries over to other fills."""
    methods = defaultdict(list)
    for record in records:
        if record["split"] == "orderings":
            methods[record["method"]].append(record)
    if not methods:
        return []
    keys = {"insertion_auc": "Ins", "deletion_auc": "Del", "mec": "MEC"}
    keys |= {f"{key}, {fill}": f"{short}, {fill}" for fill in FILLS for key, short in list(keys.items())[:2]}
    lines = [f"## {records[0]['model']}: orderings of {len(methods['greedy'])} correctly classified photos", ""]
    lines += ["| method | " + " | ".join(keys.values()) + " |", "|---" * (len(keys) + 1) + "|"]
    for method, rows in methods.items():
        cells = [f"{np.mean([r[key] for r in rows]):.0f}" if key == "mec" else f"{np.mean([r[key] for r in rows]):.3f}"
                 for key in keys]  # fmt: skip
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    lines.append("")
    for method in [name for name in methods if name.startswith("discs+swap")]:
        for other, key in RIVALS:
            ours, theirs = (by_photo(methods[m], lambda row, k=key: row[k]) for m in (method, other))
            lines.append(f"- {keys[key]}, {method} against {other}: {versus(ours, theirs)}")
    return [*lines, ""]


def table(options: argparse.Namespace) -> None:
    """The records as Markdown."""
    records = []
    for file in options.records:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt") as lines_of:
            records += [json.loads(line) for line in lines_of]
    kinds = "Masks and orderings" if any(record["split"] == "orderings" for record in records) else "Masks"
    lines = [f"# {kinds} beyond the paper's", "", INTRODUCTION, ""]
    for model in sorted({record["model"] for record in records}):
        own = [record for record in records if record["model"] == model]
        lines += [f"## {model}: mean score of the mask of {K} regions by forwards", ""]
        for split in ("correct", "cause", "repair"):
            if any(record["split"] == split for record in own):
                lines += mask_tables(own, split)
        lines += smallest_line(own) + ordering_table(own)
    options.out.write_text("\n".join(lines))
    print("\n".join(lines))


INTRODUCTION = """`python benchmarks/beyond.py`; what it measures and on which photos stands at its head. The split
correct has five seeds for trace, trace+swap and discs+swap, elsewhere there is one. Intervals are 95 % bootstrap
intervals over the photos. MEC, "blur" and "mean fill" are of the largest budget of a row: the distinct images it asked
for, and the score of its mask on other fills than the one it was searched with. Greedy prefixes stand in the columns
next to what they cost: 484 forwards (sufficiency) and 968 (suff + necc)."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--photos", type=Path, default=Path("../shared/data/imagenet"))
    measuring.add_argument("--model", default="efficientnet-lite0")
    measuring.add_argument("--weights", type=Path, help="of the model resnet50")
    measuring.add_argument("--part", default="0/1")
    measuring.add_argument("--count", type=int, default=72, help="right answers")
    measuring.add_argument("--wrong", type=int, default=24, help="wrong answers, explained twice")
    measuring.add_argument("--orderings", type=int, default=64, help="photos of the orderings")
    measuring.add_argument("--masks", action=argparse.BooleanOptionalAction, default=True, help="beside the orderings")
    measuring.add_argument("--seeds", type=int, default=5)
    measuring.add_argument("--device", default="cpu")
    measuring.add_argument("--out", type=Path, required=True)
    measuring.set_defaults(run=measure)
    tabling = commands.add_parser("table")
    tabling.add_argument("records", nargs="+", type=Path)
    tabling.add_argument("--out", type=Path, required=True)
    tabling.set_defaults(run=table)
    options = parser.parse_args()
    options.run(options)
