"""torchvision and timm classifiers with the preprocessing their weights were trained for."""

from collections.abc import Sequence
from typing import Any

from whymask.errors import WhymaskError
from whymask.images.imaging import Preprocessed
from whymask.models.packages import required
from whymask.models.torch_module import TorchClassifier

SOURCES = ("state_dict", "file", "hf_hub_id", "url")
"""The settings by which timm finds the weights of a model."""


def load(
    name: str, *, pretrained: bool = True, device: str = "cpu", dtype: str = "fp32", compile: bool = False
) -> TorchClassifier:
    """Load "torchvision:resnet101" or "timm:vit_base_patch16_224"; weights come from those packages' own sources."""
    family, _, architecture = name.partition(":")
    package = required(family, f"{name} needs {family}, which cannot be imported here: pip install {family}.")
    build = _torchvision if family == "torchvision" else _timm
    try:
        parts = build(package, architecture, pretrained)
    except (RuntimeError, ValueError, KeyError) as error:
        raise WhymaskError(f"{family} cannot build {architecture!r}: {str(error).splitlines()[0]}") from None
    return TorchClassifier(**parts, name=name, device=device, dtype=dtype, compile=compile)


def _torchvision(package: Any, architecture: str, pretrained: bool) -> dict[str, Any]:
    weights = package.models.get_model_weights(architecture).DEFAULT
    preset = weights.transforms()
    functional = package.transforms.functional

    def steps(image: Any) -> Any:
        resized = functional.resize(image, preset.resize_size, interpolation=preset.interpolation)
        return functional.center_crop(resized, preset.crop_size)

    return {
        "module": package.models.get_model(architecture, weights=weights if pretrained else None),
        "geometry": Preprocessed([steps]),
        "labels": weights.meta["categories"],
        "mean": _pixels(preset.mean),
        "std": _pixels(preset.std),
    }


def _timm(package: Any, architecture: str, pretrained: bool) -> dict[str, Any]:
    module = package.create_model(architecture, pretrained=pretrained)
    if pretrained and not any(module.pretrained_cfg.get(source) for source in SOURCES):  # they would be random
        raise ValueError("there are no pretrained weights for it.")
    if module.num_classes < 1:
        raise ValueError("it has no classification head.")
    config = package.data.resolve_model_data_config(module)
    transform = package.data.create_transform(**config, is_training=False)
    # Everything before the conversion to a tensor works on the image itself.
    names = [type(step).__name__ for step in transform.transforms]
    geometric = transform.transforms[: next(i for i, kind in enumerate(names) if "ToTensor" in kind)]
    return {
        "module": module,
        "geometry": Preprocessed(geometric),
        "labels": _timm_labels(package, module),
        "mean": _pixels(config["mean"]),
        "std": _pixels(config["std"]),
    }


def _timm_labels(package: Any, module: Any) -> list[str]:
    if module.num_classes != 1000:
        return [str(i) for i in range(module.num_classes)]
    info = package.data.ImageNetInfo()
    return [info.index_to_description(i).split(",")[0] for i in range(1000)]


def _pixels(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(255 * value for value in values)
