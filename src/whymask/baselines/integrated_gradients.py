"""Integrated gradients: the gradient on the straight way from the fill to the image (Sundararajan et al., 2017)."""

import numpy as np
import torch

from whymask.baselines.backward import backward
from whymask.baselines.captum import attr
from whymask.errors import whole
from whymask.models.differentiable import Differentiable


@backward
def integrated_gradients(image: Differentiable, rng: np.random.Generator, *, steps: int = 50) -> torch.Tensor:
    """What each pixel adds to f_y(image) - f_y(fill), signed and summed over channels, through captum."""
    whole("steps", steps, 1)
    method = attr().IntegratedGradients(image.score)
    x, x0 = image.inputs[None].detach(), image.bound.fill_inputs[None]
    return image.plane(method.attribute(x, baselines=x0, n_steps=steps, internal_batch_size=image.at_once)[0])
