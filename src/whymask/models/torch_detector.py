"""Detectors that are torch modules as torchvision has them (Faster R-CNN, RetinaNet, FCOS, SSD, ...)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.models.base import composed
from whymask.models.detection import FunctionDetector
from whymask.models.torch_module import evaluating, home_of, module_fingerprint

LEAST = 0.01  # boxes that score less are left out; torchvision's own limits are for showing them


class TorchDetector(FunctionDetector):
    """A module from a list of images (3, H, W) in [0, 1] to a dictionary for each.

    It resizes images and suppresses boxes itself. A module that this package has loaded is frozen; a borrowed one runs
    on its own device and is not modified.
    """

    def __init__(self, module: torch.nn.Module, labels: Sequence[str], name: str, *, borrowed: bool) -> None:
        self.module, (self.device, _) = module, home_of(module)
        self._weights = None if borrowed else module_fingerprint(module)
        size = 2 if self.device.type == "cpu" else 16
        super().__init__(self._found, labels=labels, name=name, batch_size=size)
        self.settings = {"device": str(self.device), "dtype": "fp32"}

    @property
    def fingerprint(self) -> str:
        """Identifies the module (a borrowed one as it is now) and the classes."""
        weights = self._weights or module_fingerprint(self.module, code=True)
        return composed(weights, **self.besides)

    def _found(self, images: NDArray[np.uint8]) -> list[Mapping[str, Any]]:
        pixels = torch.tensor(images, device=self.device).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad(), evaluating(self.module), all_boxes(self.module):
            found: list[Mapping[str, Any]] = self.module(list(pixels))
        return found


@contextmanager
def all_boxes(module: torch.nn.Module) -> Iterator[None]:
    """Inside the block, a module also returns boxes that it is not certain of."""
    parts: list[Any] = [part for part in (module, getattr(module, "roi_heads", None)) if hasattr(part, "score_thresh")]
    limits = [part.score_thresh for part in parts]
    try:
        for part in parts:
            part.score_thresh = LEAST
        yield
    finally:
        for part, limit in zip(parts, limits, strict=True):
            part.score_thresh = limit


def wrap_module(module: torch.nn.Module, *, labels: Sequence[str]) -> TorchDetector:
    """An existing detector; it is not modified."""
    return TorchDetector(module, labels, type(module).__name__, borrowed=True)
