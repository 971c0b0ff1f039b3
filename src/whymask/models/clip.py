"""CLIP and SigLIP: zero-shot classifiers, through transformers or open_clip."""

import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import Identity

from whymask.errors import WhymaskError, first_line
from whymask.images.imaging import Preprocessed, rounded
from whymask.models.base import composed
from whymask.models.hf import (
    configuration,
    from_checkpoint,
    model_from_checkpoint,
    name_of,
    normalisation,
    pixel_steps,
    tokenization,
)
from whymask.models.packages import required
from whymask.models.torch_module import device_of, evaluating, module_fingerprint
from whymask.models.zero_shot import Texts, ZeroShot, lines
from whymask.models.zoo import before_tensors

TEXTS = Path(__file__).parent / "clip_texts"
"""ImageNet's class names of open_clip and OpenAI's templates for them (its LICENSE says where they are from)."""
CLASSES, TEMPLATES = TEXTS / "imagenet_classes.txt", TEXTS / "imagenet_templates.txt"
SIGLIP_TEMPLATES = ("This is a photo of {}.",)
WHOLE_MODELS = ("hf-hub:", "local-dir:")
"""How open_clip's names of models begin that bring their weights and their configuration."""


def load(
    checkpoint: str,
    *,
    classes: Texts = CLASSES,
    templates: Texts | None = None,
    device: str = "cpu",
    dtype: str = "fp32",
    compile: bool = False,
) -> ZeroShot:
    """CLIP or SigLIP of transformers ("openai/clip-vit-large-patch14", a folder) or open_clip ("clip:RN101/openai").

    Args:
        checkpoint: which weights. After "clip:", ARCHITECTURE/TAG, ARCHITECTURE/FILE, hf-hub:NAME or local-dir:FOLDER.
            A file does not say which activation its weights were trained with, so the architecture must: those from
            OpenAI were with QuickGELU ("clip:RN101-quickgelu/RN101.pt").
        classes: class names, one a line; by default ImageNet's as open_clip has them.
        templates: texts with {} for the name, whose embeddings are averaged. By default OpenAI's 80 for ImageNet; for
            SigLIP the one of its model cards, "This is a photo of {}.", since its bias was learned on single texts and
            a mean over many is nearer to every image.
    """
    texts, which = _texts(classes, templates), checkpoint.removeprefix("clip:")
    parts = (_transformers if which == checkpoint else _open_clip)(which, device_of(device))
    return ZeroShot(**parts | texts, name=checkpoint, device=device, dtype=dtype, compile=compile)


def wrap_pair(
    model: Any,
    processor: Any,
    *,
    classes: Texts = CLASSES,
    templates: Texts | None = None,
    device: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
) -> ZeroShot:
    """An existing CLIPModel, SiglipModel or Siglip2Model with its processor; the model is not modified.

    Images are seen with the weights the image tower has at that time. Texts, scale and bias are read here: after the
    text tower has been trained, call this again.
    """
    parts = _towers(model, processor.image_processor, processor.tokenizer) | _texts(classes, templates)
    return ZeroShot(**parts, name=name_of(model), device=device, dtype=dtype, compile=compile, borrowed=True)


def _texts(classes: Texts, templates: Texts | None) -> dict[str, list[str]]:
    """The texts that were given; without templates the usual ones of the model remain."""
    if templates is None:
        return {"classes": lines(classes)}
    texts = {"classes": lines(classes), "templates": lines(templates)}
    if any("{}" not in text for text in texts["templates"]):
        raise WhymaskError("every template needs {} where the class name goes.")
    return texts


def _transformers(checkpoint: str, device: torch.device) -> dict[str, Any]:
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    model = model_from_checkpoint(AutoModel, checkpoint).eval()
    processor = from_checkpoint(AutoImageProcessor, checkpoint)
    tokenizer = from_checkpoint(AutoTokenizer, checkpoint)
    return _towers(model.to(device), processor, tokenizer)


