"""LLaVA-CAM: the image tokens inside a language model, weighted by smoothed gradients (Zhang et al., 2025)."""

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, listening
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable, ImageTokens
from whymask.search.limits import NonNegative

NOISE = 25.5  # grey levels: a tenth of the range


@backward("a multimodal model's image tokens, by gradients", requires="question")
def llava_cam(
    image: Differentiable, rng: np.random.Generator, *, copies: NonNegative = 50, layer: NonNegative | None = None
) -> torch.Tensor:
    """relu(sum_c w_c A_ic) over image tokens i, A the output of a layer's normalisation after its attention.

    w is the positive part of the gradient of the answer's logit there, mean over all image tokens and over the image
    and `copies` noisy ones. All tokens count, each at its true place (published code for LLaVA stretches the last 256
    of 576 over the image); a layer that is not there is refused, and the last one, which the answer does not see at
    these tokens, is not used.
    """
    tokens = image.tokens
    if tokens is None:
        raise WhymaskError("llava-cam is for multimodal models; 'grad-cam' takes any classifier.")
    most = len(tokens.norms) - 2
    chosen = max(0, min(tokens.usual, most)) if layer is None else layer
    if not 0 <= chosen <= most:
        raise WhymaskError(f"layer must lie between 0 and {most}, not {chosen}.")
    level = image.level
    activations, slope = at_tokens(image, tokens, chosen, image.inputs[None])
    total = slope.relu().sum(dim=0)
    for start in range(0, copies, image.at_once):
        shape = (min(image.at_once, copies - start), *image.inputs.shape)
        noise = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(level)
        _, slope = at_tokens(image, tokens, chosen, image.inputs + NOISE * level * noise)
        total += slope.relu().sum(dim=0)
    weights = (total / (copies + 1)).mean(dim=0)
    return tokens.place((activations[0] @ weights).relu().view(tokens.grid))


def at_tokens(
    image: Differentiable, tokens: ImageTokens, layer: int, inputs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations (B, T, D) of the image's tokens at a layer, and the gradients of the answer's logits there."""
    heard: list[torch.Tensor] = []

    def hear(part: torch.nn.Module, given: Any, output: torch.Tensor) -> None:
        heard.append(output)

    with listening([tokens.norms[layer]], hear):
        logit = image.logit(inputs.detach().requires_grad_())
    (slope,) = torch.autograd.grad(logit.sum(), heard[0])
    own = slice(tokens.first, tokens.first + tokens.grid[0] * tokens.grid[1])
    return heard[0][:, own].detach().float(), slope[:, own].float()
