"""Do the words of a sentence point at what they name? Sentences of tiny-caption about scenes whose truth is known.

Every word that the model says is checked against the scene (right, misread, unsupported: `images/sentences.py`), its
mask against the true pixels of what it refers to, and "the image does not support this word" against interventions:
the scene is drawn again without the object that the word refers to, or with another noun, colour, count or place.
The model says nothing that is not there. So its sentence is also explained on the scene redrawn without one of the
groups, whose words the image then does not support.

Scenes 500 to 699 are reported; 1000 and later are for choosing options. The model saw neither while it was trained.

Run: python benchmarks/words.py run OUT.jsonl.gz --scenes 200
     python benchmarks/words.py table OUT.jsonl.gz
     python benchmarks/words.py fills --scenes 30 --first 1000
"""

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.stats import rankdata

import whymask
from whymask.arrays import Bools
from whymask.explainer.binding import bind
from whymask.explainer.case import Case
from whymask.explainer.words import Span, marked
from whymask.images.described import COLOURS, NOUNS, Described, Plan, described, draw
from whymask.images.sentences import QUESTION, Judged, judge, read, sentence
from whymask.models.base import Model

TOLERANCE = 7  # pixels of 112: the 15 of the pointing game at 224
FALLS = (0.1, 0.25, 0.5)  # by how much a probability must fall for the scene's change to matter
SEEN = FALLS[1]
FILLS = ["mean", "blur"]  # on scenes 1000 to 1029 objects keep 0.95 of their nouns' scores on these, 0.10 on noise
Shown: TypeAlias = Literal["scene", "without a group"]
KINDS, VERDICTS = ("noun", "colour", "count", "relation"), ("right", "misread", "unsupported")
ROLES = ("content", "prior", "unlikely")


@dataclass(frozen=True)
class Row:
    """A word of a sentence about a scene."""

    scene: int
    shown: Shown
    text: str
    kind: str  # noun, colour, count or relation
    verdict: str  # right, misread or unsupported
    role: str  # by `explain_words`
    full: float  # its probability on the scene
    blank: float  # and on the fill
    lost: float  # the largest share of `full` that any change of what it refers to takes away
    mask: str = ""  # of its evidence, as rows of bits in hex; empty where it has none
    truth: str = ""  # of what it refers to
    code: str = ""  # of the mask's own verdict

    @property
    def unsupported(self) -> float:
        """How little the image adds to its probability, as `Word.support` has it."""
        return 1 - max(0.0, self.full - self.blank)

    @property
    def fall(self) -> float:
        """How much of its probability depends on what it refers to."""
        return self.lost * self.full


def point(mask: Bools) -> tuple[int, int]:
    """The pixel (row, column) of a mask (H, W) that is furthest from its outside; the first of several.

    >>> point(np.pad(np.ones((3, 3), dtype=bool), 1))
    (2, 2)
    """
    deep = distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(np.argmax(deep)), mask.shape)
    return int(row), int(column)


def near(truth: Bools, tolerance: float = TOLERANCE) -> Bools:
    """Pixels (H, W) that are at most `tolerance` pixels away from an object."""
    return np.asarray(truth.any() & (distance_transform_edt(~truth) <= tolerance))


def pointing(masks: Sequence[Bools], truths: Sequence[Bools], tolerance: float = TOLERANCE) -> tuple[float, float]:
    """How often masks point at their objects, and how often at those of other words: chance, as measured."""
    areas = [near(truth, tolerance) for truth in truths]
    points = [point(mask) for mask in masks]
    hit = np.array([[bool(area[at]) for area in areas] for at in points])  # (masks, objects)
    others = hit[~np.eye(len(hit), dtype=bool)]
    return float(np.diag(hit).mean()), float(others.mean()) if len(others) else float("nan")


def iou(mask: Bools, truth: Bools) -> float:
    """Intersection over union."""
    return float((mask & truth).sum() / max(1, (mask | truth).sum()))


def on_object(mask: Bools, truth: Bools) -> float:
    """The share of a mask that lies on the object."""
    return float((mask & truth).sum() / max(1, mask.sum()))


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """The chance that a random positive has a higher score than a random negative; ties count half.

    >>> auc([0.1, 0.4, 0.35, 0.8], [False, False, True, True])
    0.75
    """
    positive = np.asarray(labels, dtype=bool)
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        return float("nan")
    return float((rankdata(scores)[positive].sum() - n * (n + 1) / 2) / (n * m))