def _towers(model: Any, processor: Any, tokenizer: Any) -> dict[str, Any]:
    """The parts of a zero-shot classifier, of a model that embeds images and texts."""
    sigmoid, flexible = hasattr(model, "logit_bias"), model.config.model_type == "siglip2"
    image, text = model.vision_model, model.text_model
    project_image, project_text = (getattr(model, f"{kind}_projection", Identity()) for kind in ("visual", "text"))
    # SigLIP reads a text off its last position, so it is given texts of the one length it was trained with.
    length = {"padding": "max_length", "max_length": model.config.text_config.max_position_embeddings}

    def embed(texts: list[str]) -> NDArray[np.float32]:
        tokens = tokenizer(texts, truncation=True, return_tensors="pt", **(length if sigmoid else {"padding": True}))
        given = {name: tokens[name].to(model.device) for name in ("input_ids", "attention_mask") if name in tokens}
        with torch.inference_mode(), evaluating(model):
            return np.asarray(project_text(text(**given).pooler_output).float().cpu())

    return {
        "encoder": (_Patches if flexible else _Image)(image, project_image),
        "embed": embed,
        "scale": model.logit_scale.exp().item(),
        "bias": model.logit_bias.item() if sigmoid else None,
        "templates": SIGLIP_TEMPLATES if sigmoid else lines(TEMPLATES),
        "geometry": Preprocessed([patched_steps(processor) if flexible else pixel_steps(processor)]),
        "fingerprint": composed(
            module_fingerprint(model), configuration=configuration(model), tokens=tokenization(tokenizer)
        ),
        **normalisation(processor),
    }


class _Image(torch.nn.Module):
    """Pixels to image features."""

    def __init__(self, vision: Any, projection: Any) -> None:
        super().__init__()
        self.vision, self.projection = vision, projection

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.projection(self.vision(**self.given(pixels)).pooler_output)
        return features

    def given(self, pixels: torch.Tensor) -> dict[str, Any]:
        """What the tower takes, for pixels (B, 3, H, W)."""
        return {"pixel_values": pixels}


class _Patches(_Image):
    """The same for SigLIP 2 NaFlex, which takes images of any shape, cut into patches.

    Its processor fills up the patches of an image to a common number and masks what it has added. Images of one batch
    have the same shape here, so nothing is added.
    """

    def given(self, pixels: torch.Tensor) -> dict[str, Any]:
        """Patches (B, rows * columns, patch * patch * 3), row by row."""
        count, channels, height, width = pixels.shape
        patch: int = self.vision.config.patch_size
        rows, columns = height // patch, width // patch
        cut = pixels.reshape(count, channels, rows, patch, columns, patch).permute(0, 2, 4, 3, 5, 1)
        return {
            "pixel_values": cut.reshape(count, rows * columns, -1),
            "pixel_attention_mask": None,
            "spatial_shapes": torch.tensor([[rows, columns]]).expand(count, 2),
        }


def patched_steps(processor: Any) -> Any:
    """The steps of `pixel_steps`, for a processor that cuts the image into patches."""

    def steps(image: Image.Image) -> Any:
        found = processor(images=image, do_rescale=False, do_normalize=False, return_tensors="np")
        (rows, columns), patch = found["spatial_shapes"][0], processor.patch_size
        patches = found["pixel_values"][0][: rows * columns].reshape(rows, columns, patch, patch, 3)
        pixels = patches.swapaxes(1, 2).reshape(rows * patch, columns * patch, 3)
        return rounded(pixels)

    return steps


def _open_clip(which: str, device: torch.device) -> dict[str, Any]:
    open_clip = required("open_clip", f"clip:{which} needs open_clip: pip install 'whymask[clip]'.")
    architecture, _, weights = (which, "", None) if which.startswith(WHOLE_MODELS) else which.partition("/")
    if weights == "":  # open_clip would initialise them at random
        raise WhymaskError(f"clip:{which} names no weights: pass 'clip:ARCH/WEIGHTS', such as 'clip:RN101/openai'.")
    model, transform, config = _built(open_clip, architecture, weights)
    tokenizer = open_clip.get_tokenizer(architecture)
    sigmoid = getattr(model, "logit_bias", None) is not None
    model.to(device)

    def embed(texts: list[str]) -> NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(model.encode_text(tokenizer(texts).to(device)).float().cpu())

    return {
        "encoder": model.visual,
        "embed": embed,
        "scale": model.logit_scale.exp().item(),
        "bias": model.logit_bias.item() if sigmoid else None,
        "templates": SIGLIP_TEMPLATES if sigmoid else lines(TEMPLATES),
        "geometry": Preprocessed(before_tensors(transform)),
        # A tokenizer of any kind, by the tokens of a thousand names.
        "fingerprint": composed(
            module_fingerprint(model), configuration=config, tokens=tokenizer(lines(CLASSES)).tolist()
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
        raise WhymaskError(f"open_clip cannot load {name!r}: {first_line(error)}") from None
    config = open_clip.get_model_config(architecture)
    return model.eval(), transform, {**config, "quick_gelu": quick or config.get("quick_gelu", False)}
