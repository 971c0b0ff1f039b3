"""Detectors of torchvision (Faster R-CNN, RetinaNet, FCOS, SSD, ...), with their own resizing and suppression."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.models.detection import FunctionDetector
from whymask.models.torch_module import device_of, module_fingerprint

LEAST = 0.01  # boxes that score less are left out; torchvision's own limits are for showing them


def detector(package: Any, architecture: str, pretrained: bool, name: str, device: str) -> FunctionDetector:
    """A detector by torchvision's name of it, in fp32."""
    weights = package.models.get_model_weights(architecture).DEFAULT
    none = {} if pretrained else {"weights_backbone": None}
    module = package.models.get_model(architecture, weights=weights if pretrained else None, **none)
    return wrapped(module, weights.meta["categories"], name, device)


def wrapped(module: torch.nn.Module, labels: Sequence[str], name: str, device: str) -> FunctionDetector:
    """A module from a list of images (3, H, W) in [0, 1] to a dictionary for each."""
    fingerprint = module_fingerprint(module)
    for part in (module, getattr(module, "roi_heads", None)):
        if hasattr(part, "score_thresh"):
            part.score_thresh = LEAST  # type: ignore[union-attr]
    place = device_of(device)
    module.eval().requires_grad_(False).to(place)

    def function(images: NDArray[np.uint8]) -> list[Mapping[str, Any]]:
        pixels = torch.tensor(images, device=place).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad():
            found: list[Mapping[str, Any]] = module(list(pixels))
        return found

    return FunctionDetector(
        function,
        labels=labels,
        name=name,
        batch_size=2 if place.type == "cpu" else 16,
        fingerprint=fingerprint,
        settings={"device": str(place), "dtype": "fp32"},
    )
