"""CLIP zero-shot classification: class names as texts, through transformers or open_clip."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.errors import WhymaskError
from whymask.images.imaging import Geometry, Preprocessed
from whymask.models.base import Bound, Target, View, composed
from whymask.models.classifier import is_number
from whymask.models.differentiable import Evidence
from whymask.models.hf import (
    configuration,
    from_checkpoint,
    model_from_checkpoint,
    normalisation,
    pixel_steps,
    tokenization,
)
from whymask.models.packages import cache_folder, optional
from whymask.models.torch_module import TorchClassifier, device_of, module_fingerprint
from whymask.models.zoo import before_tensors
from whymask.utils.digest import digest
from whymask.utils.files import atomic

TEXTS = Path(__file__).parent / "clip_texts"
"""ImageNet's class names of open_clip and OpenAI's templates for them (its LICENSE says where they are from)."""
CLASSES, TEMPLATES = TEXTS / "imagenet_classes.txt", TEXTS / "imagenet_templates.txt"
WHOLE_MODELS = ("hf-hub:", "local-dir:")
"""How open_clip's names of models begin that bring their weights and their configuration."""
Texts = str | os.PathLike[str] | Sequence[str]
"""Lines of a file, or the lines themselves."""


class ClipZeroShot(TorchClassifier):
    """softmax over scale * cos(image, class text); the module maps pixels to image features.

    A target that is no class is a free text: it is scored against all classes, as one more of them, and only for the
    images that ask for it. `fingerprint` is that of both towers and the tokenizer.
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        embed: Callable[[list[str]], NDArray[np.float32]],
        scale: float,
        geometry: Geometry,
        classes: Sequence[str],
        templates: Sequence[str],
        *,
        fingerprint: str,
        **options: Any,
    ) -> None:
        super().__init__(encoder, geometry, classes, fingerprint=fingerprint, **options)
        self.besides |= {"scale": scale, "classes": list(classes), "templates": list(templates)}
        self.scale = scale
        self._embed = embed
        self._free: dict[str, int] = {}
        # Only the image tower is converted to another dtype; CUDA rounds differently from a CPU.
        matrix = cached_text_matrix(embed, list(classes), list(templates), f"{fingerprint} {self.device.type}")
        self.texts = torch.from_numpy(matrix).to(self.device)  # (classes + free texts, D), rows of length 1

    def settle(self, view: View, target: int | str | None, question: str | None) -> Bound:
        """As every classifier; any other text than a class name is a target too."""
        known = {label.lower() for label in self.labels}
        if isinstance(target, str) and not is_number(target) and target.strip().lower() not in known:
            return replace(super().settle(view, 0, question), target=Target.named(target.strip()))
        if len(self.labels) == 1:
            raise WhymaskError(f"the only class of {self.name} scores 1 on every image: pass more classes.")
        return super().settle(view, target, question)

    def evidence(self, outputs: torch.Tensor, targets: Sequence[int]) -> Evidence:
        """Among the classes, and the image's own free text where the target is one, from image features."""
        wanted = torch.tensor(targets, device=self.device)
        own = self.scale * (outputs / outputs.norm(dim=1, keepdim=True) * self.texts[wanted]).sum(dim=1)
        total = torch.logsumexp(self._similar(outputs), dim=1)
        return Evidence(own, torch.where(wanted >= len(self.labels), torch.logaddexp(total, own), total))

    def preferred(self, outputs: torch.Tensor) -> torch.Tensor:
        """The classes that are most similar (B,)."""
        return self._similar(outputs).argmax(dim=1)

    def _similar(self, features: torch.Tensor) -> torch.Tensor:
        """scale * cos(image, class text), (B, classes)."""
        unit: torch.Tensor = features / features.norm(dim=1, keepdim=True)
        return self.scale * unit @ self.texts[: len(self.labels)].T

    def wanted(self, bound: Bound) -> int:
        """The row of the text that is explained; a free one is embedded when it is first asked for."""
        text = bound.target.label
        if bound.target.numbered:
            return bound.target.index
        if text not in self._free:
            row = torch.from_numpy(_unit(self._embed([text]))).to(self.device)
            self._free[text] = len(self.texts)
            self.texts = torch.cat([self.texts, row])
        return self._free[text]


def load(
    checkpoint: str,
    *,
    classes: Texts = CLASSES,
    templates: Texts = TEMPLATES,
    device: str = "cpu",
    dtype: str = "fp32",
    compile: bool = False,
) -> ClipZeroShot:
    """CLIP of transformers ("openai/clip-vit-large-patch14", a folder) or open_clip ("clip:RN101/openai").

    Args:
        checkpoint: which weights. After "clip:", ARCHITECTURE/TAG, ARCHITECTURE/FILE, hf-hub:NAME or local-dir:FOLDER.
            A file does not say which activation its weights were trained with, so the architecture must: those from
            OpenAI were with QuickGELU ("clip:RN101-quickgelu/RN101.pt").
        classes: class names, one a line; by default ImageNet's as open_clip has them.
        templates: texts with {} for the name; by default OpenAI's 80 for ImageNet.
    """
    names, texts, which = _lines(classes), _lines(templates), checkpoint.removeprefix("clip:")
    if any("{}" not in text for text in texts):
        raise WhymaskError("every template needs {} where the class name goes.")
    parts = (_transformers if which == checkpoint else _open_clip)(which, device_of(device))
    options: dict[str, Any] = {"name": checkpoint, "device": device, "dtype": dtype, "compile": compile}
    return ClipZeroShot(**parts, classes=names, templates=texts, **options)


