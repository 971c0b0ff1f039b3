"""Loading any multimodal model of transformers: a checkpoint, or a model that is already there with its processor."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from whymask.errors import WhymaskError, unknown
from whymask.models.hf import model_from_checkpoint
from whymask.models.image_text import ImageText
from whymask.models.processing import load_processor
from whymask.models.torch_module import device_of, dtype_of


def load(
    checkpoint: str,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    device_map: Any = None,
    quantization_config: Any = None,
    attn_implementation: str | None = None,
    max_side: int | None = 1024,
    **options: Any,
) -> ImageText:
    """Any checkpoint of transformers' AutoModelForImageTextToText; tensors only, no remote code.

    Args:
        checkpoint: such as "Qwen/Qwen3-VL-4B-Instruct", or a folder.
        device: where the model runs, unless `device_map` says so.
        dtype: by default fp32 on a CPU and the checkpoint's own elsewhere ("auto").
        device_map: how transformers distributes the model ("auto", a dictionary); needs accelerate.
        quantization_config: of transformers, such as BitsAndBytesConfig(load_in_4bit=True).
        attn_implementation: of transformers, such as "flash_attention_2".
        max_side: larger images are reduced to this many pixels on their longer side first; None keeps them as they are.
        options: of the processor, such as max_pixels, or do_image_splitting=False where images are cut into tiles.
    """
    processor = load_processor(checkpoint)
    check_processor_options(processor, options, checkpoint, OF_LOAD)
    placed = {"device_map": device_map, "quantization_config": quantization_config}
    module = load_module("AutoModelForImageTextToText", checkpoint, device, dtype, attn_implementation, placed)
    return ImageText(module, processor, name=checkpoint, max_side=max_side, options=options)


def load_module(
    kind: str,
    checkpoint: str,
    device: str,
    dtype: str | None,
    attn_implementation: str | None,
    placed: dict[str, Any],
) -> Any:
    """A checkpoint's model of one of transformers' classes, placed and in the precision `load` describes."""
    import transformers

    given = {name: value for name, value in placed.items() if value is not None}
    precision = dtype or ("fp32" if device == "cpu" and "device_map" not in given else "auto")
    if attn_implementation is not None:
        given["attn_implementation"] = attn_implementation
    module = model_from_checkpoint(
        getattr(transformers, kind),
        checkpoint,
        dtype="auto" if precision == "auto" else dtype_of(precision),
        use_safetensors=True,
        **given,
    )
    if not any(placed.values()):  # a model that was distributed or quantised stays where it is
        module.to(device_of(device))
    return module


def wrap_pair(module: Any, processor: Any, *, max_side: int | None = 1024, **options: Any) -> ImageText:
    """A model that is already there, with its processor; it stays the caller's (see `load` for the options)."""
    name = module.config.name_or_path or type(module).__name__
    check_borrowed(processor, options, name)
    return ImageText(module, processor, name=name, max_side=max_side, options=options, borrowed=True)


OF_LOAD = list(inspect.signature(load).parameters)[1:-1]
"""Options of loading, but for those of the processor."""


def check_processor_options(processor: Any, options: Mapping[str, Any], name: str, own: Sequence[str]) -> None:
    """Raise an error for an option that the image processor does not have; the caller has its own."""
    images = processor.image_processor
    known = [*getattr(images.valid_kwargs, "__annotations__", ()), *vars(images)]
    for option in options:
        if option not in known:
            raise WhymaskError(f"{name}: {unknown('option', option, [*own, *known])}")


def check_borrowed(processor: Any, options: Mapping[str, Any], name: str) -> None:
    """The same for a model that is already there, whose device and precision are settled."""
    for option in options:
        if option in OF_LOAD:
            raise WhymaskError(f"{name} is wrapped unchanged: {option} is an option of whymask.load.")
    check_processor_options(processor, options, name, ["max_side"])
