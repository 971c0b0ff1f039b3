"""Any Python function over a batch of images."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whymask.arrays import Floats, real_numbers
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, Geometry, WholeImage
from whymask.models.base import SCORE, Bound, Response, View, composed
from whymask.models.classifier import Classifier
from whymask.models.pixels import PixelModel
from whymask.utils.digest import is_plain


class FromFunction(PixelModel):
    """What models share that are a function of images (B, H, W, 3) uint8."""

    channels_first = False

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], Any],
        name: str,
        batch_size: int,
        geometry: Geometry,
        **besides: Any,
    ) -> None:
        """`besides` are plain values that move a score, as the function and the geometry do."""
        self.function, self.name, self.batch_size, self.geometry = function, name, batch_size, geometry
        self.settings = {}
        self.besides = {"geometry": geometry.fingerprint, **besides}
        self._code = function_fingerprint(function, name)  # as it is now: a function may count its calls

    @property
    def fingerprint(self) -> str:
        """Identifies the function as it was wrapped, and how its images and results are used."""
        return composed(self._code, **self.besides)

    def encode(self, canvas: Canvas) -> Canvas:
        """The pixels themselves."""
        return canvas


class FunctionModel(FromFunction, Classifier):
    """A function from images (B, H, W, 3) uint8 to scores (B,), or to probabilities (B, classes).

    A function that returns one score per image takes no target: what it scores is what is explained. It gets images of
    their own proportions, reduced to `max_side` pixels on their longer side (None: as large as they are), or all of one
    size where that is given.
    """

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], ArrayLike],
        *,
        labels: Sequence[str] | None = None,
        size: int | tuple[int, int] | None = None,
        max_side: int | None = 512,
        name: str = "function",
    ) -> None:
        super().__init__(function, name, 32, WholeImage(max_side, size))
        self.labels = list(labels or [])

    def settle(self, view: View, target: int | str | None, question: str | None) -> Bound:
        """Settle the target as every classifier does; finding out what the function returns is one more probe."""
        fresh = not self.labels
        bound = super().settle(view, target, question)
        return replace(bound, probes=bound.probes + 1) if fresh else bound

    def encode(self, canvas: Canvas) -> Canvas:
        """The pixels themselves; the first ones show how many answers the function scores."""
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
