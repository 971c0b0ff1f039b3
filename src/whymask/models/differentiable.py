"""An image on a torch model whose score can be differentiated: what methods that use gradients work on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from whymask.arrays import on_device
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas
from whymask.images.masking import blend
from whymask.models.base import Bound, Model
from whymask.models.batching import single

CUDA = torch.finfo(torch.bfloat16).eps
"""Precision of scores on CUDA devices: convolutions in fp32 run in TF32, by kernels that depend on the batch size. In a
network of 40 of them, scores of a batch of 1 and of 16 were seen to differ by 0.1."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """How a model's outputs support the targets: f_y = exp(logit - total), in fp32.

    Scores and gradients are both read from it. For the sigmoid of a logit z, `total` is softplus(z).
    """

    logit: torch.Tensor  # (B,) the target's logit
    total: torch.Tensor  # (B,) the log of the sum of exp over all logits that compete, the target's included

    @property
    def score(self) -> torch.Tensor:
        """f_y (B,)."""
        return (self.logit - self.total).exp().clamp(max=1)


@dataclass(frozen=True, eq=False)
class Softmax(Evidence):
    """Targets among classes that exclude each other."""

    chance: torch.Tensor  # (B,) of the target

    @classmethod
    def of(cls, logits: torch.Tensor, targets: Sequence[int]) -> Self:
        """From logits (B, classes) and the class of each row."""
        column = on_device(targets, logits.device)[:, None]
        logit, chance = (values.gather(1, column)[:, 0] for values in (logits, logits.softmax(dim=1)))
        return cls(logit, logits.logsumexp(dim=1), chance)

    @property
    def score(self) -> torch.Tensor:
        """f_y (B,), as torch.softmax rounds it."""
        return self.chance


@dataclass(frozen=True, eq=False)
class ImageTokens:
    """Where the image's tokens lie in the sequence of a language model."""

    first: int  # position of the first of them
    grid: tuple[int, int]  # (rows, columns), row by row
    norms: Sequence[torch.nn.Module]  # by layer, the normalisation after the attention: (B, length, D)
    usual: int  # the layer that is looked at by default
    place: Callable[[torch.Tensor], torch.Tensor]  # a map of the grid (rows, columns), stretched over the canvas (H, W)


