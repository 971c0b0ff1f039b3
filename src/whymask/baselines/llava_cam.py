"""LLaVA-CAM: class activation maps of the image tokens inside a language model, smoothed (Zhang et al., 2025)."""

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, hooked
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable, ImageTokens
from whymask.search.limits import NonNegative

NOISE = 25.5  # grey levels: a tenth of the range


@backward("a multimodal model's image tokens, by gradients", requires="question")
def llava_cam(
    image: Differentiable, rng: np.random.Generator, *, copies: NonNegative = 50, layer: NonNegative | None = None
) -> torch.Tensor:
    """The mean over `copies` noisy images of relu(mean_c w_c A_ic) / max_i, over image tokens i.

    A is the output of a layer's normalisation after its attention, and w the positive part of the gradient of the
    answer's logit there, mean over all image tokens; both are the noisy copy's own. The clean image is not among the
    copies, and is what is mapped where there are none. A map without a positive part counts as zeros (published code
    divides by its maximum of 0). A layer that is not there raises an error, and the last one, which the answer does not
    see at these tokens, is not used.

    All tokens count, each at its true place. EAGLE's code clips the noisy pixels, and for LLaVA stretches the last 256
    of 576 tokens over the image; the authors' own averages maps in false colours, set to zero below half of their
    maximum.
    """
    tokens = image.tokens
    if tokens is None:
        raise WhymaskError("llava-cam is for multimodal models; for classifiers, use 'grad-cam'.")
    most = len(tokens.norms) - 2
    chosen = max(0, min(tokens.usual, most)) if layer is None else layer
    if not 0 <= chosen <= most:
        raise WhymaskError(f"layer must lie between 0 and {most}, not {chosen}.")
    if not copies:
        return tokens.place(cam(image, tokens, chosen, image.inputs))
    total = torch.zeros(tokens.grid, device=image.inputs.device)
    for _ in range(copies):  # one at a time: a copy alone fills a device
        noise = torch.from_numpy(rng.standard_normal(image.inputs.shape, dtype=np.float32)).to(image.level)
        total += cam(image, tokens, chosen, image.inputs + NOISE * image.level * noise)
    return tokens.place(total / copies)


def cam(image: Differentiable, tokens: ImageTokens, layer: int, x: torch.Tensor) -> torch.Tensor:
    """The class activation map (rows, columns) of one image, its maximum 1; all zeros where nothing is positive."""
    recorded: list[torch.Tensor] = []

    def record(part: torch.nn.Module, given: Any, output: torch.Tensor) -> None:
        recorded.append(output)

    with hooked([tokens.norms[layer]], record):
        logit = image.logit(x[None].detach().requires_grad_())
    (slope,) = torch.autograd.grad(logit.sum(), recorded[0])
    own = slice(tokens.first, tokens.first + tokens.grid[0] * tokens.grid[1])
    weights = slope[0, own].float().relu().mean(dim=0)
    cells = (recorded[0][0, own].detach().float() * weights).mean(dim=1).relu()
    return (cells / cells.max().clamp(min=torch.finfo(cells.dtype).tiny)).view(tokens.grid)
