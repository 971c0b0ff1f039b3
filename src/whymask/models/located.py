"""What models share whose answers have a place on the image: a box, a segment, characters."""

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.errors import ImageError, WhymaskError
from whymask.images.imaging import Canvas
from whymask.models.base import Bound, Target, View, Wanted
from whymask.models.pixels import PixelBound, PixelModel

Point: TypeAlias = tuple[float, float]
"""x and y as shares of the canvas."""


class Place(str):
    """The name of an answer together with where it was seen, so that other pictures are scored there too."""

    target: Target
    where: Any

    @classmethod
    def of(cls, target: Target, where: Any) -> Self:
        """The place of a settled target."""
        place = cls(target.name)
        place.target, place.where = target, where
        return place


@dataclass(frozen=True, eq=False)
class LocatedBound(PixelBound):
    """Inputs are pixels, with padding at their right and bottom where the model adds some."""

    where: Any  # the place whose answer is explained, as the family describes it

    @property
    def aim(self) -> Place:
        """The answer and its place."""
        return Place.of(self.target, self.where)

    def index(self, labels: NDArray[np.int32]) -> Any:
        """The label map as (1, H, W) or (H, W, 1); padding may belong to any region: it is the same in the fill."""
        shape = self.inputs.shape[1:] if self.channels_first else self.inputs.shape[:2]
        added = [(0, side - own) for side, own in zip(shape, labels.shape, strict=True)]
        return super().index(np.pad(labels, added))


class Located(PixelModel):
    """A model whose answers have places; a family implements `encode`, `locate` and `respond`."""

    takes_points = True

    @abstractmethod
    def locate(self, inputs: Any, canvas: Canvas, target: int | str | Point | None) -> tuple[Target, Any, int]:
        """The answer that a user means, its place, and the forwards spent on finding it."""

    def settle(self, view: View, target: Wanted, question: str | None) -> Bound:
        """Find the answer on the image."""
        if question is not None:
            raise WhymaskError(f"{self.name} takes a target, not a question.")
        inputs = self.encode(view.canvas)
        if isinstance(target, Place):
            settled, where, probes = target.target, target.where, 0
        else:
            meant = _on_canvas(view, target) if isinstance(target, tuple) else target
            settled, where, probes = self.locate(inputs, view.canvas, meant)
        parts = self.parts(view, inputs, view.canvas.shape, self.shared(where))
        return LocatedBound(**parts, target=settled, probes=probes, where=where)

    def shared(self, where: Any) -> Hashable:
        """What must be equal for rows to share a batch, besides shapes."""
        return None


def _on_canvas(view: View, point: tuple[float, float]) -> Point:
    """A point of the photo, in pixels, as shares of the canvas."""
    (width, height), (left, top, right, bottom) = view.image.size, view.box
    x, y = (point[0] / width - left) / (right - left), (point[1] / height - top) / (bottom - top)
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ImageError(
            f"the point {point} lies outside of what the model sees of the image, which has {width} x {height} pixels."
        )
    return x, y