@dataclass(frozen=True, eq=False)
class Differentiable:
    """A bound image, its module and the score f_y as a function through which gradients flow."""

    bound: Bound
    module: torch.nn.Module  # what runs the image; methods register hooks on its layers
    read: Callable[[torch.Tensor], Evidence]  # from inputs (B, ...)
    encode: Callable[[Canvas], torch.Tensor]  # pixels (H, W, 3) in the model's own layout
    tokens: ImageTokens | None = None  # where a language model reads the image
    at_once: int = 20  # images whose graphs may be held at the same time; one where a single image fills the device

    @property
    def inputs(self) -> torch.Tensor:
        """The image in the model's own layout."""
        x: torch.Tensor = self.bound.inputs
        return x

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of the model's grid."""
        return self.bound.canvas.shape[:2]

    def logit(self, inputs: torch.Tensor) -> torch.Tensor:
        """The target's logit (B,) of inputs (B, ...)."""
        return self.read(inputs).logit

    def score(self, inputs: torch.Tensor) -> torch.Tensor:
        """f_y (B,) of inputs (B, ...)."""
        evidence = self.read(inputs)
        return (evidence.logit - evidence.total).exp()

    def blend(self, masks: torch.Tensor, x0: torch.Tensor) -> torch.Tensor:
        """m x + (1 - m) x0 for soft masks (B, H, W) on the image plane."""
        mixed: torch.Tensor = blend(masks, self.bound.pixel, self.inputs, x0)
        return mixed

    def blurred(self, std: float, reach: int) -> torch.Tensor:
        """The image after a Gaussian blur of this standard deviation, cut off `reach` pixels from its centre."""
        smooth = gaussian_filter(self.bound.canvas.astype(np.float32), std, axes=(0, 1), radius=reach, mode="mirror")
        return self.encode(smooth.round().astype(np.uint8))

    def plain(self, red: int, green: int, blue: int) -> torch.Tensor:
        """A picture of one colour in the model's own layout."""
        return self.encode(np.broadcast_to(np.array([red, green, blue], np.uint8), self.bound.canvas.shape).copy())

    @cached_property
    def ends(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The least and the largest value every element of the inputs can have."""
        black, white = self.plain(0, 0, 0), self.plain(255, 255, 255)
        return torch.minimum(black, white), torch.maximum(black, white)

    @cached_property
    def level(self) -> torch.Tensor:
        """How much one grey level is in the units of the inputs."""
        # In half precision 1 and 0 may be the same value.
        return (self.plain(255, 255, 255) - self.plain(0, 0, 0)) / 255

    @cached_property
    def channel(self) -> torch.Tensor:
        """Which of red, green and blue every element of the inputs holds: 0, 1 or 2."""
        black = self.plain(0, 0, 0)
        pure = torch.stack([self.plain(255, 0, 0), self.plain(0, 255, 0), self.plain(0, 0, 255)])
        return (pure - black).abs().argmax(dim=0)

    def channels(self, values: torch.Tensor) -> torch.Tensor:
        """(3, H, W) the sum of values, one for every element of the inputs, by pixel and colour.

        Some models take an image more than once, as two frames of a film, and then a pixel has several elements.
        """
        height, width = self.shape
        values = values * (self.level != 0)  # what a margin adds belongs to no pixel
        place = self.channel * (height * width) + self.bound.pixel
        empty = torch.zeros(3 * height * width, device=values.device)
        return empty.index_add(0, place.flatten(), values.float().flatten()).view(3, height, width)

    def plane(self, values: torch.Tensor) -> torch.Tensor:
        """(H, W) the sum of values, one for every element of the inputs, by pixel."""
        return self.channels(values).sum(dim=0)

    def stretched(self, cells: torch.Tensor) -> torch.Tensor:
        """A map (h, w) of the whole grid at its full size (H, W)."""
        return stretch(cells, self.shape)


def stretch(cells: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """A map (h, w), bilinearly in another shape."""
    return torch.nn.functional.interpolate(cells.float()[None, None], shape, mode="bilinear")[0, 0]


@runtime_checkable
class Differentiates(Protocol):
    """A model that offers gradients."""

    def differentiable(self, bound: Bound) -> Differentiable:
        """A bound image for methods that use gradients."""


def checked(model: Model, bound: Bound) -> Differentiable:
    """The image for methods that use gradients, whose score is the one that forward methods explain.

    The whole image is scored in both ways, and scores that differ by more than rounding raise an error. As all forwards
    of methods that use gradients, these two are not counted.
    """
    if not isinstance(model, Differentiates):
        raise forward_only(model.name)
    image = model.differentiable(bound)

    def score() -> float:
        return float(model.respond(bound.inputs[None].clone(), [bound]).score[0])

    with single(), torch.no_grad():
        respond = score()
        evidence = image.read(bound.inputs[None].clone())
    read, size = float(evidence.score[0]), max(abs(float(evidence.logit[0])), abs(float(evidence.total[0])))
    most = rounding(bound.inputs, size)
    if model.deterministic and abs(respond - read) > most and abs(respond - score()) <= most:  # else it is random
        raise WhymaskError(
            f"{model.name} gives the image a score of {respond:.4f}, and {read:.4f} where gradients are computed: "
            "define the score once, in `evidence`."
        )
    return image


def rounding(inputs: torch.Tensor, size: float) -> float:
    """How much two scores of one image may differ, in the precision of its inputs and for logits of this size.

    Kernels differ by batch size, padding and runtime, and the errors of many layers add up. In each of both scores half
    of the digits are trusted, and logits may be off by four units in their last place, which moves a score by at most
    half as much. Scores are computed in fp32 from what the module returns.
    """
    unit = max(torch.finfo(inputs.dtype).eps, CUDA if inputs.is_cuda else torch.finfo(torch.float32).eps)
    return float(2 * (unit**0.5 + 4 * unit * size / 2))


def forward_only(name: str) -> WhymaskError:
    """The error of a method that uses gradients on a model that has none."""
    return WhymaskError(
        f"this method needs gradients, but {name} does not provide them: "
        "use a torch model, or a method without gradients, such as 'trace' or 'rise'."
    )
