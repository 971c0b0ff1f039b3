"""A classifier small enough to know: class c scores by the brightness of quadrant c."""

import numpy as np
import torch

from whymask.images.imaging import CentreCrop
from whymask.models.torch_module import TorchClassifier

QUADRANTS = ["top left", "top right", "bottom left", "bottom right"]


class Quadrants(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sharpness = torch.nn.Parameter(torch.tensor(6.0))

    def forward(self, x):
        pooled = torch.nn.functional.adaptive_avg_pool2d(x.mean(dim=1, keepdim=True), 2)
        return self.sharpness * pooled.flatten(1)


def quadrants(size=32, share=1.0, **options):
    return TorchClassifier(
        Quadrants(),
        CentreCrop(size, share),
        QUADRANTS,
        aliases={"nw": 0, "ne": 1, "sw": 2, "se": 3},
        mean=(0, 0, 0),
        std=(255, 255, 255),
        name="quadrants",
        fingerprint="quadrants",
        **options,
    )


def lit(quadrant, size=32):
    """A dim image with one bright quadrant."""
    image = np.full((size, size, 3), 60, dtype=np.uint8)
    rows, cols = divmod(quadrant, 2)
    half = size // 2
    image[rows * half : (rows + 1) * half, cols * half : (cols + 1) * half] = 220
    return image
