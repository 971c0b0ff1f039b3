"""Grad-CAM: the last feature maps, weighted by their mean gradients (Selvaraju et al., 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, listening
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable

SPECIAL = 16  # the most tokens that stand for no patch: class, distillation, registers


@backward
def grad_cam(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """relu(sum_c mean_gradient_c A_c) of the last layer that still has a place for everything, at the image's size.

    For a CNN that is the last output (B, C, h, w). For a transformer it is the last normalisation whose patch tokens
    the answer depends on (after the last attention only the class token counts, its gradient elsewhere is 0); how
    many tokens are patches, and their grid, follow from their number and the shape of the image.
    """
    if image.tokens is not None:
        raise WhymaskError("grad-cam is for classifiers; 'llava-cam' looks into multimodal models.")
    outputs: list[tuple[torch.nn.Module, torch.Tensor]] = []

    def hear(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            outputs.append((part, output))

    with listening(image.module, hear):
        logit = image.logit(image.inputs[None].detach().clone().requires_grad_())
    for output, maps in candidates(outputs, image.shape):
        (gradient,) = torch.autograd.grad(logit.sum(), output, retain_graph=True, allow_unused=True)
        if gradient is not None and as_maps(gradient, maps).any():
            activations, slopes = as_maps(output.detach(), maps).float(), as_maps(gradient, maps).float()
            return image.stretched((slopes.mean(dim=(1, 2), keepdim=True) * activations).sum(dim=0).relu())
    raise WhymaskError("grad-cam found no layer with feature maps or patch tokens in this model.")


def candidates(
    outputs: list[tuple[torch.nn.Module, torch.Tensor]], shape: tuple[int, int]
) -> list[tuple[torch.Tensor, tuple[int, int] | None]]:
    """Outputs that could be looked at, the last first; for tokens with the grid of their patches."""
    norms = [output for part, output in outputs if "Norm" in type(part).__name__ and output.ndim == 3]
    tokens = [(output, grid) for output in reversed(norms) if (grid := patch_grid(output.shape[1], shape))]
    return list(tokens) or [
        (output, None) for _, output in reversed(outputs) if output.ndim == 4 and min(output.shape[2:]) > 1
    ]


def as_maps(output: torch.Tensor, grid: tuple[int, int] | None) -> torch.Tensor:
    """One image's output as maps (C, h, w): the last h * w tokens of (1, T, C) are its patches."""
    if grid is None:
        return output[0]
    return output[0, -grid[0] * grid[1] :].T.reshape(-1, *grid)


def patch_grid(tokens: int, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The (rows, columns) of the patches among so many tokens of an image of this shape, else None."""
    for special in range(min(SPECIAL + 1, tokens)):
        patches = tokens - special
        rows = round((patches * shape[0] / shape[1]) ** 0.5)
        if patches < 2 or not rows or patches % rows:
            continue
        columns = patches // rows
        if abs(rows * shape[1] / (columns * shape[0]) - 1) < 0.1:  # cells that are nearly square
            return rows, columns
    return None
