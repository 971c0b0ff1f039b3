"""Vanilla gradients: how fast the class score changes with each pixel (Simonyan et al., 2014)."""

import numpy as np
import torch

from whymask.baselines.backward import backward, captum
from whymask.models.differentiable import Differentiable


@backward("the size of the gradient")
def gradient(image: Differentiable, rng: np.random.Generator) -> torch.Tensor:
    """max_c |d logit / d pixel_c| over the channels c of a pixel in grey levels, through captum.

    It is the gradient alone, of the logit, as published. Other code sums or averages over channels, multiplies by the
    input or differentiates the probability. Every patch of a model that takes patches has its own gradient.
    """
    x = image.inputs[None].detach().clone().requires_grad_()
    slope = captum().Saliency(image.logit).attribute(x, abs=False)[0]
    return image.channels(slope * image.level).abs().amax(dim=0)
