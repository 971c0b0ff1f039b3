"""What a client may ask for: everything is checked here, before a job exists."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from PIL import Image

from whymask.errors import WhymaskError, unknown
from whymask.explainer.settings import Settings
from whymask.images.imaging import load_image
from whymask.images.masking import FILLS
from whymask.methods import METHOD, OF_SIZE, Recipe

MAX_BYTES = 10_000_000
MAX_PIXELS = 25_000_000
MAX_REGIONS = 400
FORMATS = ("JPEG", "PNG", "WEBP")
FIELDS = ("model", "method", "k", "target", "question", "regions", "fill", "resize", "seed", "words")
RESIZES = ("own", "squash")
CHOICES = (*FILLS, "several")  # of fills


@dataclass(frozen=True)
class Request:
    """A checked request: names are of known things, no value is a path."""

    model: str
    target: str | None
    question: str | None
    words: bool  # whether each word of the answer is explained
    settings: Settings

    @classmethod
    def of(cls, given: Mapping[str, str], models: Collection[str]) -> Request:
        """The request of a client; anything wrong with it raises an error of one line."""
        for name, value in given.items():
            if name not in FIELDS:
                raise unknown("setting", name[:80], FIELDS)
            if len(value) > 1000:
                raise WhymaskError(f"{name} is longer than 1000 characters.")
        given = {name: value.strip() for name, value in given.items() if value.strip()}
        words = _one_of("words", given.get("words", "no"), ("yes", "no")) == "yes"
        if words and given.keys() & {"method", "target"}:
            raise WhymaskError(
                "the words of the model's own answer are searched together: leave method and target out."
            )
        method = Recipe(given.get("method", METHOD)).name
        if method == METHOD:
            method = OF_SIZE if "k" in given else METHOD  # the default, by whether a size is given
        regions, count = _regions(given.get("regions", "slico:64"))
        return cls(
            model=_one_of("model", given.get("model", next(iter(models))), models),
            target=given.get("target"),
            question=given.get("question"),
            words=words,
            settings=Settings(
                method=None if words else method,
                k=_size(given["k"], method, count) if "k" in given else None,
                regions=regions,
                fill=_one_of("fill", given["fill"], CHOICES) if "fill" in given else None,
                resize=_one_of("resize", given.get("resize", "own"), RESIZES),  # type: ignore[arg-type]
                seed=_number("seed", given.get("seed", "0"), least=0),
            ),
        )


def read_image(content: bytes) -> Image.Image:
    """The image a client sent: JPEG, PNG or WebP, not too large once decoded."""
    return load_image(content, formats=FORMATS, max_pixels=MAX_PIXELS)


def _one_of(kind: str, name: str, known: Collection[str]) -> str:
    if name not in known:
        raise unknown(kind, name[:80], known)
    return name


def _number(name: str, text: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or int(text) < least:
        raise WhymaskError(f"{name} must be a whole number of at least {least}, not {text[:20]!r}.")
    return int(text)


def _size(text: str, method: str, regions: int) -> int:
    """The size of a mask, by a method that has one, out of so many regions."""
    k = _number("k", text, least=1)
    Recipe(method, {"k": k})
    if k > regions:
        raise WhymaskError(f"k must be between 1 and the number of regions, {regions}, not {k}.")
    return k


def _regions(text: str) -> tuple[str, int]:
    """How to divide an image, and into how many; only what is made from the image itself: a label map has a path."""
    made = re.fullmatch(r"(?:slico:([0-9]{1,4})|grid:([0-9]{1,4})(?:x([0-9]{1,4}))?)", text, re.ASCII)
    if made is None:
        raise WhymaskError(f"regions is such as 'slico:64' or 'grid:8x8', not {text[:40]!r}.")
    slico, rows, columns = made.groups()
    count = int(slico or rows) * int(columns or 1)
    if not 1 <= count <= MAX_REGIONS:
        raise WhymaskError(f"an image is divided into 1 to {MAX_REGIONS} regions here, not {count}.")
    return text, count
