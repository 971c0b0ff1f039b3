"""Do the words of a sentence point at what they name? Sentences of tiny-caption about scenes whose truth is known.

Every word that the model says is checked against the scene (right, misread, unsupported: `images/sentences.py`), its
mask against the true pixels of what it refers to, and "the image does not support this word" against interventions:
the scene is drawn again without the object that the word refers to, or with another noun, colour, count or place.

Run: python benchmarks/words.py run OUT.jsonl --scenes 200
     python benchmarks/words.py table OUT.jsonl
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.ndimage import distance_transform_edt
from scipy.stats import rankdata

import whymask
from whymask.arrays import Bools
from whymask.explainer.binding import bind
from whymask.images.described import COLOURS, NOUNS, Plan, described, draw
from whymask.images.sentences import QUESTION, Judged, judge, read
from whymask.models.base import Model

TOLERANCE = 7  # pixels of 112: the 15 of the pointing game at 224
LOST = 0.5  # share of its probability that a word must lose for the scene's change to matter


@dataclass(frozen=True)
class Row:
    """A word of a sentence about a scene."""

    scene: int
    text: str
    kind: str  # noun, colour, count or relation
    verdict: str  # right, misread or unsupported
    role: str  # by `explain_words`
    full: float  # its probability on the scene
    blank: float  # and on the fill
    lost: float  # the largest share of `full` that any change of what it refers to takes away
    mask: str = ""  # of its evidence, as rows of bits in hex; empty where it has none
    truth: str = ""  # of what it refers to

    @property
    def unsupported(self) -> float:
        """How little of its probability is owed to the image: 1 for a word that the blank image makes as likely."""
        return min(1.0, self.blank / self.full) if self.full else 1.0


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
    target = f"{text[:start]}[[{text[start:end]}]]{text[end:]}"
    scores = []
    for plan in plans:
        bound = bind(model, draw(plan).pixels, target=target, question=QUESTION)
        scores += model.respond(bound.inputs[None], [bound]).score.tolist()
    return scores


def run(out: Path, model: Model, scenes: Iterable[int], **options) -> None:
    """Explain every word that a model says of test scenes; a JSON line per content word is appended to the file."""
    for number in scenes:
        scene = described("test", number)
        found = whymask.explain_words(scene.pixels, model, question=QUESTION, **options)
        try:
            judged = judge(read(found.text), scene.plan)
        except whymask.WhymaskError:
            continue  # no sentence of the grammar
        rows = []
        for word in found.words:
            said = referred(word.start, word.end, judged)
            if said is None or word.role == "function":
                continue
            changed = interventions(said, scene.plan)
            after = probabilities(model, changed, found.text, word.start, word.end)
            lost = 1 - min(after) / word.full_score if word.full_score else 0.0
            rows.append(
                Row(
                    number, word.text, said.word.kind, said.verdict, word.role, word.full_score, word.blank_score, lost,
                    pack(word.mask.mask) if word.mask else "", pack(scene.mask(said.groups)),
                )
            )  # fmt: skip
        with out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(vars(row)) + "\n" for row in rows)


def pack(mask: Bools) -> str:
    """A square mask as text."""
    return np.packbits(mask).tobytes().hex()


def unpack(text: str) -> Bools:
    """The mask of a text."""
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))
    side = int(len(bits) ** 0.5)
    return bits[: side * side].reshape(side, side).astype(bool)


def table(rows: Sequence[Row]) -> str:
    """Markdown: where masks point, by verdict and kind of word; and how often missing support is recognised."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.verdict, row.kind].append(row)
    head = "| words | kind | n | with a mask | points at it | chance | IoU | on it | image decides | recognised |"
    lines, nan = [head, "|---|---|" + 8 * "---:|"], [float("nan")]
    for verdict, kind in product(("right", "misread", "unsupported"), ("noun", "colour", "count", "relation")):
        some = groups[verdict, kind]
        if not some:
            continue
        pairs = [(unpack(row.mask), unpack(row.truth)) for row in some if row.mask and int(row.truth, 16)]
        hit, chance = pointing(*zip(*pairs, strict=True)) if pairs else 2 * nan
        overlaps = [np.mean([measure(*pair) for pair in pairs] or nan) for measure in (iou, on_object)]
        moved = np.mean([row.lost >= LOST for row in some])
        recognised = np.mean([(row.role != "prior") == (row.lost >= LOST) for row in some])
        lines.append(
            f"| {verdict} | {kind} | {len(some)} | {sum(bool(row.mask) for row in some)} | {hit:.1%} | {chance:.1%} | "
            f"{overlaps[0]:.2f} | {overlaps[1]:.2f} | {moved:.1%} | {recognised:.1%} |"
        )
    value = auc([row.unsupported for row in rows], [row.lost < LOST for row in rows])
    still = sum(row.lost < LOST for row in rows)
    return "\n".join([*lines, "", f"Of {len(rows)} words, {still} are not moved by any change; AUC {value:.3f}."])


def main() -> None:
    """As the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="tiny-caption")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scenes", type=int, default=200)
    parser.add_argument("--options", default="{}", help="of explain_words, as JSON")
    options = parser.parse_args()
    if options.what == "run":
        model = whymask.load(options.model, device=options.device)
        run(options.file, model, range(options.scenes), **json.loads(options.options))
    else:
        lines = options.file.read_text(encoding="utf-8").splitlines()
        print(table([Row(**json.loads(line)) for line in lines]))


if __name__ == "__main__":
    main()
