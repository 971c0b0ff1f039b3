"""Grad-CAM: the last feature maps, weighted by their mean gradients (Selvaraju et al., 2017)."""

from collections.abc import Callable
from functools import partial
from itertools import count
from math import log
from typing import Any, TypeAlias

import numpy as np
import torch

from whymask.baselines.backward import backward, hooked
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable

SPECIAL = 16  # the most tokens that stand for no patch: class, distillation, registers

Places: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""One image's output, or its gradient, as maps (C, h, w)."""


@backward("the last feature maps, weighted by their gradients", requires="class")
def grad_cam(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """relu(sum_c mean_gradient_c A_c) of the last layer that still has a place for everything, at the image's size.

    For a CNN that is the last output (B, C, h, w) or (B, h, w, C), whichever has cells that are nearer to squares on
    the image. For a transformer it is the last normalisation whose patch tokens the answer depends on (after the last
    attention only the class token counts, its gradient elsewhere is 0); `patch_grid` finds where they lie.
    """
    if image.tokens is not None:
        raise WhymaskError("grad-cam is for classifiers; for multimodal models, use 'llava-cam'.")
    outputs: list[tuple[torch.nn.Module, torch.Size]] = []  # shapes alone, since the tensors are the whole network's

    def note(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        outputs.append((part, output.shape if isinstance(output, torch.Tensor) else torch.Size()))

    with torch.no_grad(), hooked(image.module.modules(), note):
        image.logit(image.inputs[None])
    layers = candidates(outputs, image)
    if not layers:
        raise WhymaskError("grad-cam found no layer with feature maps or patch tokens in this model.")
    for number, places in layers:
        output, gradient = looked_at(image, number)
        if gradient is not None and places(gradient).any():
            activations, slopes = places(output.detach()).float(), places(gradient).float()
            return image.stretched((slopes.mean(dim=(1, 2), keepdim=True) * activations).sum(dim=0).relu())
    return torch.zeros(image.shape)  # the answer depends on none of them


def looked_at(image: Differentiable, number: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The output of this number, in the order they come, and the gradient of the logit there."""
    outputs: list[torch.Tensor] = []
    numbers = count()

    def keep(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        if next(numbers) == number:
            outputs.append(output)

    with hooked(image.module.modules(), keep):
        logit = image.logit(image.inputs[None].detach().clone().requires_grad_())
    (output,) = outputs
    (gradient,) = torch.autograd.grad(logit.sum(), output, allow_unused=True)
    return output, gradient


def candidates(outputs: list[tuple[torch.nn.Module, torch.Size]], image: Differentiable) -> list[tuple[int, Places]]:
    """The numbers of outputs that could be looked at, the last first, and how to read them."""
    # An output with another first dimension has cut the image into windows, and is not a map.
    last_first = [(i, part, shape) for i, (part, shape) in enumerate(outputs) if shape[:1] == (1,)][::-1]
    norms = [(i, shape) for i, part, shape in last_first if "Norm" in type(part).__name__ and len(shape) == 3]
    tokens = [(i, grid) for i, shape in norms if (grid := patch_grid(shape[1], image))]
    if tokens:
        return [(i, partial(as_maps, grid=grid)) for i, grid in tokens]
    maps = [(i, feature_maps(shape, image.shape)) for i, _, shape in last_first if len(shape) == 4]
    return [(i, places) for i, places in maps if places is not None]


def feature_maps(output: torch.Size, shape: tuple[int, int]) -> Places | None:
    """How to read the maps (C, h, w) from (1, C, h, w) or (1, h, w, C), by their shape; else None.

    Where both would do, as for (1, 7, 7, 7), channels come first.
    """
    _, first, second, third = output
    last = skew((first, second), shape) < skew((second, third), shape)
    grid = (first, second) if last else (second, third)
    if min(grid) < 2 or skew(grid, shape) > log(2):
        return None
    return (lambda values: values[0].permute(2, 0, 1)) if last else (lambda values: values[0])


def as_maps(output: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """One image's tokens (1, T, C) as maps (C, h, w): the last h * w of them are its patches, special ones lead."""
    return output[0, -grid[0] * grid[1] :].T.reshape(-1, *grid)


def patch_grid(tokens: int, image: Differentiable) -> tuple[int, int] | None:
    """The (rows, columns) of the patches among this many tokens of an image, else None.

    The convolution that cuts the image into patches shows it. Where none fits (patches that were merged, or cut by
    reshaping), it is the grid with cells nearest to squares, of equals that with the fewest special tokens.
    """
    height, width = image.shape
    for part in image.module.modules():
        if isinstance(part, torch.nn.Conv2d) and part.kernel_size == part.stride:
            rows, columns = height // part.stride[0], width // part.stride[1]
            if rows * columns > 1 and 0 <= tokens - rows * columns <= SPECIAL:
                return rows, columns
    grids = []
    for patches in range(tokens, max(1, tokens - SPECIAL - 1), -1):
        rows = max(1, round((patches * height / width) ** 0.5))
        if not patches % rows:
            grids.append((rows, patches // rows))
    best = min(grids, key=lambda grid: skew(grid, image.shape), default=None)
    return None if best is None or skew(best, image.shape) > 0.1 else best


def skew(grid: tuple[int, int], shape: tuple[int, int]) -> float:
    """How far the cells of a grid (rows, columns) over an image (H, W) are from squares; 0 where they are."""
    return abs(log(grid[0] * shape[1] / (grid[1] * shape[0])))
