"""Detectors of transformers that look for what a text names: OWL-ViT, OWLv2, Grounding DINO."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import torch

from whymask.errors import WhymaskError
from whymask.models.base import composed
from whymask.models.detection import Boxes, Detector
from whymask.models.hf import name_of, tokenization
from whymask.models.hf_detector import boxes_of
from whymask.models.hf_located import HfLocated, load_pair
from whymask.models.zero_shot import Texts, lines


class ZeroShotDetector(HfLocated, Detector):
    """Any text can be the target; it is scored beside the classes that were given, if any."""

    def __init__(self, module: Any, processor: Any, name: str, classes: Texts | None, **options: Any) -> None:
        super().__init__(module, processor.image_processor, name, **options)
        self.tokenizer, self.classes = processor.tokenizer, lines(classes) if classes else []
        self.asks = lru_cache(maxsize=256)(self._asks)

    @property
    def fingerprint(self) -> str:
        """Identifies the module, its processor, its tokenizer and the classes."""
        return composed(super().fingerprint, tokens=tokenization(self.tokenizer), classes=self.classes)

    def sought(self, label: str | None) -> list[str]:
        """The classes, and the one that is meant if it is another."""
        if label is None and not self.classes:
            raise WhymaskError(f"{self.name} detects what a text names: pass a target such as 'a cat', or classes.")
        known = label is None or label.strip().lower() in (name.lower() for name in self.classes)
        return self.classes if known or label is None else [*self.classes, label.strip()]

    def shared(self, where: Any) -> Hashable:
        """Texts of one batch have one length."""
        words, tokens = self.asks(tuple(self.sought(where[0])))
        return len(tokens), tuple(part.shape for part in words.values())

    def detect(self, inputs: Any, classes: Sequence[Sequence[str]], shape: tuple[int, int]) -> list[Boxes]:
        """The box of every query, with the scores of the texts."""
        asked = [self.asks(tuple(names)) for names in classes]
        words = {name: torch.cat([one[name] for one, _ in asked]).to(self.device) for name in asked[0][0]}
        outputs = self.outputs(inputs, **words)
        if "pred_boxes" not in outputs or "logits" not in outputs:
            raise self.unsupported("it returns no boxes of queries")
        scores = outputs["logits"].double().sigmoid()
        if asked[0][1]:  # by token
            tokens = [[scores[i][:, span].amax(dim=1) for span in spans] for i, (_, spans) in enumerate(asked)]
            scores = torch.stack([torch.stack(one, dim=1) for one in tokens])
        return boxes_of(outputs["pred_boxes"], scores, inputs.shape[-2:], shape)

    def _asks(self, names: tuple[str, ...]) -> tuple[dict[str, torch.Tensor], list[list[int]]]:
        """The inputs of texts, and the tokens of each text, where they are one sentence."""
        if self.module.config.model_type in ("owlvit", "owlv2"):
            return dict(self.tokenizer(list(names), padding="max_length", truncation=True, return_tensors="pt")), []
        prompt, spans = "", []
        for name in names:
            begin = len(prompt) + (1 if prompt else 0)
            prompt += (" " if prompt else "") + name.lower().strip().rstrip(".")
            spans.append(range(begin, len(prompt)))
            prompt += "."
        made = self.tokenizer(prompt, return_tensors="pt", return_offsets_mapping=True)
        offsets = made.pop("offset_mapping")[0].tolist()
        tokens = [[i for i, (start, end) in enumerate(offsets) if start < end and start in span] for span in spans]
        return dict(made), tokens


def load(
    checkpoint: str, *, classes: Texts | None = None, device: str = "cpu", dtype: str = "fp32"
) -> ZeroShotDetector:
    """A zero-shot detector from the hub or a local folder; `classes` are what it looks for without a target."""
    module, processor = load_pair(["AutoModelForZeroShotObjectDetection"], "AutoProcessor", checkpoint)
    return ZeroShotDetector(module, processor, checkpoint, classes, device=device, dtype=dtype)


def wrap_pair(
    module: Any, processor: Any, *, classes: Texts | None = None, device: str | None = None, dtype: str | None = None
) -> ZeroShotDetector:
    """An existing zero-shot detector with its processor; it is not modified."""
    return ZeroShotDetector(module, processor, name_of(module), classes, device=device, dtype=dtype, borrowed=True)
