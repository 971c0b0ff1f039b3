"""Lists of what to explain: one JSON object a line with image and, optionally, target, id, question, mask and plain."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from whymask.arrays import Bools
from whymask.errors import WhymaskError, unknown
from whymask.utils.digest import digest
from whymask.utils.files import atomic


@dataclass(frozen=True)
class Sample:
    """An image and the answer to explain on it."""

    id: str
    image: str  # a path, or another name images have ("scene:12")
    target: int | str | None = None  # the model's own answer where it is None
    question: str | None = None
    mask: str | None = None  # a picture of the same size: what is not black is the object
    plain: str | None = None  # the question as figures show it, where a prompt was put around it

    def digest(self) -> str | None:
        """A hash of the content: image, target, question and mask; None if one of the files is missing."""
        try:
            files = [_content(name) for name in (self.image, self.mask) if name is not None]
        except (OSError, ValueError):  # a name that no file can have is a ValueError
            return None
        return digest([files[0], self.target, self.question, *files[1:]])


FIELDS = tuple(field.name for field in fields(Sample))


def manifest_of(run: Path, model: str, split: str) -> Path:
    """Where a run keeps the list of what is explained of a split by a model."""
    name = re.sub(r"[^\w.+-]+", "_", f"{model}-{split}")
    return run / "manifests" / f"{name}.jsonl"


def read_manifest(path: str | Path) -> list[Sample]:
    """The samples of a manifest; images are relative to its folder, an id that is left out is the image's name."""
    file = Path(path)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise WhymaskError(f"the manifest {file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise WhymaskError(f"the manifest {file} is not a text file.") from None
    samples = [_sample(line, f"line {n} of {file}", file.parent) for n, line in enumerate(lines, 1) if line.strip()]
    if not samples:
        raise WhymaskError(f"the manifest {file} is empty.")
    return with_unique_ids(samples, file)


def with_unique_ids(samples: list[Sample], source: Path) -> list[Sample]:
    """The samples; two of them with one id raise an error."""
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise WhymaskError(f"{source} has two samples with the id {sample.id!r}; give each its own id.")
        seen.add(sample.id)
    return samples


def write_manifest(path: Path, samples: Iterable[Sample]) -> Path:
    """A file that `read_manifest` reads, with images relative to its folder."""
    lines = []
    for sample in samples:
        entry = {name: value for name, value in vars(sample).items() if value is not None}
        for name in entry.keys() & {"image", "mask"}:
            entry[name] = _placed(entry[name], path.parent)
        lines.append(json.dumps(entry) + "\n")
    with atomic(path) as file:
        file.write("".join(lines).encode())
    return path


def write_mask(path: Path, mask: Bools) -> str:
    """The name of a file with a mask (H, W), for a sample."""
    with atomic(path) as file:
        Image.fromarray(mask).save(file, format="PNG")
    return str(path)


def draw(samples: Sequence[Sample], count: int, seed: int = 0) -> list[Sample]:
    """So many of the samples, drawn at random, in their own order."""
    chosen = np.random.default_rng(seed).permutation(len(samples))[:count]
    return [samples[i] for i in sorted(chosen.tolist())]


def _sample(line: str, where: str, folder: Path) -> Sample:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise WhymaskError(f"{where} is not JSON; a manifest has one object a line.") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("image"), str):
        raise WhymaskError(f"{where} names no 'image'.")
    for name in entry:
        if name not in FIELDS:
            raise unknown(f"field in {where}:", name, FIELDS)
    for name, kinds, wanted in (
        ("target", int | str, "text or a number"),
        ("question", str, "text"),
        ("mask", str, "text"),
        ("plain", str, "text"),
        ("id", int | str, "text"),
    ):
        value: Any = entry.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise WhymaskError(f"{where} has the {name} {value!r}; it must be {wanted}.")
    image = entry["image"]
    return Sample(
        str(entry.get("id", Path(image).stem)),
        image if _named(image) else str(folder / image),
        entry.get("target"),
        entry.get("question"),
        str(folder / entry["mask"]) if entry.get("mask") else None,
        entry.get("plain"),
    )


def _content(image: str) -> str:
    return hashlib.sha256(image.encode() if _named(image) else Path(image).read_bytes()).hexdigest()


def _placed(image: str, folder: Path) -> str:
    """The name of an image in a file in this folder."""
    return image if _named(image) else Path(relpath(image, folder)).as_posix()


def _named(image: str) -> bool:
    """Whether the image is not a file but has a name such as scene:12 (a drive letter is part of a path)."""
    return re.match(r"[a-z]{2,}:", image) is not None
