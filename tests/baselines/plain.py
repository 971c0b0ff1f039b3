"""Images on models whose gradients are known in closed form."""

import numpy as np
import torch

import whymask
from whymask.explainer.case import Case


class Linear(torch.nn.Module):
    """Two classes: logits w . x and 0, so that f_y of the first is a sigmoid of w . x."""

    def __init__(self, weights):
        super().__init__()
        self.head = torch.nn.Linear(weights.numel(), 2, bias=False)
        self.head.weight.data = torch.stack([weights.flatten(), torch.zeros(weights.numel())])

    def forward(self, x):
        return self.head(x.flatten(1))


def linear(size=8, seed=0, scale=1.0):
    """A linear model over size x size images, its weights (3, size, size) by channel, and an image."""
    rng = np.random.default_rng(seed)
    weights = torch.from_numpy(rng.normal(0, scale, (3, size, size)).astype(np.float32))
    model = whymask.wrap(Linear(weights), size=size, mean=(0, 0, 0), std=(255, 255, 255), crop=1.0)
    image = rng.integers(1, 256, (size, size, 3), dtype=np.uint8)
    return model, weights.numpy(), image


def every_pixel(image, model, target=0, **options):
    """A case whose regions are the pixels."""
    size = len(image)
    return Case.of(image, model, target=target, regions=np.arange(size * size).reshape(size, size), **options)


def planted(size=32):
    """A CNN whose class 1 answers to bright spots (not to brightness: blurred, they are gone), and a photo of one.

    The spot is region 6 of "grid:4x4".
    """
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 2, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(2, 2, bias=False),
    )  # fmt: skip
    net[0].weight.data.fill_(1 / 27)
    net[0].weight.data[1] *= -1
    net[0].bias.data = torch.tensor([-0.5, 0.0])
    net[5].weight.data = torch.tensor([[0.0, 0.0], [120.0, 0.0]])
    model = whymask.wrap(net, size=size, mean=(0, 0, 0), std=(255, 255, 255), crop=1.0)
    image = np.full((size, size, 3), 20, dtype=np.uint8)
    cell = size // 4
    image[cell : 2 * cell, 2 * cell : 3 * cell] = 250
    return model, image


def smooth(size=16, seed=0):
    """A network without kinks or ties, with blocks to checkpoint, and an image of noise."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Tanh()),
        torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.Tanh()),
        torch.nn.AvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(4 * (size // 4) ** 2, 3),
    )  # fmt: skip
    model = whymask.wrap(net, size=size, mean=(0, 0, 0), std=(255, 255, 255), crop=1.0)
    return model, np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
