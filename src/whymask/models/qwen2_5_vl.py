"""Qwen2.5-VL: patches of an image of any shape, windows of them attended together."""

from copy import copy
from dataclasses import dataclass, replace
from math import ceil, floor, sqrt
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import WHOLE, Box, Canvas, Geometry, Resize, resized
from whymask.models.hf import from_checkpoint
from whymask.models.qwen_vision import BatchedTower, agrees, run_block
from whymask.models.towers import TowerMllm, load_parts


@dataclass(frozen=True)
class Patches(Geometry):
    """The whole image, both sides brought to multiples of `unit` pixels within the limits.

    "own" and "squash" are the same here.
    """

    unit: int  # pixels a side of what becomes one image token
    max_side: int
    min_pixels: int
    max_pixels: int

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        size = image.size if resize == "none" else self.size(*image.size)
        if size[0] % self.unit or size[1] % self.unit:
            raise WhymaskError(
                f"the sides of this model's grid are multiples of {self.unit} pixels, not {size[0]} x {size[1]}."
            )
        return resized(image, size), WHOLE

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height on the grid: the aspect nearly kept, the pixels within the limits.

        Where the limits are nearly equal, as in a checkpoint for one size, the lower one counts, as in transformers.
        """
        if max(width, height) > 200 * min(width, height):
            raise WhymaskError(
                f"an image of {width} x {height} pixels is too long: one side is over 200 times the other."
            )
        shrink = min(1.0, self.max_side / max(width, height))
        sides = [max(1, round(side * shrink)) for side in (width, height)]
        fitted = [max(self.unit, round(side / self.unit) * self.unit) for side in sides]
        if fitted[0] * fitted[1] > self.max_pixels:
            factor = sqrt(self.max_pixels / (sides[0] * sides[1]))
            fitted = [max(self.unit, floor(side * factor / self.unit) * self.unit) for side in sides]
        elif fitted[0] * fitted[1] < self.min_pixels:
            factor = sqrt(self.min_pixels / (sides[0] * sides[1]))
            fitted = [ceil(side * factor / self.unit) * self.unit for side in sides]
        return fitted[0], fitted[1]


class Qwen25VL(TowerMllm):
    """Inputs are rows of patches (patches, channels * frames, pixels), in the order of the image processor."""

    cam_depth = 32 / 36

    def __init__(
        self,
        module: Any,
        processor: Any,
        tokenizer: Any,
        *,
        max_side: int = 448,
        max_pixels: int = 401408,
        **options: Any,
    ) -> None:
        self.processor = processor
        self.patch, self.merge = processor.patch_size, processor.merge_size
        least, most = processor.size["shortest_edge"], min(processor.size["longest_edge"], max_pixels)
        self.geometry = Patches(self.patch * self.merge, max_side, least, most)
        view = f"whole image, longer side at most {max_side}, {least} to {most} pixels"
        super().__init__(module, tokenizer, view=view, **options)
        self.tower = BatchedTower(self.module.model.visual) if agrees() else None
        self.settings["windows"] = "batched" if self.tower else "one by one"

    def within(self, **pixels: int) -> Self:
        """The same model with other limits; it never gets more pixels than it was loaded with."""
        made, geometry = copy(self), cast(Patches, self.geometry)
        most = min(pixels.get("max_pixels", geometry.max_pixels), geometry.max_pixels)
        least = min(pixels.get("min_pixels", geometry.min_pixels), most)
        made.geometry = replace(geometry, min_pixels=least, max_pixels=most)
        return made

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Pixels (H, W, 3) to normalised patches (patches, channels * frames, pixels)."""
        values = self.processor(images=canvas, do_resize=False, return_tensors="np")["pixel_values"]
        patches = np.array(values, dtype=np.float32).reshape(len(values), -1, self.patch**2)
        return torch.from_numpy(patches).to(self.device, self.dtype)

    def spread(self, labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """A label map (H, W) as (patches, 1, pixels): channels and frames of a pixel share its region."""
        unit = (self.merge, self.patch)
        rows, columns = (side // (self.patch * self.merge) for side in labels.shape)
        blocks = labels.reshape(rows, *unit, columns, *unit).transpose(0, 3, 1, 4, 2, 5)
        return blocks.reshape(-1, 1, self.patch**2).astype(np.int64)

    def see(self, inputs: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Image tokens, by one batched tower or by transformers' own."""
        grid = (shape[0] // self.patch, shape[1] // self.patch)
        patches = inputs.flatten(2)
        if self.tower:
            return self.tower(patches, grid)
        grids = torch.tensor([[1, *grid]] * len(inputs), device=self.device)
        seen = self.module.model.get_image_features(patches.flatten(0, 1), grids).pooler_output
        return torch.stack(list(seen))

    def positions(self, before: int, shape: tuple[int, int], length: int) -> torch.Tensor:
        """(3, 1, L) time, row and column: text counts up in all three, the image spans a rectangle after `before`."""
        rows, columns = (side // (self.patch * self.merge) for side in shape)
        area = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")).flatten(1)
        image = before + torch.cat([torch.zeros_like(area[:1]), area])
        rest = torch.arange(length - before - rows * columns) + before + max(rows, columns)
        texts = torch.arange(before).expand(3, -1), rest.expand(3, -1)
        return torch.cat([texts[0], image, texts[1]], dim=1)[:, None].to(self.device)

    def token_grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """Patches are merged before the language model reads them."""
        return shape[0] // (self.patch * self.merge), shape[1] // (self.patch * self.merge)

    def compile(self) -> None:
        """Compile the decoder's layers, and the tower's blocks as one function."""
        super().compile()
        if self.tower:
            self.tower.run = torch.compile(run_block, dynamic=True)

    def uncompile(self) -> None:
        """Run everything as it is again."""
        super().uncompile()
        if self.tower:
            self.tower.run = run_block


def load(
    checkpoint: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    max_side: int = 448,
    max_pixels: int = 401408,
    compile: bool | None = None,
) -> Qwen25VL:
    """A Qwen2.5-VL checkpoint from the hub or a local folder; tensors only, no remote code.

    Args:
        checkpoint: such as "Qwen/Qwen2.5-VL-3B-Instruct".
        dtype: by default fp32 on a CPU and bf16 elsewhere.
        max_side: larger images are reduced to this many pixels on their longer side (the paper's 448).
        max_pixels: and to this many in all.
        compile: True compiles at once, False never; by default once the images scored would have paid for it.
    """
    import transformers

    precision = dtype or ("fp32" if device == "cpu" else "bf16")
    module, tokenizer = load_parts(checkpoint, transformers.Qwen2_5_VLForConditionalGeneration, precision)
    # The processor that needs only Pillow; the one for both text and images needs torchvision.
    processor = from_checkpoint(transformers.Qwen2VLImageProcessorPil, checkpoint)
    limits = {"max_side": whole("max_side", max_side, 28), "max_pixels": whole("max_pixels", max_pixels, 28 * 28)}
    return Qwen25VL(module, processor, tokenizer, name=checkpoint, device=device, compile=compile, **limits)
