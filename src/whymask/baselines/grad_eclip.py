"""Grad-ECLIP: the value vectors of the last attention, weighted by gradient and similarity (Zhao et al., 2024)."""

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, listening
from whymask.baselines.grad_cam import as_maps, patch_grid
from whymask.errors import WhymaskError
from whymask.models.differentiable import Differentiable

PARTS = ("q_proj", "k_proj", "v_proj", "out_proj")


@backward("the last attention of a CLIP ViT, by gradients", requires="clip")
def grad_eclip(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """relu(sum_c w_c s_i v_ic) over patches i, for the last attention of a CLIP vision transformer.

    w is the gradient of cos(image, text) at the class token's attention output, v the values, and s the cosine between
    the class token's query and each patch's key, scaled to 0 ... 1.
    """
    attentions = [part for part in image.module.modules() if all(hasattr(part, name) for name in PARTS)]
    if not attentions or image.tokens is not None:
        raise WhymaskError("grad-eclip needs a CLIP vision transformer of transformers; 'grad-cam' takes any network.")
    names = {getattr(attentions[-1], name): name for name in PARTS}
    heard: dict[str, torch.Tensor] = {}

    def hear(part: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        heard[names[part]] = inputs[0] if names[part] == "out_proj" else output

    with listening(names, hear):
        logit = image.logit(image.inputs[None].detach().clone().requires_grad_())
    (gradient,) = torch.autograd.grad(logit.sum(), heard["out_proj"])
    grid = patch_grid(heard["v_proj"].shape[1], image)
    if grid is None:
        raise WhymaskError("grad-eclip cannot tell how this model's patches lie on the image.")
    query, keys, values = (heard[name].detach() for name in PARTS[:3])
    similar = torch.cosine_similarity(query[0, :1], keys[0, -grid[0] * grid[1] :], dim=1)
    similar = (similar - similar.min()) / (similar.max() - similar.min()).clamp(min=1e-12)
    weighted = gradient[0, 0] @ as_maps(values, grid).flatten(1)
    return image.stretched((similar * weighted).relu().view(grid))
