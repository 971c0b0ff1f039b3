"""Object detectors of transformers: the DETR family, with fixed classes."""

from collections.abc import Sequence
from typing import Any

import torch

from whymask.models.detection import Boxes, Detector
from whymask.models.hf import name_of
from whymask.models.hf_located import HfLocated, load_pair


class HfDetector(HfLocated, Detector):
    """Boxes with a softmax or a sigmoid over the classes, as its family has them."""

    def detect(self, inputs: Any, classes: Sequence[Sequence[str]], shape: tuple[int, int]) -> list[Boxes]:
        """The box of every query, with the scores of all classes."""
        outputs = self.outputs(inputs)
        if "pred_boxes" not in outputs or outputs["logits"].ndim != 3:
            raise self.unsupported("it returns no boxes of queries")
        logits = outputs["logits"].double()
        # A class more than there are names says that there is no object; then the classes exclude each other.
        exclusive = logits.shape[-1] == len(self.classes) + 1
        scores = logits.softmax(dim=-1)[..., :-1] if exclusive else logits.sigmoid()
        return boxes_of(outputs["pred_boxes"], scores, inputs.shape[-2:], shape)


def boxes_of(
    placed: torch.Tensor, scores: torch.Tensor, inputs: tuple[int, int], canvas: tuple[int, int]
) -> list[Boxes]:
    """Boxes (B, m, 4), given by centres and sizes as shares of the padded inputs, and scores (B, m, C), by image."""
    x, y, width, height = placed.double().unbind(-1)
    corners = torch.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], dim=-1)
    corners *= torch.tensor([inputs[1] / canvas[1], inputs[0] / canvas[0]] * 2, device=corners.device)
    return [Boxes(*pair) for pair in zip(corners.cpu().numpy(), scores.cpu().numpy(), strict=True)]


def load(checkpoint: str, *, device: str = "cpu", dtype: str = "fp32") -> HfDetector:
    """An object detector from the hub or a local folder; tensors only, no remote code."""
    module, processor = load_pair(["AutoModelForObjectDetection"], "AutoImageProcessor", checkpoint)
    return HfDetector(module, processor, checkpoint, device=device, dtype=dtype)


def wrap_pair(module: Any, processor: Any, *, device: str | None = None, dtype: str | None = None) -> HfDetector:
    """An existing detector with its image processor; it is not modified."""
    return HfDetector(module, processor, name_of(module), device=device, dtype=dtype, borrowed=True)
