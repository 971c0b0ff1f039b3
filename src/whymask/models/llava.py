"""LLaVA-1.5: a CLIP tower's patches, projected into a Llama's embedding space."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from whymask.errors import WhymaskError, whole
from whymask.images.imaging import WHOLE, Box, Canvas, Geometry, Preprocessed, Resize, capped, resized
from whymask.models.hf import from_checkpoint, pixel_steps
from whymask.models.towers import TowerMllm, load_parts


@dataclass(frozen=True)
class Padded(Geometry):
    """The whole image, its longer side `size`, padded to a square.

    The canvas has no padding, so padding is in no region: the model always sees it.
    """

    size: int

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        size = image.size
        if resize == "own":
            size = (max(1, round(size[0] * self.size / max(size))), max(1, round(size[1] * self.size / max(size))))
        elif resize == "squash":
            size = (self.size, self.size)
        return resized(image, size), WHOLE


@dataclass(frozen=True)
class Capped(Geometry):
    """Another geometry, given images whose longer side is at most `max_side` pixels."""

    geometry: Geometry
    max_side: int

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        return self.geometry.place(image if resize == "none" else capped(image, self.max_side), resize)


class Llava(TowerMllm):
    """Inputs are normalised pixels (3, size, size)."""

    pays = 1_500  # only the decoder is compiled: 3 s, and 2 ms less an image
    cam_depth = 13 / 32

    def __init__(
        self,
        module: Any,
        processor: Any,
        tokenizer: Any,
        *,
        pad: bool | None = None,
        max_side: int | None = None,
        **options: Any,
    ) -> None:
        self.processor = processor
        self.size = int(processor.crop_size["height"])
        pad = bool(getattr(processor, "do_pad", False)) if pad is None else pad
        self.geometry: Geometry = Padded(self.size) if pad else Preprocessed([pixel_steps(processor)])
        # As transformers pads: with the mean colour.
        self.margin = np.array([int(255 * mean) for mean in processor.image_mean], dtype=np.uint8)
        view = f"{'padded to a square' if pad else 'centre crop'}, {self.size} pixels"
        if max_side is not None:
            self.geometry = Capped(self.geometry, max_side)
            view += f", longer side first at most {max_side}"
        super().__init__(module, tokenizer, view=view, **options)

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Pixels (H, W, 3), padded to a square, (3, size, size)."""
        if max(canvas.shape[:2]) != self.size:
            height, width = canvas.shape[:2]
            raise WhymaskError(f"this model's grid is {self.size} x {self.size} pixels, not {width} x {height}.")
        square = np.broadcast_to(self.margin, (self.size, self.size, 3)).copy()
        square[self._inside(canvas.shape[:2])] = canvas
        whole = {"do_resize": False, "do_center_crop": False, "do_pad": False}
        values = self.processor(images=square, **whole, return_tensors="np")["pixel_values"][0]
        return torch.from_numpy(np.array(values, dtype=np.float32)).to(self.device, self.dtype)

    def spread(self, labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """A label map (H, W) as (1, size, size); the padding is the same whether its region is kept or not."""
        square = np.zeros((self.size, self.size), dtype=np.int64)
        square[self._inside(labels.shape)] = labels
        return square[None]

    def _inside(self, shape: tuple[int, ...]) -> tuple[slice, slice]:
        """Where an image lies in the padded square."""
        top, left = ((self.size - side) // 2 for side in shape)
        return slice(top, top + shape[0]), slice(left, left + shape[1])

    def see(self, inputs: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Image tokens, by transformers' own tower and projection."""
        return torch.stack(list(self.module.model.get_image_features(pixel_values=inputs).pooler_output))

    def token_grid(self, shape: tuple[int, int]) -> tuple[int, int]:
        """All patches of the square."""
        side = self.size // self.module.config.vision_config.patch_size
        return side, side

    def on_canvas(self, cells: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """The tokens cover the square; the canvas may be the middle of it."""
        return super().on_canvas(cells, (self.size, self.size))[self._inside(shape)]


def load(
    checkpoint: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    pad: bool | None = None,
    max_side: int | None = None,
    compile: bool | None = None,
) -> Llava:
    """A LLaVA-1.5 checkpoint from the hub or a local folder; tensors only, no remote code.

    Args:
        checkpoint: such as "llava-hf/llava-1.5-7b-hf".
        dtype: by default fp32 on a CPU and fp16 elsewhere, as the paper has it.
        pad: True shows the model the whole image, padded to a square; False its centre. By default what the
            checkpoint's own preprocessing does, which is the centre crop for llava-hf's: regions outside are not seen.
        max_side: larger images are reduced to this many pixels on their longer side before that preprocessing, which
            enlarges them again (the paper's 336); by default they are not.
        compile: True compiles at once, False never; by default once the images scored would have paid for it.
    """
    import transformers

    precision = dtype or ("fp32" if device == "cpu" else "fp16")
    module, tokenizer = load_parts(checkpoint, transformers.LlavaForConditionalGeneration, precision)
    # It reads CLIP's settings too, and needs only Pillow.
    processor = from_checkpoint(transformers.LlavaImageProcessorPil, checkpoint)
    cap = None if max_side is None else whole("max_side", max_side, 1)
    return Llava(module, processor, tokenizer, name=checkpoint, device=device, pad=pad, max_side=cap, compile=compile)
