"""What detectors and segmenters of transformers share: a module and the image processor that makes its inputs."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from PIL import Image

from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, Preprocessed, rounded
from whymask.models.base import composed
from whymask.models.hf import configuration, from_checkpoint, model_from_checkpoint, quiet, reporting, unsupported
from whymask.models.located import Located
from whymask.models.precision import converted
from whymask.models.torch_module import (
    DTYPE_NAMES,
    device_of,
    dtype_of,
    evaluating,
    home_of,
    module_fingerprint,
    run_settings,
)
from whymask.utils.digest import digest

INSTEAD = "wrap a function, see docs/locate.md"


class HfLocated(Located):
    """A module that takes the pixels its processor makes of an image.

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
        labels = module.config.id2label
        self.classes = [str(labels[i]) for i in range(len(labels))]
        self.geometry = Preprocessed([self._resized])
        self.settings = run_settings(module, self.device, self.dtype)
        self.batch_size = 4 if self.device.type == "cpu" else 32

    @property
    def fingerprint(self) -> str:
        """Identifies the weights (those a borrowed module has now), the configuration and the preprocessing."""
        return composed(
            self._weights or module_fingerprint(self.module),
            configuration=configuration(self.module),
            processor=digest(self.processor.to_json_string()),
        )

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Normalised and padded pixels (3, H, W)."""
        made: torch.Tensor = self._processed(canvas, do_resize=False, return_tensors="pt")["pixel_values"][0]
        return made.to(self.device, self.dtype)

    def outputs(self, inputs: torch.Tensor, **others: Any) -> Any:
        """What the module returns for pixels (B, 3, H, W) and its other inputs."""
        mode = evaluating(self.module) if self.borrowed else nullcontext()
        with torch.no_grad(), mode, reporting(self.module, self.name, INSTEAD):
            return self.module(pixel_values=inputs, **others)

    def unsupported(self, reason: str) -> WhymaskError:
        """The error for a module or processor that does something else than is expected here."""
        return unsupported(self.module, self.name, ValueError(reason), INSTEAD)

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
        return rounded(np.moveaxis(values, 0, -1))

    def _processed(self, image: Any, **options: Any) -> Any:
        made = self.processor(images=image, **options)
        if np.ndim(made["pixel_values"]) != 4 or len(made["pixel_values"]) != 1:
            raise self.unsupported("its processor cuts images into pieces")
        return made


def load_pair(kinds: Sequence[str], processor: str, checkpoint: str) -> tuple[Any, Any]:
    """The module of a checkpoint, by the first of transformers' auto classes that fits it, and its processor."""
    import transformers

    with quiet():  # it says which of two image processors it takes
        made = from_checkpoint(getattr(transformers, processor), checkpoint)
        config = from_checkpoint(transformers.AutoConfig, checkpoint)
    classes = {kind: getattr(transformers, kind)._model_mapping.get(type(config), None) for kind in kinds}
    known = {kind: found for kind, found in classes.items() if found is not None}
    if not known:
        raise WhymaskError(f"{checkpoint} is a {config.model_type}, for which transformers has no {kinds[0]}.")
    saved_as = next((kind for kind, found in known.items() if found.__name__ in (config.architectures or ())), None)
    return model_from_checkpoint(getattr(transformers, saved_as or next(iter(known))), checkpoint), made
