"""Object detectors: explain one box, by the score and the overlap of the boxes that a masked image gives."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.errors import ImageError, WhymaskError, unknown
from whymask.images.imaging import Box, Canvas, ImageSource, WholeImage
from whymask.models.base import Response, Target
from whymask.models.classifier import is_name, number_of
from whymask.models.function import FromFunction
from whymask.models.located import Located, Point

LEAST = 0.05  # boxes that score less are ignored
SAME = 0.5  # overlap above which two boxes of one class are one object
NUMBER = r"(-?[0-9.]+)"
PLACED = re.compile(rf"(.+) at {NUMBER}, *{NUMBER}, *{NUMBER}, *{NUMBER}")
Where: TypeAlias = tuple[str, Box]
"""A class and a box, in shares of the canvas."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """What a detector gives for one image."""

    boxes: Floats  # (m, 4) left, top, right, bottom as shares of the canvas
    scores: Floats  # (m, C) of every class, in [0, 1]

    def support(self, column: int, box: Box) -> float:
        """The largest score of a class times the overlap of its box with this one; 0 without boxes."""
        if not len(self.boxes):
            return 0.0
        return float((self.scores[:, column] * overlap(self.boxes, box)).max())

    def objects(self) -> list[tuple[float, int, Box]]:
        """(score, class, box) of what is seen, the most certain first, each object once."""
        if not len(self.boxes):
            return []
        tops = self.scores.argmax(axis=1)
        best = self.scores[np.arange(len(tops)), tops]
        found: list[tuple[float, int, Box]] = []
        for i in np.argsort(-best, kind="stable"):
            same = np.array([box for _, column, box in found if column == tops[i]]).reshape(-1, 4)
            if best[i] >= LEAST and not (overlap(same, self.boxes[i]) > SAME).any():
                left, top, right, bottom = self.boxes[i].tolist()
                found.append((float(best[i]), int(tops[i]), (left, top, right, bottom)))
        return found


@dataclass(frozen=True)
class Detection:
    """An object that a detector sees."""

    label: str
    score: float
    box: Box  # left, top, right, bottom on the photo, in pixels


class Detector(Located):
    """Explains one box; a family implements `encode` and `detect`."""

    classes: list[str]

    @abstractmethod
    def detect(self, inputs: Any, classes: Sequence[Sequence[str]], shape: tuple[int, int]) -> list[Boxes]:
        """The boxes of every input (B, ...), their scores those of its classes; canvases have this shape (H, W)."""

    def sought(self, label: str | None) -> list[str]:
        """The classes to look for, when this one is meant, or any."""
        return self.classes

    def detections(self, image: ImageSource) -> list[Detection]:
        """What the detector sees, the most certain first: `target=0` explains the first of them."""
        view = self.view(image)
        (width, height), (left, top, right, bottom) = view.image.size, view.box
        classes = self.sought(None)
        (found,) = self.detect(self.encode(view.canvas)[None], [classes], view.canvas.shape[:2])
        sides = np.array([right - left, bottom - top] * 2)
        placed = [(np.array(box) * sides + [left, top] * 2) * ([width, height] * 2) for *_, box in found.objects()]
        return [
            Detection(classes[column], score, (x0, y0, x1, y1))
            for (score, column, _), (x0, y0, x1, y1) in zip(
                found.objects(), map(np.ndarray.tolist, placed), strict=True
            )
        ]

    def locate(self, inputs: Any, canvas: Canvas, target: int | str | Point | None) -> tuple[Target, Where, int]:
        """A box by its place in the list of detections, its class, its class and place, or a point in it."""
        if isinstance(target, str) and (placed := PLACED.fullmatch(target.strip())):
            label, *sides = placed.groups()
            try:
                left, top, right, bottom = map(float, sides)
            except ValueError:
                raise WhymaskError(f"{target!r} is not the name of a box, such as 'dog at 0.1,0.2,0.5,0.9'.") from None
            return _aimed(_named(label, self.sought(label)), (left, top, right, bottom), 0)
        label = str(target) if is_name(target) else None
        classes = self.sought(label)
        column = None if label is None else classes.index(_named(label, classes))
        (found,) = self.detect(inputs[None], [classes], canvas.shape[:2])
        if column is not None:
            scores = found.scores[:, column]
            if not len(scores) or scores.max() < LEAST:
                raise ImageError(f"{self.name} sees no {classes[column]!r} in the image{_seen(found, classes)}.")
            left, top, right, bottom = found.boxes[scores.argmax()].tolist()
            return _aimed(classes[column], (left, top, right, bottom), 1)
        objects = found.objects()
        if isinstance(target, tuple):
            x, y = target
            objects = [one for one in objects if one[2][0] <= x <= one[2][2] and one[2][1] <= y <= one[2][3]]
            if not objects:
                raise ImageError(f"{self.name} sees nothing at that point{_seen(found, classes)}.")
        number = 0 if target is None or isinstance(target, tuple) else number_of(target)
        if not 0 <= number < len(objects):
            raise ImageError(f"{self.name} sees {len(objects)} objects, so there is no object {number}.")
        _, column, box = objects[number]
        return _aimed(classes[column], box, 1)

    def respond(self, inputs: Any, bounds: Sequence[Any]) -> Response:
        """Score masked inputs by the boxes that the bounds explain."""
        wanted: list[Where] = [bound.where for bound in bounds]
        classes = [self.sought(label) for label, _ in wanted]
        found = self.detect(inputs, classes, bounds[0].canvas.shape[:2])
        support = [
            boxes.support(names.index(label), box)
            for boxes, names, (label, box) in zip(found, classes, wanted, strict=True)
        ]
        return Response(np.clip(np.array(support, dtype=np.float64), 0, 1), None)


class FunctionDetector(FromFunction, Detector):
    """A function from images (B, H, W, 3) uint8 to a dictionary of the objects in each, as torchvision's detectors.

    "boxes" are (m, 4): left, top, right and bottom in pixels of the image; "scores" (m,) in [0, 1]; "labels" (m,) are
    numbers of `labels`, or names.
    """

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], Sequence[Mapping[str, Any]]],
        *,
        labels: Sequence[str],
        name: str = "function",
        max_side: int = 1333,
        batch_size: int = 4,
    ) -> None:
        self.classes = list(labels)
        super().__init__(function, name, batch_size, WholeImage(max_side), classes=self.classes)

    def detect(self, inputs: Any, classes: Sequence[Sequence[str]], shape: tuple[int, int]) -> list[Boxes]:
        """What the function returns, as shares of the image."""
        found = list(self.function(inputs))
        if len(found) != len(inputs) or not all({"boxes", "scores", "labels"} <= one.keys() for one in found):
            raise WhymaskError(
                f"{self.name} must return a dictionary with boxes (m, 4), scores (m,) and labels (m,) for every image."
            )
        sides = np.array([shape[1], shape[0]] * 2)
        return [self._boxes(one, sides) for one in found]

    def _boxes(self, found: Mapping[str, Any], sides: NDArray[Any]) -> Boxes:
        boxes, scores, labels = (_array(found[part]) for part in ("boxes", "scores", "labels"))
        columns = [self._column(label) for label in labels.tolist()]
        spread = np.zeros((len(columns), len(self.classes)))
        spread[np.arange(len(columns)), columns] = scores
        return Boxes(boxes.reshape(-1, 4).astype(np.float64) / sides, spread)

    def _column(self, label: Any) -> int:
        if label in self.classes:
            return self.classes.index(label)
        if isinstance(label, str) or not 0 <= label < len(self.classes):
            raise WhymaskError(
                f"{self.name} returned the label {label!r}, which is none of the {len(self.classes)} labels."
            )
        return int(label)


def overlap(boxes: Floats, box: Box | Floats) -> Floats:
    """Intersection over union of boxes (m, 4) with one box; 0 where both are empty."""
    left, top, right, bottom = boxes.T
    width = np.minimum(right, box[2]) - np.maximum(left, box[0])
    height = np.minimum(bottom, box[3]) - np.maximum(top, box[1])
    common = np.maximum(width, 0) * np.maximum(height, 0)
    union = (right - left) * (bottom - top) + (box[2] - box[0]) * (box[3] - box[1]) - common
    shares: Floats = np.divide(common, union, out=np.zeros(len(boxes)), where=union > 0)
    return shares


def _named(label: str, classes: Sequence[str]) -> str:
    known = {name.lower(): name for name in classes}
    if label.strip().lower() not in known:
        raise unknown("target", label, known.values())
    return known[label.strip().lower()]


def _aimed(label: str, box: Box, probes: int) -> tuple[Target, Where, int]:
    """A box as a target, whose name says where it is: by that it is found again in a saved result."""
    left, top, right, bottom = (round(side, 4) + 0.0 for side in box)  # no -0.0
    sides = (f"{side:.4f}".rstrip("0").rstrip(".") for side in (left, top, right, bottom))
    return Target.named(f"{label} at {','.join(sides)}"), (label, (left, top, right, bottom)), probes


def _seen(found: Boxes, classes: Sequence[str]) -> str:
    seen = dict.fromkeys(classes[column] for _, column, _ in found.objects())
    return f"; it sees {', '.join(list(seen)[:8])}" if seen else ""


def _array(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
