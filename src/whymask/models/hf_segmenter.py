"""Semantic segmentation by transformers: a class per pixel (SegFormer), or masks with classes (Mask2Former)."""

from typing import Any

import torch

from whymask.arrays import Floats
from whymask.models.hf import name_of
from whymask.models.hf_located import HfLocated, load_pair
from whymask.models.segmentation import Segmenter

KINDS = ("AutoModelForSemanticSegmentation", "AutoModelForUniversalSegmentation", "AutoModelForInstanceSegmentation",
         "AutoModelForImageSegmentation")  # fmt: skip


class HfSegmenter(HfLocated, Segmenter):
    """Probabilities on the model's own output grid, which is not enlarged to the image."""

    def probabilities(self, inputs: Any, column: int | None = None) -> Floats:
        """The softmax over classes; of masks, what each adds: its class's probability where it is."""
        outputs = self.outputs(inputs)
        masks = next((outputs[name] for name in ("masks_queries_logits", "pred_masks") if name in outputs), None)
        if masks is None:
            chances = outputs["logits"].double().softmax(dim=1)  # (B, C, h, w)
        else:
            logits = outputs["class_queries_logits"] if "class_queries_logits" in outputs else outputs["logits"]
            classes = logits.double().softmax(dim=-1)[..., :-1]  # (B, Q, C), without that for no object
            wanted = classes if column is None else classes[..., column, None]
            chances = torch.einsum("bqc,bqhw->bchw", wanted, masks.double().sigmoid()).clamp(max=1)
            column = None if column is None else 0
        if chances.ndim != 4:
            raise self.unsupported("it returns no classes of pixels")
        chosen = chances.permute(0, 2, 3, 1) if column is None else chances[:, column]
        found: Floats = chosen.cpu().numpy()
        return found


def load(checkpoint: str, *, device: str = "cpu", dtype: str = "fp32") -> HfSegmenter:
    """A segmenter from the hub or a local folder; tensors only, no remote code."""
    module, processor = load_pair(KINDS, "AutoImageProcessor", checkpoint)
    return HfSegmenter(module, processor, checkpoint, device=device, dtype=dtype)


def wrap_pair(module: Any, processor: Any, *, device: str | None = None, dtype: str | None = None) -> HfSegmenter:
    """An existing segmenter with its image processor; it is not modified."""
    return HfSegmenter(module, processor, name_of(module), device=device, dtype=dtype, borrowed=True)
