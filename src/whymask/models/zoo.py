"""Classifiers of torchvision and timm with their preprocessing; detectors and segmenters of torchvision."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from whymask.errors import WhymaskError, first_line
from whymask.images.imaging import Preprocessed
from whymask.models.base import Model
from whymask.models.packages import required
from whymask.models.torch_detector import TorchDetector
from whymask.models.torch_module import TorchClassifier, device_of
from whymask.models.torch_segmenter import TorchSegmenter

SOURCES = ("state_dict", "file", "hf_hub_id", "url")
"""The settings by which timm finds the weights of a model."""
LOCATED = ("detection", "segmentation")
"""The modules of torchvision with models whose answers have a place."""


def load(
    name: str, *, pretrained: bool = True, device: str = "cpu", dtype: str = "fp32", compile: bool = False
) -> Model:
    """Load "torchvision:resnet101" or "timm:vit_base_patch16_224"; weights come from those packages' own sources.

    "torchvision:fasterrcnn_resnet50_fpn" and torchvision's other detectors explain one box,
    "torchvision:deeplabv3_resnet50" and its other segmenters one segment.
    """
    family, _, architecture = name.partition(":")
    package = required(family, f"{name} needs {family}, which cannot be imported here: pip install {family}.")
    for kind in LOCATED if family == "torchvision" else ():
        if architecture in package.models.list_models(module=getattr(package.models, kind)):
            if compile or dtype != "fp32":
                raise WhymaskError(f"{name} runs in fp32, without compile.")
            return _located(package, kind, architecture, pretrained, name, device)
    build = _torchvision if family == "torchvision" else _timm
    try:
        parts = build(package, architecture, pretrained)
    except (RuntimeError, ValueError, KeyError) as error:
        raise WhymaskError(f"{family} cannot build {architecture!r}: {first_line(error)}") from None
    return TorchClassifier(**parts, name=name, device=device, dtype=dtype, compile=compile)


def _located(package: Any, kind: str, architecture: str, pretrained: bool, name: str, device: str) -> Model:
    """A detector or segmenter of torchvision in fp32, with the preprocessing of its weights."""
    weights = package.models.get_model_weights(architecture).DEFAULT
    backbone = {} if pretrained else {"weights_backbone": None}
    module = package.models.get_model(architecture, weights=weights if pretrained else None, **backbone)
    module.eval().requires_grad_(False).to(device_of(device))
    labels = weights.meta["categories"]
    if kind == "detection":
        return TorchDetector(module, labels, name, borrowed=False)
    preset, resize = weights.transforms(), package.transforms.functional.resize
    geometry = Preprocessed([partial(resize, size=preset.resize_size, interpolation=preset.interpolation)])
    mean, std = _pixels(preset.mean), _pixels(preset.std)
    return TorchSegmenter(module, geometry, labels, mean=mean, std=std, name=name, borrowed=False)


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
    return {
        "module": module,
        "geometry": Preprocessed(before_tensors(transform)),
        "labels": _timm_labels(package, module),
        "mean": _pixels(config["mean"]),
        "std": _pixels(config["std"]),
    }


def before_tensors(transform: Any) -> list[Any]:
    """The steps of a torchvision transform that work on the image itself: those before its conversion to a tensor."""
    kinds = [type(step).__name__ for step in transform.transforms]
    return list(transform.transforms[: next(i for i, kind in enumerate(kinds) if "ToTensor" in kind)])


def _timm_labels(package: Any, module: Any) -> list[str]:
    if module.num_classes != 1000:
        return [str(i) for i in range(module.num_classes)]
    info = package.data.ImageNetInfo()
    return [info.index_to_description(i).split(",")[0] for i in range(1000)]


def _pixels(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(255 * value for value in values)
