"""Integrated gradients: the gradient on the straight way from the fill to the image (Sundararajan et al., 2017)."""

import numpy as np
import torch

from whymask.baselines.backward import backward, captum
from whymask.models.differentiable import Differentiable
from whymask.search.limits import Count


@backward("gradients along the straight path from the fill")
def integrated_gradients(image: Differentiable, rng: np.random.Generator, *, steps: Count = 50) -> torch.Tensor:
    """The size of what each pixel adds to f_y(image) - f_y(fill).

    Sizes, because signs change from pixel to pixel: their means over regions order them hardly better than chance.
    """
    return contributions(image, steps).abs()


def contributions(image: Differentiable, steps: int) -> torch.Tensor:
    """(H, W) what each pixel adds, signed and summed over channels, through captum."""
    method = captum().IntegratedGradients(image.score)
    x, x0 = image.inputs[None].detach(), image.bound.fill_inputs[None]
    return image.plane(method.attribute(x, baselines=x0, n_steps=steps, internal_batch_size=image.at_once)[0])
