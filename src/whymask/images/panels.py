"""Several images of one question, side by side on one canvas."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.images.imaging import Canvas
from whymask.images.partition import Partition, Regions, partition

Panel: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom and right of an image on the canvas, in pixels."""


def side_by_side(canvases: Sequence[Canvas]) -> tuple[Canvas, tuple[Panel, ...]]:
    """Images (h, w, 3) on one canvas (H, W, 3), white below the shorter ones, and where each of them is."""
    lefts = np.cumsum([0, *(canvas.shape[1] for canvas in canvases)]).tolist()
    panels = tuple(
        (0, left, canvas.shape[0], left + canvas.shape[1]) for left, canvas in zip(lefts[:-1], canvases, strict=True)
    )
    joined = np.full((max(canvas.shape[0] for canvas in canvases), lefts[-1], 3), 255, np.uint8)
    for (top, left, bottom, right), canvas in zip(panels, canvases, strict=True):
        joined[top:bottom, left:right] = canvas
    return joined, panels


def cut(canvas: Any, panels: Sequence[Sequence[int]]) -> list[Any]:
    """The images of a canvas (H, W, ...), each (h, w, ...)."""
    return [canvas[top:bottom, left:right] for top, left, bottom, right in panels]


def panel_of(labels: NDArray[np.int32], panels: Sequence[Sequence[int]]) -> list[int]:
    """The number of the image that each region of a label map (H, W) lies in, or that most of it lies in."""
    n = int(labels.max()) + 1
    counts = np.stack([np.bincount(part.ravel(), minlength=n) for part in cut(labels, panels)])
    return [int(number) for number in counts.argmax(axis=0)]


def partition_panels(canvas: Canvas, regions: Regions, panels: Sequence[Panel]) -> Partition:
    """Every image divided into its own regions, as `regions` says; a label map covers the whole canvas.

    What lies below a shorter image is shown to no model, and belongs to the region above it.
    """
    if not isinstance(regions, str) or not regions.startswith(("slico", "grid")):
        return partition(canvas, regions)
    labels = np.zeros(canvas.shape[:2], dtype=np.int32)
    parents: list[int] = []
    n = 0
    for (top, left, bottom, right), image in zip(panels, cut(canvas, panels), strict=True):
        part = partition(image, regions)
        labels[top:bottom, left:right] = part.labels + n
        labels[bottom:, left:right] = labels[bottom - 1, left:right]
        n += part.n
        if part.parents is not None:
            parents += (part.parents + (max(parents) + 1 if parents else 0)).tolist()
    return Partition(labels, regions, parents=np.array(parents) if parents else None)
