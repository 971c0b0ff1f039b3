"""Semantic segmenters: explain one segment, by the mean probability of its class on it."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whymask.arrays import Bools, Floats, real_numbers
from whymask.errors import ImageError, WhymaskError, unknown
from whymask.images.imaging import Canvas, WholeImage
from whymask.models.base import Response, Target
from whymask.models.classifier import is_name, number_of
from whymask.models.function import FromFunction
from whymask.models.located import Located, Point

Segment: TypeAlias = tuple[int, Bools]
"""A class and the cells (h, w) where it is the likeliest on the whole image."""


class Segmenter(Located):
    """Explains one segment; a family implements `encode` and `probabilities`."""

    classes: list[str]

    @abstractmethod
    def probabilities(self, inputs: Any, column: int | None = None) -> Floats:
        """Probabilities of all classes (B, h, w, C), or of one of them (B, h, w), for inputs (B, ...)."""

    def locate(self, inputs: Any, canvas: Canvas, target: int | str | Point | None) -> tuple[Target, Segment, int]:
        """The segment of a class, by its number, its name or a point in it; by default the largest."""
        likeliest = self.probabilities(inputs[None])[0].argmax(axis=-1)  # (h, w)
        height, width = likeliest.shape
        if target is None:
            column = int(np.bincount(likeliest.ravel()).argmax())
        elif isinstance(target, tuple):
            x, y = target
            column = int(likeliest[min(int(y * height), height - 1), min(int(x * width), width - 1)])
        else:
            column = self._column(target)
        cells = likeliest == column
        if not cells.any():
            seen = [self.classes[i] for i in np.argsort(-np.bincount(likeliest.ravel()))[:8] if (likeliest == i).any()]
            raise ImageError(f"{self.name} sees no {self.classes[column]!r} in the image; it sees {', '.join(seen)}.")
        return Target.named(self.classes[column]), (column, cells), 1

    def respond(self, inputs: Any, bounds: Sequence[Any]) -> Response:
        """Score masked inputs by the segments that the bounds explain."""
        segments: list[Segment] = [bound.where for bound in bounds]
        scores = np.empty(len(segments))
        for column in {column for column, _ in segments}:
            rows = [i for i, (own, _) in enumerate(segments) if own == column]
            found = self.probabilities(inputs if len(rows) == len(segments) else inputs[rows], column)
            scores[rows] = [one[segments[i][1]].mean() for i, one in zip(rows, found, strict=True)]
        return Response(np.clip(scores, 0, 1), None)

    def _column(self, target: int | str) -> int:
        known = {name.lower(): column for column, name in reversed(list(enumerate(self.classes)))}
        name = str(target).strip().lower()
        if isinstance(target, str) and name in known:
            return known[name]
        if is_name(target):
            raise unknown("target", name, self.classes)
        number = number_of(target)
        if not 0 <= number < len(self.classes):
            raise WhymaskError(f"target {number} is outside the model's classes 0 ... {len(self.classes) - 1}.")
        return number


class FunctionSegmenter(FromFunction, Segmenter):
    """A function from images (B, H, W, 3) uint8 to probabilities (B, h, w, classes), at any resolution."""

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], ArrayLike],
        *,
        labels: Sequence[str],
        name: str = "function",
        max_side: int | None = 512,
        size: int | tuple[int, int] | None = None,
    ) -> None:
        self.classes = list(labels)
        super().__init__(function, name, 16, WholeImage(max_side, size), classes=self.classes)

    def probabilities(self, inputs: Any, column: int | None = None) -> Floats:
        """What the function returns."""
        found = real_numbers(self.function(inputs))
        if found.ndim != 4 or found.shape[0] != len(inputs) or found.shape[3] != len(self.classes):
            expected = f"({len(inputs)}, h, w, {len(self.classes)})"
            raise WhymaskError(f"{self.name} must return probabilities {expected}, not {found.shape}.")
        return found if column is None else found[..., column]
