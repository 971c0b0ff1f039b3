"""A vision model of transformers with its image processor: pixels in, outputs of any kind."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
import torch
from PIL import Image

from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, Preprocessed
from whymask.models.base import composed
from whymask.models.batching import is_out_of_memory
from whymask.models.hf import configuration, from_checkpoint, model_from_checkpoint, quiet
from whymask.models.located import Located
from whymask.models.precision import beside, converted
from whymask.models.torch_module import DTYPE_NAMES, device_of, dtype_of, evaluating, home_of, module_fingerprint
from whymask.utils.digest import digest


class Vision:
    """Runs a module on what its processor makes of images.

    The canvas is what the processor resizes an image to, without padding. A module that this package has loaded is
    converted and frozen; a borrowed one runs as it is, where it is.
    """

    def __init__(
        self, module: Any, processor: Any, name: str, *, device: str | None, dtype: str | None, borrowed: bool = False
    ) -> None:
        home = home_of(module)
        self.device = home[0] if device is None else device_of(device)
        self.dtype = home[1] if dtype is None else dtype_of(dtype)
        if borrowed and (torch.empty(0, device=self.device).device, self.dtype) != home:
            raise WhymaskError(f"{name} is on {home[0]}, in {DTYPE_NAMES[home[1]]}: move it before you wrap it.")
        self.module, self.processor, self.name, self.borrowed = module, processor, name, borrowed
        if not borrowed:
            converted(module, name, self.device, self.dtype)
        self._weights = None if borrowed else module_fingerprint(module)
        self.geometry = Preprocessed([self._resized])
        self.settings = {"device": str(self.device), "dtype": DTYPE_NAMES[self.dtype], **beside(module, self.dtype)}
        self.batch_size = 4 if self.device.type == "cpu" else 32

    @classmethod
    def around(cls, module: Any, processor: Any, *, device: str | None, dtype: str | None) -> Self:
        """A module that is already there, with its image processor; it is left as it is."""
        name = module.config.name_or_path or type(module).__name__
        return cls(module, processor, name, device=device, dtype=dtype, borrowed=True)

    @property
    def fingerprint(self) -> str:
        """Of the weights (those a borrowed module has now), the configuration and the preprocessing."""
        return composed(
            self._weights or module_fingerprint(self.module),
            configuration=configuration(self.module),
            processor=digest(self.processor.to_json_string()),
        )

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Normalised and padded pixels (3, H, W)."""
        made: torch.Tensor = self._processed(canvas, do_resize=False, return_tensors="pt")["pixel_values"][0]
        return made.to(self.device, self.dtype)

    def __call__(self, inputs: torch.Tensor, **besides: Any) -> Any:
        """The module's outputs for pixels (B, 3, H, W)."""
        with torch.no_grad(), evaluating(self.module) if self.borrowed else nullcontext():
            try:
                return self.module(pixel_values=inputs, **besides)
            except Exception as error:  # of the family's own code
                if is_out_of_memory(error):
                    raise
                raise cannot(self.module, self.name, error) from error

    def _resized(self, image: Image.Image) -> Canvas:
        """What the processor resizes and crops an image to; padding shows no part of any image."""
        pixels = self._pixels(image)
        if not getattr(self.processor, "do_pad", None):
            return pixels
        shown = self._pixels(Image.new("RGB", image.size, "white")) != self._pixels(Image.new("RGB", image.size))
        rows, columns = shown.any(axis=(1, 2)).nonzero()[0], shown.any(axis=(0, 2)).nonzero()[0]
        return np.ascontiguousarray(pixels[: rows[-1] + 1, : columns[-1] + 1])

    def _pixels(self, image: Image.Image) -> Canvas:
        options: dict[str, Any] = {"do_rescale": False, "do_normalize": False}
        if getattr(self.processor, "do_flip_channel_order", None):
            options["do_flip_channel_order"] = False
        values = np.asarray(self._processed(image, **options, return_tensors="np")["pixel_values"][0])
        pixels: Canvas = np.clip(np.rint(np.moveaxis(values, 0, -1)), 0, 255).astype(np.uint8)
        return pixels

    def _processed(self, image: Any, **options: Any) -> Any:
        made = self.processor(images=image, **options)
        if np.ndim(made["pixel_values"]) != 4 or len(made["pixel_values"]) != 1:
            raise cannot(self.module, self.name, ValueError("its processor cuts images into pieces"))
        return made


class OnVision(Located):
    """What detectors and segmenters of transformers share."""

    def __init__(self, vision: Vision) -> None:
        self.vision, self.name, self.geometry = vision, vision.name, vision.geometry
        self.settings, self.batch_size = vision.settings, vision.batch_size

    @property
    def fingerprint(self) -> str:
        """That of the module and its processor."""
        return self.vision.fingerprint

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Normalised pixels (3, H, W)."""
        return self.vision.encode(canvas)


def cannot(module: Any, name: str, reason: Exception) -> WhymaskError:
    """The error for a family that cannot be run in this way."""
    said = " ".join(f"{type(reason).__name__}: {reason}".split())[:200]
    return WhymaskError(
        f"models such as {name} ({type(module).__name__}) cannot be explained by whymask ({said}): wrap a function, "
        "see docs/locate.md."
    )


def load_parts(kinds: Sequence[str], processor: str, checkpoint: str) -> tuple[Any, Any]:
    """A checkpoint's module, of the first of transformers' classes that has its type, and its processor."""
    import transformers

    with quiet():  # it says which of two image processors it takes
        made = from_checkpoint(getattr(transformers, processor), checkpoint)
        config = from_checkpoint(transformers.AutoConfig, checkpoint)
    known = [kind for kind in kinds if type(config) in getattr(transformers, kind)._model_mapping]
    if not known:
        raise WhymaskError(f"{checkpoint} is a {config.model_type}, for which transformers has no {kinds[0]}.")
    named = [
        kind for kind in known if getattr(transformers, kind)._model_mapping[type(config)].__name__ in classes(config)
    ]
    return model_from_checkpoint(getattr(transformers, (named or known)[0]), checkpoint), made


def classes(config: Any) -> list[str]:
    """The classes that a checkpoint was saved with."""
    return list(config.architectures or ())


def names_of(config: Any) -> list[str]:
    """The names of a model's classes."""
    return [str(config.id2label[i]) for i in range(len(config.id2label))]
