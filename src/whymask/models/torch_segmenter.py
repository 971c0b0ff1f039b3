"""Segmenters that are torch modules as torchvision has them (FCN, DeepLab, LR-ASPP): logits of the classes by pixel."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from whymask.arrays import Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import Canvas, Geometry, WholeImage
from whymask.models.base import composed
from whymask.models.classifier import check_scale
from whymask.models.segmentation import Segmenter
from whymask.models.torch_module import IMAGENET, evaluating, home_of, module_fingerprint


class TorchSegmenter(Segmenter):
    """A module (B, 3, H, W) -> logits (B, classes, h, w), or a dictionary of them under "out".

    Pixels are (pixel - mean) / std on values 0 ... 255. A module that this package has loaded is frozen; a borrowed one
    runs on its own device and is not modified.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        geometry: Geometry,
        labels: Sequence[str],
        *,
        mean: Sequence[float] | float,
        std: Sequence[float] | float,
        name: str,
        borrowed: bool,
    ) -> None:
        self.module, (self.device, _) = module, home_of(module)
        self.geometry, self.classes, self.name = geometry, list(labels), name
        self.mean, self.std = torch.tensor(mean), torch.tensor(std)
        self._weights = None if borrowed else module_fingerprint(module)
        self.batch_size = 4 if self.device.type == "cpu" else 32
        self.settings = {"device": str(self.device), "dtype": "fp32"}

    @property
    def fingerprint(self) -> str:
        """Identifies the module (a borrowed one as it is now), its preprocessing and the classes."""
        return composed(
            self._weights or module_fingerprint(self.module, code=True),
            geometry=self.geometry.fingerprint, mean=self.mean.tolist(), std=self.std.tolist(), classes=self.classes,
        )  # fmt: skip

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Normalised pixels (3, H, W)."""
        pixels = (torch.tensor(canvas).float() - self.mean) / self.std
        return pixels.permute(2, 0, 1).to(self.device)

    def probabilities(self, inputs: Any, column: int | None = None) -> Floats:
        """The softmax of what the module returns."""
        with torch.no_grad(), evaluating(self.module):
            outputs = self.module(inputs)
        logits = outputs["out"] if isinstance(outputs, Mapping) and "out" in outputs else outputs
        if not isinstance(logits, torch.Tensor) or logits.ndim != 4 or logits.shape[1] != len(self.classes):
            raise WhymaskError(
                f"{self.name} must return logits (B, {len(self.classes)}, h, w), or a dictionary with them under 'out'."
            )
        chances = logits.double().softmax(dim=1)
        chosen = chances.permute(0, 2, 3, 1) if column is None else chances[:, column]
        found: Floats = chosen.cpu().numpy()
        return found


def wrap_module(
    module: torch.nn.Module,
    *,
    labels: Sequence[str],
    size: int | tuple[int, int] | None = None,
    max_side: int | None = 512,
    mean: Sequence[float] | float = IMAGENET[0],
    std: Sequence[float] | float = IMAGENET[1],
) -> TorchSegmenter:
    """An existing segmenter; it is not modified."""
    check_scale(mean, std)
    geometry, name = WholeImage(max_side, size), type(module).__name__
    return TorchSegmenter(module, geometry, labels, mean=mean, std=std, name=name, borrowed=True)
