"""IG2: the gradient on an iterative path that takes the image's features to a reference's (Zhuo and Ge, 2024)."""

from typing import Any

import numpy as np
import torch

from whymask.baselines.backward import backward, hooked
from whymask.models.differentiable import Differentiable
from whymask.search.limits import Count, Positive

BLURS = (3, 7, 15, 31)  # standard deviations in pixels of the references


@backward("gradients along a path towards blurred references")
def ig2(image: Differentiable, rng: np.random.Generator, *, steps: Count = 32, step: Positive = 8.0) -> torch.Tensor:
    """The size of what each channel of a pixel adds to f_y along the path, mean over blurred references, summed.

    Each of `steps` steps goes down the gradient of the squared distance between the features of the image and of the
    reference, `step` grey levels long (Euclidean), and stays among valid pixel values. Features are what the last
    linear layer takes in, a vector per image; where that layer is not a head (CLIP's ResNets call none, open_clip's
    ViTs end in an MLP over tokens), they are the module's output. As published, sizes are taken channel by channel, so
    that one channel's gain does not hide another's loss.

    The publication takes images of other classes as references and 201 steps of 256 grey levels; references that need
    no other images, and these steps, are those of the code the paper builds on.
    """
    references = torch.stack([image.blurred(std, reach=2 * std) for std in BLURS])
    paths = [path_integral(image, some, steps, step) for some in torch.split(references, image.at_once)]
    return image.channels(torch.cat(paths).mean(dim=0)).abs().sum(dim=0)


def path_integral(image: Differentiable, references: torch.Tensor, steps: int, step: float) -> torch.Tensor:
    """(R, ...) the sum of gradient times movement, signed, a path for each of the references (R, ...)."""
    with torch.no_grad():
        _, goal = score_and_features(image, references)
    level = image.level
    x = image.inputs.detach().expand_as(references).clone()
    total = torch.zeros_like(x)
    for _ in range(steps):
        x.requires_grad_()
        score, features = score_and_features(image, x)
        (slope,) = torch.autograd.grad(((features - goal) ** 2).sum(), x, retain_graph=True)
        (gradient,) = torch.autograd.grad(score.sum(), x)
        slope = slope * level  # by grey level
        length = slope.flatten(1).norm(dim=1).clamp(min=torch.finfo(slope.dtype).tiny)
        x = x.detach()
        moved = (x - step * slope / length.view(-1, *[1] * (x.ndim - 1)) * level).clamp(*image.ends)
        total += gradient * (x - moved)
        x = moved
    return total


def score_and_features(image: Differentiable, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """f_y (B,) and the features (B, D), in one forward."""
    recorded: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []

    def record(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(part, torch.nn.Linear):
            recorded[:] = [inputs[0]]
        if part is image.module:
            outputs[:] = [output]

    linear = [part for part in image.module.modules() if isinstance(part, torch.nn.Linear)]
    with hooked({*linear, image.module}, record):
        score = image.score(x)
    head = recorded and (recorded[0].ndim == 2 or not outputs)  # a language model is not run as a whole
    (features,) = recorded if head else outputs
    return score, features.flatten(1).float()