def _transformers(checkpoint: str, device: torch.device) -> dict[str, Any]:
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPModel

    model = model_from_checkpoint(CLIPModel, checkpoint).eval()
    processor = from_checkpoint(AutoImageProcessor, checkpoint)
    tokenizer = from_checkpoint(AutoTokenizer, checkpoint)
    model.to(device)

    def embed(texts: list[str]) -> NDArray[np.float32]:
        tokens = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").to(device)
        with torch.inference_mode():
            pooled = model.text_model(**{k: tokens[k] for k in ("input_ids", "attention_mask")}).pooler_output
            return np.asarray(model.text_projection(pooled).float().cpu())

    return {
        "encoder": _Image(model.vision_model, model.visual_projection),
        "embed": embed,
        "scale": model.logit_scale.exp().item(),
        "geometry": Preprocessed([pixel_steps(processor)]),
        "fingerprint": composed(
            module_fingerprint(model), configuration=configuration(model), tokens=tokenization(tokenizer)
        ),
        **normalisation(processor),
    }


class _Image(torch.nn.Module):
    """Pixels to image features."""

    def __init__(self, vision: torch.nn.Module, projection: torch.nn.Module) -> None:
        super().__init__()
        self.vision, self.projection = vision, projection

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.projection(self.vision(pixel_values=pixels).pooler_output)
        return features


def _open_clip(which: str, device: torch.device) -> dict[str, Any]:
    open_clip = optional("open_clip")
    if open_clip is None:
        raise WhymaskError(f"clip:{which} needs open_clip: pip install 'whymask[clip]'.")
    architecture, _, weights = (which, "", None) if which.startswith(WHOLE_MODELS) else which.partition("/")
    if weights == "":  # open_clip would initialise them at random
        raise WhymaskError(f"clip:{which} names no weights: pass 'clip:ARCH/WEIGHTS', such as 'clip:RN101/openai'.")
    model, transform, config = _built(open_clip, architecture, weights)
    tokenizer = open_clip.get_tokenizer(architecture)
    model.to(device)

    def embed(texts: list[str]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(model.encode_text(tokenizer(texts).to(device)).float().cpu())

    return {
        "encoder": model.visual,
        "embed": embed,
        "scale": model.logit_scale.exp().item(),
        "geometry": Preprocessed(before_tensors(transform)),
        # A tokenizer of any kind, by the tokens of a thousand names.
        "fingerprint": composed(
            module_fingerprint(model), configuration=config, tokens=tokenizer(_lines(CLASSES)).tolist()
        ),
        "mean": tuple(255 * m for m in model.visual.image_mean),
        "std": tuple(255 * s for s in model.visual.image_std),
    }


def _built(open_clip: Any, architecture: str, weights: str | None) -> tuple[Any, Any, dict[str, Any]]:
    """A model with its weights, in evaluation mode, its preprocessing and the configuration it was built from.

    Most architectures exist with either of two activations, and weights work only with the one they were trained with.
    A tag says which; where open_clip would build the other, it only warns.
    """
    tag = open_clip.get_pretrained_cfg(architecture, weights) if weights else {}
    quick = bool(tag.get("quick_gelu"))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="(?i).*quick.?gelu")
            model, transform = open_clip.create_model_from_pretrained(
                architecture, pretrained=weights, force_quick_gelu=quick
            )
    except (RuntimeError, ValueError, OSError, UnpicklingError, UserWarning) as error:
        name = f"{architecture}/{weights}" if weights else architecture
        raise WhymaskError(f"open_clip cannot load {name!r}: {str(error).splitlines()[0]}") from None
    config = open_clip.get_model_config(architecture)
    return model.eval(), transform, {**config, "quick_gelu": quick or config.get("quick_gelu", False)}


def cached_text_matrix(
    embed: Callable[[list[str]], NDArray[np.float32]], classes: list[str], templates: list[str], embedder: str
) -> NDArray[np.float32]:
    """One unit row per class: the mean of its unit text embeddings over the templates, made unit again.

    Kept on disk, since a thousand classes times eighty templates take minutes on a CPU. `embedder` identifies all that
    moves an embedding.
    """
    file = cache_folder() / f"text-{digest([embedder, templates, classes])}.npy"
    if file.is_file():
        return np.asarray(np.load(file, allow_pickle=False))
    rows = (_unit(embed([template.format(name) for template in templates])) for name in classes)
    matrix = np.stack([_unit(row.mean(axis=0)) for row in rows])
    with atomic(file) as out:
        np.save(out, matrix)
    return matrix


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def _lines(texts: Texts) -> list[str]:
    if isinstance(texts, str | os.PathLike):
        path = Path(texts)
        if not path.is_file():
            raise WhymaskError(f"there is no file {path}.")
        texts = path.read_text(encoding="utf-8").splitlines()
    lines = [text.strip() for text in texts if text.strip()]
    if not lines:
        raise WhymaskError("the list of classes or templates is empty.")
    return lines
