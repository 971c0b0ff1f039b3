"""What every model family offers: `bind` an image once, then `respond` to masked versions of it in batches."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import WHOLE, Box, Canvas, Geometry, ImageSource, Resize, load_image
from whymask.images.masking import Fill, fill_canvas
from whymask.images.panels import Panel, cut, side_by_side
from whymask.utils.digest import digest

Wanted: TypeAlias = int | str | tuple[float, float] | None
"""Which answer a user means: its number, its name, a point (x, y) on the photo in pixels, or the model's own."""

SCORE = "the score"
"""The label of what a function scores that returns one number per image, and so has no classes."""


@dataclass(frozen=True)
class Target:
    """The answer whose score f_y is explained."""

    index: int  # -1 where only the label names it: a free text, or an answer of a served model
    label: str

    @classmethod
    def named(cls, label: str) -> Self:
        """A target that has no number."""
        return cls(-1, label)

    @property
    def numbered(self) -> bool:
        """Whether it is one of the model's numbered answers, as `Response.top` is."""
        return self.index >= 0

    @property
    def is_score(self) -> bool:
        """Whether it is the score of a function that has no classes."""
        return self.label == SCORE

    @property
    def name(self) -> int | str:
        """What to pass to `bind` to get this target again."""
        return self.index if self.numbered else self.label


@dataclass(frozen=True, eq=False)
class View:
    """An image on a model's input grid."""

    image: Image.Image  # the whole image
    canvas: Canvas  # (H, W, 3) what the model sees of it
    fill: Canvas  # (H, W, 3) what it sees where regions are masked
    box: Box  # the part of the image that is on the canvas
    panels: tuple[Panel, ...] = field(default=(), kw_only=True)  # where several images are on the canvas

    @property
    def source(self) -> ImageSource:
        """What to pass to `bind` to see the same: the image, or those of several as they are on the canvas."""
        return cut(self.canvas, self.panels) if self.panels else self.image


@dataclass(frozen=True, eq=False)
class Bound(View, ABC):
    """An image on a model's input grid, with the answer to explain."""

    target: Target
    inputs: Any  # the canvas in the model's own layout, on its device
    fill_inputs: Any  # the fill, likewise
    key: Hashable  # rows of bounds with equal keys may share a batch
    probes: int  # forwards spent on finding the target

    @property
    def aim(self) -> int | str:
        """What to pass to `bind` to explain the same answer on another picture."""
        return self.target.name

    @property
    def settings(self) -> dict[str, Any]:
        """What a result's provenance says of this image besides the model's settings."""
        return {"panels": [list(panel) for panel in self.panels]} if self.panels else {}

    @abstractmethod
    def index(self, labels: NDArray[np.int32]) -> Any:
        """The region of every element of `inputs` (broadcastable), for a label map (H, W)."""

    @cached_property
    def pixel(self) -> Any:
        """row * W + column of every element of `inputs`: each pixel is its own region."""
        height, width = self.canvas.shape[:2]
        return self.index(np.arange(height * width, dtype=np.int32).reshape(height, width))


@dataclass(frozen=True, eq=False)
class Response:
    """Scores of a batch of masked inputs."""

    score: Floats  # (B,) f_y in [0, 1], or (B, T) for each of several targets
    top: NDArray[np.int64] | None  # (B,) the answer the model would give, where that is known


class Launched(Response):
    """A response that a device is still computing: whoever reads it waits.

    `wait` returns the response, and the seconds that the device took for it.
    """

    _wait: Callable[[], tuple[Response, float]]

    def __init__(self, wait: Callable[[], tuple[Response, float]]) -> None:
        object.__setattr__(self, "_wait", wait)

    @cached_property
    def arrived(self) -> tuple[Response, float]:
        """The response itself, and the seconds that the device took."""
        return self._wait()

    @property
    def score(self) -> Floats:
        """(B,) f_y in [0, 1]."""
        return self.arrived[0].score

    @property
    def top(self) -> NDArray[np.int64] | None:
        """(B,) the answer the model would give, where that is known."""
        return self.arrived[0].top


