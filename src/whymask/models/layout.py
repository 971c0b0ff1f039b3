"""Where the pixels of an image go in the inputs that a processor makes of it, found out by sending images through it.

A processor that only moves pixels and scales their values commutes with masking: masked inputs can be composed from
those of the image and of the fill, and equal the inputs of the masked image bit by bit. One that also mixes pixels (a
thumbnail of tiles, a normalisation by the image's own contrast) does not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from whymask.images.imaging import Canvas

Inputs: TypeAlias = Mapping[str, torch.Tensor]
"""The tensors that a processor returns, by name."""

LEVELS = 255
BYTES = 3  # of a pixel's number: canvases of up to 16.7 megapixels


@dataclass(frozen=True, eq=False)
class Layout:
    """For every element of a processor's inputs, the canvas pixel it shows.

    The tensors that show pixels are joined into one vector of E elements, in the order of `shapes`.
    """

    shapes: dict[str, torch.Size]  # of the tensors that show pixels, for one image
    pixel: torch.Tensor  # (E,) row * W + column; of elements that show none (padding), 0

    def join(self, made: Inputs) -> torch.Tensor:
        """The elements (E,) of one image's inputs."""
        return torch.cat([made[name].flatten() for name in self.shapes])

    def split(self, joined: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors of a batch (B, E), images one after the other along the first dimension."""
        parts = torch.split(joined, [shape.numel() for shape in self.shapes.values()], dim=1)
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(len(joined) * shape[0], *shape[1:]) for (name, shape), part in named}

    def box(self, width: int) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of the pixels that are shown; a crop leaves some out."""
        rows, columns = (self.pixel // width, self.pixel % width)
        return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def learn(process: Callable[[Canvas], Inputs], shape: tuple[int, int]) -> Layout | None:
    """The layout of canvases of this shape; None where masked inputs cannot be composed exactly.

    Black and white images give the ends of every element's scale, which need not be known. Three grey images hold the
    bytes of each pixel's number. That composition is exact is then checked on a random image, fill and mask.

    Args:
        process: from pixels (H, W, 3) to the inputs of one image, on the CPU.
        shape: (H, W).
    """
    height, width = shape
    black, white = (process(np.full((height, width, 3), level, np.uint8)) for level in (0, LEVELS))
    if not alike(black, white):
        return None
    shapes = {name: black[name].shape for name in black if not torch.equal(black[name], white[name])}
    if not shapes:
        return None
    layout = Layout(shapes, torch.empty(0))
    low, high = layout.join(black).double(), layout.join(white).double()
    shows = low != high
    number = np.arange(height * width).reshape(height, width)
    pixel = torch.zeros(len(low), dtype=torch.int64)
    for byte in range(BYTES):
        grey = ((number >> (8 * byte)) & LEVELS).astype(np.uint8)
        made = process(np.repeat(grey[..., None], 3, axis=2))
        if not alike(black, made):
            return None
        level = torch.where(shows, (layout.join(made).double() - low) / (high - low) * LEVELS, 0.0)
        if not bool(((level - level.round()).abs() < 0.1).all()):  # a mixture of pixels
            return None
        pixel += level.round().long().clamp(0, LEVELS) << (8 * byte)
    if int(pixel.max()) >= height * width:
        return None
    layout = Layout(shapes, pixel)
    return layout if _exact(process, layout, shape) else None


def _exact(process: Callable[[Canvas], Inputs], layout: Layout, shape: tuple[int, int]) -> bool:
    """Whether composing equals processing, bit by bit, for a random image, fill and mask."""
    rng = np.random.default_rng(0)
    image, fill = rng.integers(0, LEVELS + 1, (2, *shape, 3), dtype=np.uint8)
    kept = rng.random(shape) < 0.5
    made, other, masked = (process(x) for x in (image, fill, np.where(kept[..., None], image, fill)))
    if not (alike(made, other) and alike(made, masked)):
        return False
    chosen = torch.where(torch.from_numpy(kept).flatten()[layout.pixel], layout.join(made), layout.join(other))
    rest = made.keys() - layout.shapes.keys()
    return torch.equal(chosen, layout.join(masked)) and all(torch.equal(made[name], masked[name]) for name in rest)


def alike(one: Inputs, other: Inputs) -> bool:
    """Whether the inputs of two images have the same names and shapes."""
    return one.keys() == other.keys() and all(one[name].shape == other[name].shape for name in one)
