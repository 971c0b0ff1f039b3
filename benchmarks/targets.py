"""What one search for several answers keeps of what each answer's own search keeps.

On photos the answers are the likeliest classes of a classifier, on scenes the words that tiny-caption says of them. For
each, the score of the mask from the joint search is divided by that of a search of its own, with the budget that such a
search usually has.

Run: python benchmarks/targets.py run OUT.jsonl --photos 100 --top 5
     python benchmarks/targets.py run OUT.jsonl --model resnet50 --photos 20
     python benchmarks/targets.py run OUT.jsonl --scenes 100
     python benchmarks/targets.py table OUT.jsonl

A file that has rows already is completed: 25 photos are among the 50 that a later command asks for.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import whymask
from whymask.explainer.explainer import Explainer
from whymask.images.described import described
from whymask.images.sentences import QUESTION
from whymask.models.base import Model

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
WEIGHTS = DATA / "weights" / "resnet50_keras_imagenet_fp16.safetensors"
FIRST = 700  # scene: those before are for benchmarks/words.py


@dataclass(frozen=True)
class Row:
    """The masks of one image."""

    image: str
    model: str
    setting: str
    forwards: int  # of the joint search
    alone: tuple[int, ...]  # of each answer's own
    scores: tuple[float, ...]  # of the masks of the joint search
    own: tuple[float, ...]  # of those of the searches alone
    regions: tuple[int, ...]
    own_regions: tuple[int, ...]


def of_classes(photo: Path, explainer: Explainer, top: int) -> Row:
    """Explain the likeliest classes of a photo together, and each alone."""
    found = explainer.answers(photo, top=top)
    alone = [explainer.explain(photo, target=mask.target.index) for mask in found]
    return compared(photo.name, f"{top} classes", explainer, found, alone)


def of_words(number: int, explainer: Explainer) -> Row:
    """Explain the words that a model says of a scene together, and each alone."""
    scene = described("test", number)
    found = explainer.words(scene.pixels, question=QUESTION)
    alone = [explainer.explain(scene.pixels, target=mask.target.label, question=QUESTION) for mask in found]
    return compared(f"described:{number}", "words", explainer, found, alone)


def setting(answers: str, explainer: Explainer) -> str:
    """What was searched for, and how."""
    return f"{answers}, k={explainer.settings.k}, {explainer.settings.shown}"


def compared(
    image: str, answers: str, explainer: Explainer, found: whymask.EvidenceMasks, alone: list[whymask.EvidenceMask]
) -> Row:
    """What both have found."""
    return Row(
        image, explainer.model.name, setting(answers, explainer), found.ledger.mec,
        tuple(one.ledger.mec for one in alone), tuple(mask.score for mask in found), tuple(one.score for one in alone),
        tuple(len(mask.regions) for mask in found), tuple(len(one.regions) for one in alone),
    )  # fmt: skip


def halves(folder: Path = DATA / "imagenet") -> tuple[list[Path], list[Path]]:
    """The photos for tuning, and those for reporting."""
    files = sorted(folder.glob("*.jpg"))
    return files[::2], files[1::2]


def spread(files: Sequence[Path], count: int) -> list[Path]:
    """Some of the files, evenly spread: classes stand beside those that are like them."""
    return [files[place * len(files) // count] for place in range(count)] if count < len(files) else [*files]


def read(file: Path) -> list[Row]:
    """The rows of a file that was written by `run`."""
    return [Row(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line per model and setting."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in rows:
        groups[one.model, one.setting].append(one)
    head = (
        "| model | answers | images | answers per image | forwards, joint | forwards, one alone | ratio | "
        "score kept, mean | mean, capped at 1 | 10th percentile | sum of scores |"
    )
    return "\n".join([head, "|---|---|" + 9 * "---:|", *(_line(*name, some) for name, some in groups.items())])


def _line(model: str, setting: str, rows: Sequence[Row]) -> str:
    """Forwards in the mean over images, scores over answers."""
    rows = [one for one in rows if one.scores]
    together, alone = (np.concatenate([getattr(one, name) for one in rows]) for name in ("scores", "own"))
    shares = together / np.maximum(alone, 1e-6)
    forwards, one = np.mean([one.forwards for one in rows]), np.mean(np.concatenate([one.alone for one in rows]))
    kept = (shares.mean(), shares.clip(max=1).mean(), np.percentile(shares, 10), together.sum() / alone.sum())
    return (
        f"| {model} | {setting} | {len(rows)} | {len(shares) / len(rows):.1f} | {forwards:.0f} | {one:.0f} | "
        f"{forwards / one:.2f} | {' | '.join(f'{share:.3f}' for share in kept)} |"
    )


def loaded(name: str, device: str) -> Model:
    """A model by its name; "resnet50" is that of configs/resnet50.py."""
    if name == "resnet50":
        return whymask.load(f"{ROOT}/configs/resnet50.py:load", weights=WEIGHTS, device=device)
    return whymask.load(name, device=device)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", help="efficientnet-lite0; of scenes tiny-caption")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--scenes", type=int, help="number of scenes to use in place of photos")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--tuning", action="store_true", help="photos of the half for tuning, scenes from 1000 on")
    parser.add_argument("--settings", default='{"k": 8, "fill": "black"}', help="of whymask.explain, as JSON")
    options = parser.parse_args()
    if options.what == "table":
        print(table(read(options.file)))
        return
    model = loaded(options.model or ("tiny-caption" if options.scenes else "efficientnet-lite0"), options.device)
    explainer = Explainer(model, **json.loads(options.settings))
    answers = "words" if options.scenes else f"{options.top} classes"
    if options.scenes:
        first = 1000 if options.tuning else FIRST
        todo = {f"described:{i}": partial(of_words, i, explainer) for i in range(first, first + options.scenes)}
    else:
        photos = spread(halves()[0 if options.tuning else 1], options.photos)
        todo = {photo.name: partial(of_classes, photo, explainer, options.top) for photo in photos}
    done = {(row.image, row.model, row.setting) for row in read(options.file)} if options.file.exists() else set()
    for image, explained in todo.items():
        if (image, model.name, setting(answers, explainer)) in done:
            continue
        row = explained()
        with options.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(vars(row)) + "\n")


if __name__ == "__main__":
    main()