class Model(Protocol):
    """A model that can be run forward.

    This is all that is required. `Answers`, `Generates`, `Measures`, `RespondsEach` and `differentiable.Differentiates`
    are what a model may offer besides.
    """

    name: str
    deterministic: bool
    batch_size: int  # images a batch, unless the user says otherwise
    default_k: int
    settings: dict[str, str]  # where and how it runs (device, precision, runtime): what else moves a score

    @property
    def fingerprint(self) -> str:
        """Equal only where weights, preprocessing and everything else that turns an image into a score are equal."""

    def bind(
        self,
        image: ImageSource,
        *,
        target: Wanted = None,
        question: str | None = None,
        resize: Resize = "own",
        fill: Fill = "black",
    ) -> Bound:
        """Put the image on the input grid and settle which answer is explained (by default the model's own)."""

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Score masked inputs (B, ...), row i by the target of bounds[i].

        A `Launched` response lets searches that run together advance while a device computes it. The memory of the
        inputs may then be used for the next batch: what works on them later must run in the device's order, or copy.
        """


@runtime_checkable
class Answers(Protocol):
    """A model that has names for its answers."""

    labels: Any  # names by number, as `Response.top` has it


@runtime_checkable
class Measures(Protocol):
    """A model whose scores are measured: each is the mean over some answers to one masked image."""

    samples: int  # answers each time
    reported: int  # answers, at least, behind each score of a result


@runtime_checkable
class RespondsEach(Protocol):
    """A model whose single forward scores several answers."""

    def answering(self, bound: Bound, target: int | str, question: str | None) -> Bound:
        """The same image with another answer; this takes no forward."""

    def respond_each(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Score masked inputs (B, ...) of one image by the targets of all bounds; `Response.score` is (B, T)."""


@runtime_checkable
class Generates(Protocol):
    """A language model that answers in words."""

    def generate(self, inputs: Any, bounds: Sequence[Bound], tokens: int) -> list[str]:
        """Answers of at most `tokens` tokens to masked inputs (B, ...)."""


def composed(weights: str, **besides: Any) -> str:
    """A model's fingerprint: that of its weights, and a digest of what else moves a score (plain values)."""
    return f"{weights} {digest(besides)}"


def meaning(bound: Bound) -> Hashable:
    """Equal for bounds that score the same: "yes" and "Yes" are one word of a language model."""
    answer = getattr(bound, "answer", None)
    return bound.target if answer is None else (answer.wanted, answer.forced, answer.mean)


def named(model: Model, top: int | None) -> str | None:
    """The name of the answer a model would give, where both are known."""
    return str(model.labels[top]) if top is not None and isinstance(model, Answers) else None


class GridModel(ABC):
    """A model whose geometry brings every image to its input grid; a family adds `settle` and `respond`."""

    name: str
    geometry: Geometry
    settings: dict[str, str]
    takes_points = False  # whether a point on the photo names an answer
    takes_several = False  # whether one question may be about several images

    def __repr__(self) -> str:
        where = [self.settings[name] for name in ("device", "dtype") if name in self.settings]
        return f"<{' '.join([type(self).__name__, self.name, *where])}>"

    def bind(
        self,
        image: ImageSource,
        *,
        target: Wanted = None,
        question: str | None = None,
        resize: Resize = "own",
        fill: Fill = "black",
    ) -> Bound:
        """Put the image on the input grid and settle which answer is explained (by default the model's own)."""
        if isinstance(target, tuple) and not self.takes_points:
            raise WhymaskError(f"{self.name} does not accept a point as its target; only detectors and segmenters do.")
        return self.settle(self.view(image, resize, fill), target, question)

    def view(self, image: ImageSource, resize: Resize = "own", fill: Fill = "black") -> View:
        """The image on the input grid; several images of one question side by side on one canvas."""
        if isinstance(image, list):
            if not self.takes_several:
                raise WhymaskError(f"{self.name} takes a single image.")
            return self._several(image, resize, fill)
        picture = load_image(image)
        canvas, box = self.geometry.place(picture, resize)
        return View(picture, canvas, fill_canvas(fill, canvas), box)

    def _several(self, images: list[Any], resize: Resize, fill: Fill) -> View:
        if not images:
            raise WhymaskError("there is no image in this list.")
        placed = [self.geometry.place(load_image(one), resize)[0] for one in images]
        canvas, panels = side_by_side(placed)
        if isinstance(fill, np.ndarray) and fill.shape == canvas.shape:
            hidden = fill  # of the canvas, as a result keeps it
        else:
            hidden, _ = side_by_side([fill_canvas(fill, one) for one in placed])
        return View(Image.fromarray(canvas), canvas, hidden, WHOLE, panels=panels)

    @abstractmethod
    def settle(self, view: View, target: Any, question: str | None) -> Bound:
        """Bind an image that is on the grid to the answer that a user means by target (a `Wanted`) and question."""

    def asked(self, question: str | None) -> str:
        """The question, which a model that answers questions requires."""
        if question is None or not question.strip():
            raise WhymaskError(f"{self.name} answers questions: pass a question such as 'Is there a cup?'.")
        return question
