"""The JSON document that the viewer in the browser shows: one or more explanations with their pixels."""

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from whymask.images.imaging import Box, Canvas
from whymask.images.partition import Partition
from whymask.results import EvidenceMasks, Explanation, Ordering
from whymask.results.masks_figure import COLOURS
from whymask.utils.text import all_displayed

WEBP_SIDE = 16_383  # pixels


def document(explanations: Sequence[Explanation], names: Sequence[str]) -> dict[str, Any]:
    """Explanations and their names; explanations of the same image and regions share their pixels."""
    pictures: dict[str, dict[str, Any]] = {}
    entries = []
    for name, explanation in zip(names, explanations, strict=True):
        image = explanation.image
        parts = (image.photo.tobytes(), image.canvas.tobytes(), image.fill.tobytes(), image.partition.labels.tobytes())
        key = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:12]
        if key not in pictures:
            pictures[key] = picture(image.photo, image.canvas, image.fill, image.box, image.partition)
        about = {"name": name, "title": explanation.title, "picture": key, "remarks": explanation.remarks}
        entry = about | explanation.as_dict()
        if isinstance(explanation, Ordering):
            entry["prefix"] = explanation.prefix
        if isinstance(explanation, EvidenceMasks):
            entry |= {"colours": COLOURS, "between": between(explanation)}
        if explanation.scored is not None:
            entry["scored"] = explanation.scored.as_document()
        entries.append(all_displayed(entry))
    return {"pictures": pictures, "explanations": entries}


def between(masks: EvidenceMasks) -> list[str]:
    """What stands before the first word of a text, between its words and after the last: no script counts characters
    as Python does.
    """
    text = masks.text or ""
    starts, ends = [word.start for word in masks.words], [word.end for word in masks.words]
    return [text[end:start] for end, start in zip([0, *ends], [*starts, len(text)], strict=True)]


def picture(photo: Canvas, canvas: Canvas, fill: Canvas, box: Box, partition: Partition) -> dict[str, Any]:
    """The pixels and regions, from which a viewer can compose every masked image."""
    height, width = partition.labels.shape
    return {
        "photo": _data_uri(photo, "JPEG", quality=88),
        "canvas": _exact(canvas),  # this is what the model saw
        "fill": _exact(fill),
        "box": list(box),
        "size": [width, height],
        "runs": runs(partition.labels),
        "areas": partition.areas.round(6).tolist(),
    }


def runs(labels: np.typing.NDArray[np.int32]) -> list[int]:
    """A label map read row by row as region, length, region, length, ...

    >>> runs(np.array([[0, 0, 1], [1, 1, 2]], dtype=np.int32))
    [0, 2, 1, 3, 2, 1]
    """
    flat = labels.ravel()
    starts = np.flatnonzero(np.diff(flat, prepend=-1))
    lengths = np.diff(starts, append=len(flat))
    return [int(value) for value in np.column_stack([flat[starts], lengths]).ravel()]


def thumbnail(photo: Canvas, side: int = 160) -> str:
    """A small square-ish copy of a photo as a data URI."""
    image = Image.fromarray(photo)
    image.thumbnail((side, side))
    return _data_uri(np.asarray(image), "JPEG", quality=80)


def _exact(pixels: Canvas) -> str:
    """Pixels without loss, as WebP, which is a quarter smaller, unless a side is too long for it."""
    if max(pixels.shape) > WEBP_SIDE:
        return _data_uri(pixels, "PNG", optimize=True)
    return _data_uri(pixels, "WEBP", lossless=True)


def _data_uri(pixels: Canvas, kind: str, **options: Any) -> str:
    encoded = BytesIO()
    Image.fromarray(pixels).save(encoded, format=kind, **options)
    return f"data:image/{kind.lower()};base64,{b64encode(encoded.getvalue()).decode()}"
