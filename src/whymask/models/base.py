"""What every model family offers: `bind` an image once, then `respond` to masked versions of it in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from whymask.arrays import Floats
from whymask.images.imaging import Box, Canvas, ImageSource, Resize
from whymask.images.masking import Fill

SCORE = "the score"
"""The label of what a function scores that returns one number: it gives no answers."""


@dataclass(frozen=True)
class Target:
    """The answer whose score f_y is explained."""

    index: int  # -1 where only the label names it: a free text, or an answer of a served model
    label: str

    @property
    def name(self) -> int | str:
        """What to pass to `bind` to get this target again."""
        return self.index if self.index >= 0 else self.label


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """An image on a model's input grid, with the answer to explain."""

    image: Image.Image  # the whole image
    canvas: Canvas  # (H, W, 3) what the model sees of it
    fill: Canvas  # (H, W, 3) what it sees where regions are masked
    box: Box  # the part of the image that is on the canvas
    target: Target
    inputs: Any  # the canvas in the model's own layout, on its device
    fill_inputs: Any  # the fill, likewise
    key: Hashable  # rows of bounds with equal keys may share a batch
    probes: int  # forwards spent on finding the target

    @abstractmethod
    def index(self, labels: NDArray[np.int32]) -> Any:
        """The region of every element of `inputs` (broadcastable), for a label map (H, W)."""

    @cached_property
    def pixel(self) -> Any:
        """row * W + column of every element of `inputs`: each pixel as a region of its own."""
        height, width = self.canvas.shape[:2]
        return self.index(np.arange(height * width, dtype=np.int32).reshape(height, width))


@dataclass(frozen=True, eq=False)
class Response:
    """Scores of a batch of masked inputs."""

    score: Floats  # (B,) f_y in [0, 1]
    top: NDArray[np.int64] | None  # (B,) the answer the model would give, where that is known


class Model(Protocol):
    """A model that can be run forward."""

    name: str
    deterministic: bool
    batch_size: int  # images a batch, unless the user says otherwise
    default_k: int
    settings: dict[str, str]  # device, precision: what else can move a score

    @property
    def fingerprint(self) -> str:
        """Equal only for equal weights and preprocessing."""

    def bind(
        self,
        image: ImageSource,
        *,
        target: int | str | None = None,
        question: str | None = None,
        resize: Resize = "own",
        fill: Fill = "black",
    ) -> Bound:
        """Put the image on the input grid and settle which answer is explained (by default the model's own)."""

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Score masked inputs (B, ...), row i by the target of bounds[i]."""
