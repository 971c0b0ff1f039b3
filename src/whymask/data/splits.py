"""The paper's Correct, Cause and Repair splits of a labelled set, by what a model answers.

Correct: photos the model classifies right. Cause: photos it gets wrong, its wrong answer explained. Repair: the same
photos, the truth explained.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from whymask.bench.records import digest
from whymask.data.manifest import Sample
from whymask.errors import WhymaskError
from whymask.images.imaging import Resize, load_image
from whymask.images.masking import stack
from whymask.models.base import Model
from whymask.utils.files import atomic

CORRECT, WRONG = 5000, 2000
NAMES = ("correct", "cause", "repair")
ASKED = ("pope", "repope")
SOURCES = {"photos": NAMES, "questions": ASKED, "objects": ("objects",)}  # what splits are made from


@dataclass(frozen=True)
class Splits:
    """The same photos in Cause and Repair, with different targets."""

    correct: list[Sample]
    cause: list[Sample]
    repair: list[Sample]

    def __getitem__(self, name: str) -> list[Sample]:
        return {"correct": self.correct, "cause": self.cause, "repair": self.repair}[name]


def build(
    samples: Sequence[Sample],
    model: Model,
    cache: Path,
    *,
    correct: int = CORRECT,
    wrong: int = WRONG,
    seed: int = 0,
    resize: Resize = "own",
) -> Splits:
    """Go through the samples in a seeded order until there are enough right and enough wrong answers.

    A set that runs out gives smaller splits. Photos that cannot be read are in none; a warning names the first of
    them, and they are tried again the next time.

    Args:
        samples: photos with their true classes (see `imagenet.labelled`).
        model: a classifier.
        cache: folder that keeps what the model answered: a second call reads no photo.
        correct: photos of Correct.
        wrong: photos of Cause, and of Repair.
        seed: of the order.
        resize: as for `explain`.
    """
    about = [model.name, model.fingerprint, sorted(model.settings.items()), resize, correct, wrong, seed]
    known = [[sample.id, sample.image, sample.target] for sample in samples]
    unread: list[WhymaskError] = []
    answers = remembered(
        cache,
        [about, known],
        lambda: _answers(samples, model, correct, wrong, seed, resize, unread),
        keep=lambda: not unread,
    )
    if unread and not answers:
        raise unread[0]
    if unread:
        warnings.warn(f"{len(unread)} photos are in no split: {' '.join(map(str, unread[:10]))}", stacklevel=2)
    right = [samples[i] for i, answer in answers if answer == samples[i].target]
    mistaken = [(samples[i], answer) for i, answer in answers if answer != samples[i].target]
    return Splits(
        right[:correct],
        [replace(sample, target=answer) for sample, answer in mistaken[:wrong]],
        [sample for sample, _ in mistaken[:wrong]],
    )


def remembered(folder: Path, about: Any, find: Callable[[], Any], keep: Callable[[], bool] = lambda: True) -> Any:
    """Pairs of what a model was asked and answered, kept (if `keep`) in a folder under a hash of all it depends on."""
    file = folder / f"{digest(about)}.json"
    if file.is_file():
        with suppress(OSError, ValueError, RecursionError):  # a damaged file is made again
            found = json.loads(file.read_bytes())
            if isinstance(found, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in found):
                return found
    found = find()
    if keep():
        with atomic(file) as out:
            out.write(json.dumps(found).encode())
    return found


def draw(samples: Sequence[Sample], count: int, seed: int = 0) -> list[Sample]:
    """So many of the samples, drawn at random, in their own order."""
    chosen = np.random.default_rng(seed).permutation(len(samples))[:count]
    return [samples[i] for i in sorted(chosen.tolist())]


def _answers(
    samples: Sequence[Sample],
    model: Model,
    correct: int,
    wrong: int,
    seed: int,
    resize: Resize,
    unread: list[WhymaskError],
) -> list[tuple[int, int]]:
    """(number of the sample, the model's answer), as far as they are needed; `unread` takes what could not be read."""
    order = iter(np.random.default_rng(seed).permutation(len(samples)).tolist())
    answers: list[tuple[int, int]] = []
    right = mistaken = 0
    while (right < correct or mistaken < wrong) and (some := list(islice(order, model.batch_size))):
        photos: dict[int, Image.Image] = {}
        for i in some:
            try:
                photos[i] = load_image(samples[i].image)
            except WhymaskError as error:
                unread.append(error)
        targets = [samples[i].target for i in photos]
        for i, answer in zip(photos, _predict([*photos.values()], targets, model, resize), strict=True):
            answers.append((i, answer))
            right += answer == samples[i].target
            mistaken += answer != samples[i].target
    return answers


def _predict(photos: list[Image.Image], targets: list[Any], model: Model, resize: Resize) -> list[int]:
    """The classes (B,) a model prefers, in one batch."""
    if not photos:
        return []
    bounds = [model.bind(photo, target=target, resize=resize) for photo, target in zip(photos, targets, strict=True)]
    top = model.respond(stack([bound.inputs[None] for bound in bounds]), bounds).top
    if top is None:
        raise WhymaskError(f"{model.name} does not name its answers, so there are no right and wrong ones.")
    return [int(answer) for answer in top]
