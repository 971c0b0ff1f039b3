"""YOLO detectors as ONNX files, as their usual exports have them: pixels in [0, 1], boxes in pixels of the input."""

import ast
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, WholeImage
from whymask.models.base import composed
from whymask.models.detection import Boxes, Detector
from whymask.models.onnx import run, runtime_version, session_of
from whymask.models.torch_module import DTYPE_NAMES

GREY = 114  # of the bars beside an image that is not a square


class Yolo(Detector):
    """The image at its own shape, in the top left corner of the file's input.

    Three kinds of outputs are distinguished by their shape: (B, 4 + C, N) of YOLOv8 and later, (B, N, 5 + C) with an
    objectness of YOLOv5 and v7, and (B, N, 6), the corners, score and class of what is left after suppression.
    """

    def __init__(self, file: Path, *, labels: Sequence[str] | None, size: int | None, device: str) -> None:
        content = file.read_bytes()
        self.session = session_of(content, str(file), device)
        given = self.session.get_inputs()[0]
        self.input, (_, _, *sides) = given.name, given.shape
        self.dtype = torch.float16 if given.type == "tensor(float16)" else torch.float32
        fixed = [side for side in sides if isinstance(side, int)]
        if len(sides) != 2 or len({*fixed}) > 1 or (fixed and size not in (None, fixed[0])):
            raise WhymaskError(f"{file} takes inputs {given.shape}, not squares (B, 3, size, size) of the size given.")
        self.size = fixed[0] if fixed else size or 640
        about = self.session.get_modelmeta().custom_metadata_map
        named = ast.literal_eval(about["names"]) if labels is None and "names" in about else labels
        self.classes = [str(named[i]) for i in range(len(named))] if named is not None else []
        self.name, self.geometry = file.name, WholeImage(self.size, enlarge=True)
        self.one_by_one = given.shape[0] == 1
        self.batch_size = 4
        self.settings = {"device": device, "dtype": DTYPE_NAMES[self.dtype], "runtime": runtime_version()}
        (found,) = self._outputs(torch.zeros(1, 3, self.size, self.size, dtype=self.dtype))
        self.kind = self._kind(found)
        self.fingerprint = composed(
            hashlib.sha256(content).hexdigest()[:16], geometry=self.geometry.fingerprint, classes=self.classes
        )

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Pixels in [0, 1], (3, size, size), grey where there is no image."""
        square = np.full((self.size, self.size, 3), GREY, np.uint8)
        square[: canvas.shape[0], : canvas.shape[1]] = canvas
        return (torch.from_numpy(square).permute(2, 0, 1).float() / 255).to(self.dtype)

    def detect(self, inputs: Any, classes: Sequence[Sequence[str]], shape: tuple[int, int]) -> list[Boxes]:
        """All boxes before suppression, unless the file itself suppresses some."""
        sides = np.array([shape[1], shape[0]] * 2)
        return [self._boxes(one.astype(np.float64), sides) for one in self._outputs(inputs)]

    def _boxes(self, found: Floats, sides: NDArray[Any]) -> Boxes:
        if self.kind == "suppressed":
            scores = np.zeros((len(found), len(self.classes)))
            scores[np.arange(len(found)), found[:, 5].astype(int)] = found[:, 4]
            return Boxes(found[:, :4] / sides, scores)
        rows = found.T if self.kind == "columns" else found
        scores = rows[:, 4:] if self.kind == "columns" else rows[:, 5:] * rows[:, 4:5]
        centre, half = rows[:, :2], rows[:, 2:4] / 2
        return Boxes(np.concatenate([centre - half, centre + half], axis=1) / sides, scores)

    def _outputs(self, inputs: torch.Tensor) -> NDArray[Any]:
        if not self.one_by_one:
            return run(self.session, self.name, self.input, inputs)
        return np.concatenate([run(self.session, self.name, self.input, one[None]) for one in inputs])

    def _kind(self, found: NDArray[Any]) -> str:
        """How the outputs (rows, columns) of an image are read; without names, classes are numbered."""
        shape = found.shape
        if len(shape) == 2:
            rows, columns = shape
            if not self.classes and columns != 6:
                self.classes = [str(i) for i in range(max(0, rows - 4 if rows < columns else columns - 5))]
            count = len(self.classes)
            if columns == 6 and (count > 1 or (count == 1 and not found[:, 5].any())):  # its number, no probability
                return "suppressed"
            if rows == 4 + count:
                return "columns"
            if columns == 5 + count:
                return "rows"
        raise WhymaskError(
            f"{self.name} returns {shape} for an image, which is not what a YOLO detector with {len(self.classes)} "
            "classes returns: pass labels, a name for every class, or wrap a function with task='detection'."
        )


def load(name: str, *, labels: Sequence[str] | None = None, size: int | None = None, device: str = "cpu") -> Yolo:
    """A detector "yolo:FILE.onnx"; names of classes are read from the file where they are in it, as is the size."""
    return Yolo(Path(name.removeprefix("yolo:")), labels=labels, size=size, device=device)
