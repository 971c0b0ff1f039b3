"""Another question about the image of a past result: the same pixels and regions, and no second upload."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from PIL import Image

from whymask.results import EvidenceMask, EvidenceMasks
from whymask.results.base import ExplainedImage, Explanation

Found = TypeVar("Found", bound=Explanation)


def offered_model(found: Explanation, models: Collection[str]) -> str | None:
    """The name under which the model of a result is offered, where it is."""
    names = (found.provenance.get("offered_as"), found.provenance.get("model"))
    return next((name for name in names if name in models), None)


def seen_again(found: Explanation) -> Image.Image:
    """What the model saw: bound with resize="none", it is on the model's grid already."""
    return Image.fromarray(found.image.canvas)


def on_its_photo(found: Found, image: ExplainedImage) -> Found:
    """A result about the canvas of an earlier one, shown on the whole photo as that was."""
    seen = replace(found.image, photo=image.photo, box=image.box, photo_size=image.photo_size)
    parts: dict[str, Any] = {"image": seen}
    if isinstance(found, EvidenceMask):
        parts["alternatives"] = tuple(on_its_photo(other, image) for other in found.alternatives)
    if isinstance(found, EvidenceMasks):
        masks = {id(mask): on_its_photo(mask, image) for mask in found.each}
        parts["each"] = tuple(masks.values())
        parts["words"] = tuple(replace(word, mask=word.mask and masks[id(word.mask)]) for word in found.words)
    return replace(found, **parts)
