"""Loads any multimodal model of transformers: a checkpoint, or an existing model with its processor."""

import inspect
from collections.abc import Mapping
from typing import Any

from whymask.errors import WhymaskError, unknown
from whymask.models.hf import from_checkpoint, model_from_checkpoint, name_of
from whymask.models.image_text import ImageText
from whymask.models.torch_module import device_of, dtype_of


def load(checkpoint: str, *, max_side: int | None = 1024, **options: Any) -> ImageText:
    """Any checkpoint of transformers' AutoModelForImageTextToText; tensors only, no remote code.

    Args:
        checkpoint: such as "Qwen/Qwen3-VL-4B-Instruct", or a folder.
        max_side: larger images are reduced to this many pixels on their longer side first; None keeps them as they are.
        options: of `load_module`, and of the processor, such as max_pixels, or do_image_splitting=False where it cuts
            images into tiles.
    """
    processor = load_processor(checkpoint)
    placed, options = separated(processor, options, checkpoint)
    module = load_module("AutoModelForImageTextToText", checkpoint, **placed)
    return ImageText(module, processor, name=checkpoint, max_side=max_side, options=options)


def load_module(
    kind: str,
    checkpoint: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    device_map: Any = None,
    quantization_config: Any = None,
    attn_implementation: str | None = None,
) -> Any:
    """A checkpoint's model of one of transformers' auto classes.

    Args:
        kind: the name of the class.
        checkpoint: its name or folder.
        device: where the model runs, unless `device_map` says so.
        dtype: by default fp32 on a CPU and the checkpoint's own elsewhere ("auto").
        device_map: how transformers distributes the model ("auto", a dictionary); needs accelerate.
        quantization_config: of transformers, such as BitsAndBytesConfig(load_in_4bit=True).
        attn_implementation: of transformers, such as "flash_attention_2".
    """
    import transformers

    placed = {"device_map": device_map, "quantization_config": quantization_config}
    given = {**placed, "attn_implementation": attn_implementation}
    precision = dtype or ("fp32" if device == "cpu" and device_map is None else "auto")
    module = model_from_checkpoint(
        getattr(transformers, kind),
        checkpoint,
        dtype="auto" if precision == "auto" else dtype_of(precision),
        use_safetensors=True,
        **{name: value for name, value in given.items() if value is not None},
    )
    if not any(placed.values()):  # a model that was distributed or quantised stays where it is
        module.to(device_of(device))
    return module


def wrap_pair(module: Any, processor: Any, *, max_side: int | None = 1024, **options: Any) -> ImageText:
    """An existing model with its processor; it is not modified (see `load` for the options)."""
    name = name_of(module)
    check_borrowed(processor, options, name)
    return ImageText(module, processor, name=name, max_side=max_side, options=options, borrowed=True)


OF_MODULE = list(inspect.signature(load_module).parameters)[2:]
"""The options of `load_module`."""


def separated(processor: Any, options: Mapping[str, Any], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of `load_module`, and those of the image processor; any other raises an error."""
    images = processor.image_processor
    known = [*getattr(images.valid_kwargs, "__annotations__", ()), *vars(images)]
    for option in options:
        if option not in OF_MODULE and option not in known:
            raise WhymaskError(f"{name}: {unknown('option', option, [*OF_MODULE, 'max_side', *known])}")
    placed = {option: value for option, value in options.items() if option in OF_MODULE}
    return placed, {option: value for option, value in options.items() if option not in OF_MODULE}


def check_borrowed(processor: Any, options: Mapping[str, Any], name: str) -> None:
    """Raise an error for options of `load_module`: the device and precision of a borrowed model are settled."""
    placed, _ = separated(processor, options, name)
    if placed:
        raise WhymaskError(f"{name} is wrapped unchanged: {next(iter(placed))} is an option of whymask.load.")


def load_processor(checkpoint: str) -> Any:
    """The processor of a checkpoint; without videos where what they need, such as torchvision, is missing."""
    import transformers
    from transformers.models.auto import processing_auto

    try:
        return from_checkpoint(transformers.AutoProcessor, checkpoint)
    except WhymaskError:
        config = from_checkpoint(transformers.AutoConfig, checkpoint)
        settings, _ = transformers.ProcessorMixin.get_processor_dict(checkpoint)
        names: Any = getattr(processing_auto, "PROCESSOR_MAPPING_NAMES", {})
        kind = getattr(transformers, settings.get("processor_class") or names.get(config.model_type) or "", None)
        if kind is None or "video_processor" not in kind.get_attributes():
            raise
    return from_checkpoint(_without_videos(kind), checkpoint)


def _without_videos(kind: Any) -> Any:
    """A class of processors that takes no videos and needs nothing for them."""
    import transformers

    parts: dict[str, Any] = {
        "image_processor": transformers.AutoImageProcessor,
        "tokenizer": transformers.AutoTokenizer,
        "feature_extractor": transformers.AutoFeatureExtractor,
    }

    def arguments(_: Any, name: str, /, settings: Any = None, **options: Any) -> list[Any]:
        names = kind.get_attributes()
        return [parts[part].from_pretrained(name, **options) if part in parts else None for part in names]

    def check(self: Any, name: str, part: Any) -> Any:
        return None if part is None else kind.check_argument_for_proper_class(self, name, part)

    changed = {"_get_arguments_from_pretrained": classmethod(arguments), "check_argument_for_proper_class": check}
    return type(kind.__name__, (kind,), changed)
