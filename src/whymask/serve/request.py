"""What a client may ask for: everything is checked here, before a job exists."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from whymask.errors import WhymaskError, unknown
from whymask.explainer.settings import Settings
from whymask.images.imaging import load_image
from whymask.images.masking import FILLS
from whymask.methods import METHOD, OF_SIZE, Recipe
from whymask.results.base import Explanation
from whymask.serve.again import offered_model

MAX_BYTES = 10_000_000
MAX_PIXELS = 25_000_000
MAX_REGIONS = 400
MAX_ALTERNATIVES = 4
FORMATS = ("JPEG", "PNG", "WEBP")
FIELDS = (
    *("model", "method", "k", "keep", "alternatives", "target", "want", "question", "words"),
    *("regions", "fill", "resize", "seed", "result"),
)
RESIZES = ("own", "squash")
CHOICES = (*FILLS, "several")  # of fills


@dataclass(frozen=True)
class Request:
    """A checked request: names are of known things, no value is a path."""

    model: str
    target: int | str | None
    question: str | None
    words: bool  # whether each word of the answer is explained
    settings: Settings
    want: str | None = None  # the answer that should have been given, where that is to be repaired

    @classmethod
    def of(cls, given: Mapping[str, str], models: Collection[str], before: Explanation | None = None) -> Request:
        """The request of a client; anything wrong with it raises an error of one line.

        Args:
            given: what the client sent.
            models: those it may choose from.
            before: a past result, where the request is about its image.
        """
        for name, value in given.items():
            if name not in FIELDS:
                raise unknown("setting", name[:80], FIELDS)
            if len(value) > 1000:
                raise WhymaskError(f"{name} is longer than 1000 characters.")
        given = {name: value.strip() for name, value in given.items() if value.strip()}
        if before is not None:
            given = _about(before, given, models)
        words = _one_of("words", given.get("words", "no"), ("yes", "no")) == "yes"
        want = given.get("want")
        if words and given.keys() & {"method", "target"}:
            raise WhymaskError(
                "the words of the model's own answer are searched together: leave method and target out."
            )
        if want and given.keys() & {"target", "words", "keep", "alternatives"}:
            raise WhymaskError("a repair looks for one mask of the wanted answer: leave other answers and masks out.")
        regions, count = _regions(given.get("regions", "slico:64")) if before is None else _same_regions(before)
        resize = _one_of("resize", given.get("resize", "own"), RESIZES) if before is None else "none"
        return cls(
            model=_one_of("model", given.get("model", next(iter(models))), models),
            target=given.get("target") or _same_answer(before, given),
            question=given.get("question"),
            words=words,
            want=want,
            settings=Settings(
                method=None if words else _method(given),
                k=_size(given["k"], _method(given), count) if "k" in given else None,
                keep=_kept(given["keep"]) if "keep" in given else None,
                alternatives=_number("alternatives", given.get("alternatives", "0"), 0, MAX_ALTERNATIVES),
                regions=regions,
                fill=_one_of("fill", given["fill"], CHOICES) if "fill" in given else "black" if want else None,
                resize=resize,  # type: ignore[arg-type]
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


def _number(name: str, text: str, least: int, most: int = 10**9) -> int:
    """A whole number between these, both included."""
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) or not least <= int(text) <= most:
        limits = f"of at least {least}" if most == 10**9 else f"from {least} to {most}"
        raise WhymaskError(f"{name} must be a whole number {limits}, not {text[:20]!r}.")
    return int(text)


def _method(given: Mapping[str, str]) -> str:
    """The method that was asked for, or the usual one."""
    if "method" in given:
        return Recipe(given["method"]).name
    sized = given.get("k", "auto").lower() != "auto" or given.keys() & {"alternatives", "want"}
    return OF_SIZE if sized else METHOD


def _size(text: str, method: str, regions: int) -> int | str:
    """The size of a mask out of `regions` regions, for methods that have a size, or "auto"."""
    if text.lower() == "auto":
        return "auto"
    k = _number("k", text, least=1)
    Recipe(method, {"k": k})
    if k > regions:
        raise WhymaskError(f"k must be between 1 and the number of regions, {regions}, not {k}.")
    return k


def _kept(text: str) -> float | str:
    """What the smallest mask must keep: a share of the score, or the answer."""
    if text == "answer":
        return text
    if not re.fullmatch(r"0?\.[0-9]{1,6}|1(?:\.0{1,6})?", text, re.ASCII) or float(text) == 0:
        raise WhymaskError(f"keep is a share of the score, such as 0.9, or 'answer', not {text[:20]!r}.")
    return float(text)


def _about(before: Explanation, given: dict[str, str], models: Collection[str]) -> dict[str, str]:
    """A request about the image of a past result: its model, and its question unless another one is asked."""
    if given.keys() & {"regions", "resize"}:
        raise WhymaskError("the image of a result keeps its regions and its size: leave regions and resize out.")
    if before.panels:
        raise WhymaskError("several images were explained together in this result: explain them again.")
    model = offered_model(before, models)
    if model is None:
        raise WhymaskError(f"this server does not offer the model of that result, {before.provenance.get('model')}.")
    asked = before.provenance.get("question")
    return {"model": model} | ({"question": asked} if asked else {}) | given


def _same_answer(before: Explanation | None, given: Mapping[str, str]) -> int | str | None:
    """The answer that a past result explains, unless the request is about another one."""
    if before is None or given.keys() & {"words", "want"} or before.target.is_score:
        return None
    return before.target.name if given.get("question") == before.provenance.get("question") else None


def _same_regions(before: Explanation) -> tuple[Any, int]:
    """The regions of a past result, and how many."""
    if before.n > MAX_REGIONS:
        raise WhymaskError(f"an image is divided into 1 to {MAX_REGIONS} regions here, not {before.n}.")
    return before.image.partition.labels, before.n


def _regions(text: str) -> tuple[Any, int]:
    """How to divide an image, and into how many; only what is made from the image itself: a label map has a path."""
    made = re.fullmatch(r"(?:slico:([0-9]{1,4})|grid:([0-9]{1,4})(?:x([0-9]{1,4}))?)", text, re.ASCII)
    if made is None:
        raise WhymaskError(f"regions must be like 'slico:64' or 'grid:8x8', not {text[:40]!r}.")
    slico, rows, columns = made.groups()
    count = int(slico or rows) * int(columns or 1)
    if not 1 <= count <= MAX_REGIONS:
        raise WhymaskError(f"an image is divided into 1 to {MAX_REGIONS} regions here, not {count}.")
    return text, count