def referred(start: int, end: int, judged: Iterable[Judged]) -> Judged | None:
    """The word of the grammar that the characters of an explained word lie in: "left" is part of "left of"."""
    return next((one for one in judged if one.word.start <= start and end <= one.word.end), None)


def interventions(judged: Judged, plan: Plan) -> list[Plan]:
    """Scenes that differ in what a word refers to: without it, and with another noun, colour, count or place.

    A word that refers to nothing can only be about one of the groups there are: each is left out in turn.
    """
    groups = judged.groups or tuple(range(len(plan.groups)))
    changed = [plan.without(i) for i in groups]
    if not judged.groups:
        return changed
    if judged.word.kind == "relation":
        return [*changed, plan.swapped(*groups)] if len(groups) == 2 else changed
    (i,) = groups
    group, shown = plan.groups[i], {group.noun for group in plan.groups}
    others: dict[str, Iterable[object]] = {
        "noun": (noun for noun in NOUNS if noun not in shown),
        "colour": (colour for colour in COLOURS if colour != group.colour),
        "count": (count for count in (1, 2, 3) if count != group.count),
    }
    return [*changed, *(plan.changed(i, **{judged.word.kind: other}) for other in others[judged.word.kind])]


def probabilities(model: Model, plans: Sequence[Plan], text: str, start: int, end: int) -> list[float]:
    """How likely the characters of a sentence are, after what stands before them, on each scene."""
    target = marked(text, Span(start, end, False))
    scores = []
    for plan in plans:
        bound = bind(model, draw(plan).pixels, target=target, question=QUESTION)
        scores += model.respond(bound.inputs[None], [bound]).score.tolist()
    return scores


def run(out: Path, model: Model, scenes: Iterable[int], **options) -> None:
    """Explain what a model says of test scenes; a JSON line per content word is appended to the file."""
    for number in scenes:
        scene = described("test", number)
        found = whymask.explain_words(scene.pixels, model, question=QUESTION, **options)
        rows = rows_of(found, scene, model, "scene")
        if len(scene.plan.groups) > 1:
            fewer = draw(scene.plan.without(number % len(scene.plan.groups)))
            # Roles and scores are those of the whole and of the blank image: no search is needed.
            told = {"text": found.text, "question": QUESTION, "budget": 0}
            found = whymask.explain_words(fewer.pixels, model, **options | told)
            rows += rows_of(found, fewer, model, "without a group")
        with opened(out, "a") as file:
            file.writelines(json.dumps(vars(row)) + "\n" for row in rows)


def rows_of(found: whymask.EvidenceMasks, scene: Described, model: Model, shown: Shown) -> list[Row]:
    """The content words of a sentence about a scene; none where it is no sentence of the grammar."""
    assert found.text is not None
    try:
        judged = judge(read(found.text), scene.plan)
    except whymask.WhymaskError:
        return []
    rows = []
    for word in found.words:
        said = referred(word.start, word.end, judged)
        if said is None or word.role == "function":
            continue
        changed = interventions(said, scene.plan)
        after = probabilities(model, changed, found.text, word.start, word.end)
        lost = 1 - min(after) / word.full_score if word.full_score else 0.0
        mask = word.mask if shown == "scene" else None
        rows.append(
            Row(
                scene.plan.number, shown, word.text, said.word.kind, said.verdict, word.role, word.full_score,
                word.blank_score, lost, pack(mask.mask) if mask else "", pack(scene.mask(said.groups)),
                mask.verdict.code if mask else "",
            )
        )  # fmt: skip
    return rows


def fills(model: Model, scenes: Iterable[int]) -> dict[str, float]:
    """The mean score that the true objects alone, all regions they touch, keep of their nouns, by fill."""
    scores: dict[str, list[float]] = defaultdict(list)
    for number in scenes:
        scene = described("test", number)
        text = sentence(scene.plan)
        for judged in judge(read(text), scene.plan):
            if judged.word.kind != "noun":
                continue
            target = marked(text, Span(judged.word.start, judged.word.end, False))
            for fill in ("mean", "blur", "dark_defocus", "black", "noise"):
                case = Case.of(scene.pixels, model, target=target, question=QUESTION, fill=fill)
                touched = np.bincount(case.partition.labels[scene.mask(judged.groups)], minlength=case.partition.n) > 0
                ((score,),), _ = case.ask(touched[None])
                scores[fill].append(score)
    return {fill: float(np.mean(some)) for fill, some in scores.items()}


