"""Grad-ECLIP: the value vectors of the last attention, weighted by gradient and similarity (Zhao et al., 2024)."""

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, hooked
from whymask.baselines.grad_cam import patch_grid
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable

PARTS = ("q_proj", "k_proj", "v_proj", "out_proj")


@backward("the last attention of a CLIP ViT, by gradients", requires="clip")
def grad_eclip(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """relu(sum_c w_c s_i v_ic) over patches i, for the last attention of a CLIP vision transformer.

    w is the gradient of cos(image, text) at the class token's attention output, v the values, and s the cosine between
    the class token's query and each patch's key, scaled to 0 ... 1. That is the published formula on the model as it
    is; the authors' script sends queries and keys through the output projection before the cosine, and computes the
    last attention with one head, which gives other logits than the model's.
    """
    attentions = [part for part in image.module.modules() if is_attention(part)]
    # An attention without a common projection reads other tokens than it writes: a pooler, whose query is no patch.
    if not attentions or image.tokens is not None or getattr(attentions[-1], "in_proj_weight", 0) is None:
        raise WhymaskError("grad-eclip needs a CLIP vision transformer; for other networks, use 'grad-cam'.")
    last = attentions[-1]
    looked_at = fused if isinstance(last, torch.nn.MultiheadAttention) else projected
    slope, query, keys, values = looked_at(image, last)
    grid = patch_grid(len(values), image)
    if grid is None:
        raise WhymaskError("grad-eclip cannot determine how this model's patches lie on the image.")
    patches = grid[0] * grid[1]
    similar = torch.cosine_similarity(query[:1], keys[-patches:], dim=1)
    similar = (similar - similar.min()) / (similar.max() - similar.min()).clamp(min=1e-12)
    return image.stretched((similar * (values[-patches:] @ slope[0])).relu().view(grid))


def is_attention(part: torch.nn.Module) -> bool:
    """Whether this is an attention, of transformers or (as in open_clip) of torch."""
    return isinstance(part, torch.nn.MultiheadAttention) or all(hasattr(part, name) for name in PARTS)


def projected(image: Differentiable, attention: Any) -> list[torch.Tensor]:
    """The gradient of the logit at the attention's output, queries, keys and values, all (T, D)."""
    recorded: dict[torch.nn.Module, torch.Tensor] = {}
    *inner, outer = (getattr(attention, name) for name in PARTS)

    def record(part: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        recorded[part] = inputs[0] if part is outer else output

    with hooked([*inner, outer], record):
        logit = image.logit(image.inputs[None].detach().clone().requires_grad_())
    (slope,) = torch.autograd.grad(logit.sum(), recorded[outer])
    return [slope[0], *(recorded[part][0].detach() for part in inner)]


def fused(image: Differentiable, attention: Any) -> list[torch.Tensor]:
    """The same for torch's own attention, which projects in a function: none of its parts is called."""
    recorded: list[torch.Tensor] = []

    def record(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        recorded[:] = [inputs[0], output[0]]

    with hooked([attention], record):
        logit = image.logit(image.inputs[None].detach().clone().requires_grad_())
    x, output = recorded
    (slope,) = torch.autograd.grad(logit.sum(), output)
    parts = torch.nn.functional.linear(x.detach(), attention.in_proj_weight, attention.in_proj_bias).chunk(3, dim=-1)
    return [part.flatten(0, 1) for part in (slope @ attention.out_proj.weight, *parts)]  # one image: either axis is 1
