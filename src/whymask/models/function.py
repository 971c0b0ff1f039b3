"""Any Python function over a batch of images."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from whymask.arrays import Floats, real_numbers
from whymask.errors import WhymaskError, whole
from whymask.images.imaging import WHOLE, Box, Canvas, Geometry, Resize, resized
from whymask.models.base import SCORE, Bound, Response, View, composed
from whymask.models.classifier import Classifier
from whymask.utils.digest import is_plain


@dataclass(frozen=True)
class WholeImage(Geometry):
    """For models that take pictures of any size: the whole image, its longer side at most `max_side`.

    "own" and "squash" are the same here.
    """

    max_side: int | None = 512  # None: as large as it is
    size: tuple[int, int] | None = None  # (height, width) when the model wants one size
    enlarge: bool = False  # whether smaller images are enlarged to it

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        if resize == "none":
            return np.asarray(image), WHOLE
        if self.size is not None:
            return resized(image, (self.size[1], self.size[0])), WHOLE
        scale = 1.0 if self.max_side is None else self.max_side / max(image.size)
        scale = scale if self.enlarge else min(1.0, scale)
        return resized(image, (max(1, round(image.width * scale)), max(1, round(image.height * scale)))), WHOLE


class FunctionModel(Classifier):
    """A function from images (B, H, W, 3) uint8 to scores (B,), or to probabilities (B, classes).

    A function that returns one score per image takes no target: what it scores is what is explained. It gets images of
    their own proportions, reduced to `max_side` pixels on their longer side (None: as large as they are), or all of one
    size where that is given.
    """

    channels_first = False

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], ArrayLike],
        *,
        labels: Sequence[str] | None = None,
        size: int | tuple[int, int] | None = None,
        max_side: int | None = 512,
        name: str = "function",
    ) -> None:
        self.function = function
        self.name, self.batch_size = name, 32
        cap = None if max_side is None else whole("max_side", max_side, 1)
        self.geometry = WholeImage(cap, (size, size) if isinstance(size, int) else size)
        self.fingerprint = composed(function_fingerprint(function, name), geometry=self.geometry.fingerprint)
        self.settings = {}
        self.labels = list(labels or [])

    def settle(self, view: View, target: int | str | None, question: str | None) -> Bound:
        """As every classifier; finding out what the function returns is one more probe."""
        fresh = not self.labels
        bound = super().settle(view, target, question)
        return replace(bound, probes=bound.probes + 1) if fresh else bound

    def encode(self, canvas: Canvas) -> Canvas:
        """The pixels themselves; the first ones tell how many answers the function scores."""
        if not self.labels:
            values = self._values(canvas[None].copy())  # a function may change its input
            self.labels = [str(i) for i in range(values.shape[1])] if values.ndim == 2 else [SCORE]
        return canvas

    def outputs(self, inputs: Any) -> Floats:
        """What the function returns, (B, classes)."""
        return self._values(inputs).reshape(len(inputs), -1)

    def read(self, outputs: Any, targets: Sequence[int]) -> Response:
        """What the function returned for the targets."""
        return Response(outputs[np.arange(len(outputs)), list(targets)], outputs.argmax(axis=1))

    def _values(self, images: NDArray[np.uint8]) -> Floats:
        """What the function returns: scores (B,) or probabilities (B, classes)."""
        count = len(images)
        values = real_numbers(self.function(images))
        classes = len(self.labels) or (values.shape[1] if values.ndim == 2 else 1)
        if classes == 0 or values.shape not in ([(count,), (count, 1)] if classes == 1 else [(count, classes)]):
            raise WhymaskError(
                f"{self.name} must return scores ({count},) or probabilities ({count}, "
                f"{len(self.labels) or 'classes'}), not {values.shape}."
            )
        return values


def function_fingerprint(function: Callable[..., Any], name: str) -> str:
    """A function by its name, its file and the plain values it holds."""
    return composed(f"function {getattr(function, '__qualname__', name)}{_source(function)}", values=_values(function))


def _source(function: Callable[..., Any]) -> str:
    """A hash of the file that says what the function does, where it is from a file."""
    if isinstance(function, partial):
        return _source(function.func)
    try:
        file = inspect.getfile(function if inspect.isroutine(function) else type(function))
        return f" {hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]}"
    except (TypeError, OSError):
        return ""


def _values(function: Callable[..., Any]) -> dict[str, Any]:
    """Plain values beside the code: arguments of a partial, attributes of an object, defaults, a closure's.

    Lists and dictionaries that a function or an object holds are left out: they are often logs or caches.
    """
    found: dict[str, Any] = {}
    if isinstance(function, partial):
        found = {**_values(function.func), **{f"argument {i}": value for i, value in enumerate(function.args)}}
        found |= function.keywords
    elif inspect.isfunction(function):
        found["line"] = function.__code__.co_firstlineno  # all lambdas have one name
        found |= {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # not assigned yet
                found[name] = cell.cell_contents
    else:
        found = getattr(getattr(function, "__self__", function), "__dict__", {})
    grows = () if isinstance(function, partial) else (list, dict)
    return {name: value for name, value in found.items() if not isinstance(value, grows) and is_plain(value)}