def opened(file: Path, mode: str):
    """A text file, compressed where its name says so."""
    return gzip.open(file, f"{mode}t") if file.suffix == ".gz" else file.open(mode, encoding="utf-8")


def pack(mask: Bools) -> str:
    """A square mask as text."""
    return np.packbits(mask).tobytes().hex()


def unpack(text: str) -> Bools:
    """The mask of a text."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
    side = int(len(bits) ** 0.5)
    return bits[: side * side].reshape(side, side).astype(bool)


def table(rows: Sequence[Row]) -> str:
    """Markdown: where the masks of a model's own words point, by verdict and kind of word."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.shown == "scene":
            groups[row.verdict, row.kind].append(row)
    head = "| words | kind | n | with a mask | hits | by chance | hits of masks that are enough | IoU | on the object |"
    lines = [head, "|---|---|" + 7 * "---:|"]
    for verdict, kind in product(VERDICTS, KINDS):
        some = [row for row in groups[verdict, kind] if row.mask and int(row.truth, 16)]
        if not some:
            continue
        pairs = [(unpack(row.mask), unpack(row.truth)) for row in some]
        hit, chance = pointing(*zip(*pairs, strict=True))
        enough = [bool(near(truth)[point(mask)]) for row, (mask, truth) in zip(some, pairs, strict=True)
                  if row.code == "enough"]  # fmt: skip
        overlaps = " | ".join(f"{np.mean([measure(*pair) for pair in pairs]):.2f}" for measure in (iou, on_object))
        of_enough = f"{np.mean(enough):.1%} of {len(enough)}" if enough else ""
        lines.append(
            f"| {verdict} | {kind} | {len(groups[verdict, kind])} | {len(some)} | {hit:.1%} | {chance:.1%} | "
            f"{of_enough} | {overlaps} |"
        )
    return "\n".join(lines)


def support_table(rows: Sequence[Row]) -> str:
    """Markdown: whether little support by the image means that changing the scene does not matter."""
    sound = [row for row in rows if row.verdict != "misread"]
    likely = [row for row in sound if row.role != "unlikely"]
    lines = ["| words | n | smallest fall | words that no change moves | AUC |", "|---|" + 4 * "---:|"]
    for (name, some), least in product((("all", sound), ("that the model finds likely", likely)), FALLS):
        still = [row.fall < least for row in some]
        value = auc([row.unsupported for row in some], still)
        lines.append(f"| {name} | {len(some)} | {least} | {sum(still)} | {value:.3f} |")
    return "\n".join(lines)


def roles_table(rows: Sequence[Row]) -> str:
    """Markdown: what is said of words, by whether the scene shows what they are about."""
    lines = ["| scene | words | n | content | prior | unlikely | moved by a change |", "|---|---|" + 5 * "---:|"]
    for shown, verdict in product(get_args(Shown), VERDICTS):
        some = [row for row in rows if (row.shown, row.verdict) == (shown, verdict)]
        if some:
            counts = " | ".join(f"{np.mean([row.role == role for row in some]):.1%}" for role in ROLES)
            moved = np.mean([row.fall >= SEEN for row in some])
            lines.append(f"| {shown} | {verdict} | {len(some)} | {counts} | {moved:.1%} |")
    return "\n".join(lines)


def records(file: Path) -> list[Row]:
    """The words of a file that `run` wrote."""
    with opened(file, "r") as lines:
        return [Row(**json.loads(line)) for line in lines]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table", "fills"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--model", default="tiny-caption")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--options", default=json.dumps({"fill": FILLS}), help="of explain_words, as JSON")
    options = parser.parse_args()
    scenes = range(options.first, options.first + options.scenes)
    if options.what == "run":
        run(options.file, whymask.load(options.model, device=options.device), scenes, **json.loads(options.options))
    elif options.what == "fills":
        print(fills(whymask.load(options.model, device=options.device), scenes))
    else:
        rows = records(options.file)
        print(table(rows), support_table(rows), roles_table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
