"""Vanilla gradients: how fast the class score changes with each pixel (Simonyan et al., 2014)."""

import numpy as np
import torch

from whymask.baselines.backward import backward, captum
from whymask.models.differentiable import Differentiable


@backward("the size of the gradient")
def gradient(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """|d logit / d pixel|, summed over channels, through captum.

    It is the gradient alone, not times the input, and every patch of a model that takes patches has its own.
    """
    x = image.inputs[None].detach().clone().requires_grad_()
    return image.plane(captum().Saliency(image.logit).attribute(x, abs=True)[0])
