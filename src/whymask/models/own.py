"""A user's own model: an existing object, or FILE.py:FUNCTION, a function that returns one."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from traceback import extract_tb
from typing import Any, cast

from whymask.errors import WhymaskError, unknown
from whymask.models.base import Model

TASKS = {
    "detection": "whymask.models.detection:FunctionDetector",
    "segmentation": "whymask.models.segmentation:FunctionSegmenter",
    "recognition": "whymask.models.recognition:FunctionRecogniser",
}
"""The classes for functions that return something else than scores, by task."""
MODULE_TASKS = {
    "detection": "whymask.models.torch_detector:wrap_module",
    "segmentation": "whymask.models.torch_segmenter:wrap_module",
}
"""The same for torch modules; one that reads text is passed as a function."""

PIPELINES: dict[str, Callable[[Any], Any]] = {
    "image-text-to-text": attrgetter("processor"),
    "image-classification": attrgetter("image_processor"),
    "object-detection": attrgetter("image_processor"),
    "image-segmentation": attrgetter("image_processor"),
    "zero-shot-object-detection": lambda pipeline: pipeline,
    "zero-shot-image-classification": lambda pipeline: pipeline,
}
"""The processor in a pipeline of transformers, by its task; zero-shot ones hold its parts themselves."""


def wrap(model: Any, processor: Any = None, *, task: str | None = None, **options: Any) -> Model:
    """Wrap an existing model: a transformers pipeline, a torch module, or a function over images.

    A module of transformers is passed with its processor: a multimodal model that answers questions takes max_side and
    options of the processor (max_pixels, ...), CLIP or SigLIP classes and templates, an image classifier device, dtype
    and activation.

    Any other module takes size (a number, or (height, width)), mean and std on pixel values 0 ... 255 (of one value for
    grey images; by default ImageNet's), crop, labels, device and dtype. activation says how a score follows from the
    logits: "softmax" among classes that exclude each other, "sigmoid" of each label alone, or of a single logit, "none"
    where the module returns probabilities. Where a module returns a tuple or dictionary of several tables, logits names
    the one to take.

    A function from images (B, H, W, 3) to scores (B,) or probabilities (B, classes) takes labels, size and max_side:
    larger images are reduced to that many pixels on their longer side, by default 512; None keeps them as they are.

    A module or pipeline is not changed: each explanation uses its current weights, on its own device and in its own
    dtype, in evaluation mode. A device or dtype other than its own means a copy made now.

    Args:
        model: what to explain.
        processor: of a module of transformers.
        task: what a function returns: "detection", the boxes of every image as torchvision's detectors do;
            "segmentation", probabilities (B, h, w, classes); "recognition", those of characters (B, T, alphabet). A
            torch module as torchvision has them takes "detection" or "segmentation". See docs/locate.md.
        options: as above.
    """
    torch = sys.modules.get("torch")  # if the caller has a module, torch is imported; a function can do without
    if processor is None and getattr(model, "task", None) in PIPELINES and hasattr(model, "model"):
        model, processor = model.model, PIPELINES[model.task](model)
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if processor is not None:
        if task is not None:
            raise WhymaskError("a model with its processor needs no task: leave it out.")
        wrapper = _with_processor(model, processor)
        check_options(wrapper, options, "wrap", given=2)
        return cast(Model, wrapper(model, processor, **options))
    if hasattr(model, "task") and hasattr(model, "image_processor"):
        raise WhymaskError(f"pipelines for {model.task} cannot be explained: wrap a function, see docs/models.md.")
    if is_module:
        _check_module(model, task, options)
    if task is not None:
        tasks = MODULE_TASKS if is_module else TASKS
        if task not in tasks:
            raise unknown("task", task, tasks)
        module, _, kind = tasks[task].partition(":")
        wrapper = getattr(import_module(module), kind)
    elif is_module:
        wrapper = import_module("whymask.models.torch_module").wrap_module
    elif callable(model):
        wrapper = import_module("whymask.models.function").FunctionModel
    else:
        raise WhymaskError(f"wrap takes a pipeline, a torch module or a function, not {type(model).__name__}.")
    check_options(wrapper, options, "wrap", given=1)
    return cast(Model, wrapper(model, **options))


def _check_module(module: Any, task: str | None, options: Mapping[str, Any]) -> None:
    """Show the line to write where a module of a library comes without what it needs."""
    if hasattr(getattr(module, "config", None), "model_type") and "size" not in options:
        raise _processor_missing(module)
    for known in MODULE_TASKS if task is None else ():
        if type(module).__module__.startswith(f"torchvision.models.{known}."):
            raise WhymaskError(
                f"{type(module).__name__} is a model for {known}: whymask.wrap(model, task={known!r}, labels=NAMES), "
                "the names of its classes."
            )


def _processor_missing(model: Any) -> WhymaskError:
    """The error for a module of transformers without the processor that makes its inputs."""
    name = getattr(model.config, "name_or_path", "") or "NAME"
    return WhymaskError(
        f"{type(model).__name__} is a model of transformers, whose processor makes its inputs: "
        f"whymask.wrap(model, AutoProcessor.from_pretrained({name!r}))."
    )


def _with_processor(model: Any, processor: Any) -> Callable[..., Any]:
    """What wraps a model of transformers that comes with its processor."""
    if not hasattr(model, "config") or not hasattr(model, "forward"):
        raise WhymaskError(f"a processor belongs to a model of transformers, not to {type(model).__name__}.")
    if not (hasattr(processor, "image_processor") or hasattr(processor, "preprocess")):  # a tokenizer
        raise _processor_missing(model)
    kind, reads = type(model).__name__, hasattr(processor, "tokenizer")
    if kind.endswith("ForObjectDetection"):
        family = "hf_zero_shot_detector" if reads else "hf_detector"
    elif kind.endswith("Segmentation"):
        family = "hf_segmenter"
    elif hasattr(model, "logit_scale") and reads:  # CLIP, SigLIP
        family = "clip"
    elif reads:
        family = "encoder_decoder" if import_module("whymask.models.hf").decodes(model.config) else "multimodal"
    elif callable(getattr(model, "can_generate", None)) and model.can_generate():  # an image processor will not do
        raise _processor_missing(model)
    else:
        family = "hf_classifier"
    return cast(Callable[..., Any], import_module(f"whymask.models.{family}").wrap_pair)


def load(name: str, /, **options: Any) -> Model:
    """Run the file and call its function with the options."""
    path, _, function = name.rpartition(":")
    file = Path(path)
    module_name = f"whymask_own_{file.stem}"
    spec = spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickles look there
    with _reported(file):
        spec.loader.exec_module(module)
    make = getattr(module, function, None)
    if not callable(make):
        known = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        raise unknown(f"function of {file}", function, known)
    check_options(make, options, name)
    with _reported(file):
        made = make(**options)
    ready = hasattr(made, "bind") and hasattr(made, "respond")
    return cast(Model, made) if ready else wrap(made)


@contextmanager
def _reported(file: Path) -> Iterator[None]:
    """Report an exception of the user's code in one line that says where it was raised."""
    try:
        yield
    except WhymaskError:
        raise
    except Exception as error:  # of any kind
        lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename) == file.absolute()]
        reason: object = error
        if isinstance(error, SyntaxError) and error.lineno and not lines:  # of this file: nothing in it has run
            lines, reason = [error.lineno], error.msg
        where = f"{file}, line {lines[-1]}" if lines else str(file)
        raise WhymaskError(" ".join(f"{where}: {type(error).__name__}: {reason}".split())) from error


def check_options(function: Callable[..., Any], options: Mapping[str, Any], name: str, given: int = 0) -> None:
    """Raise an error for options that a function does not have, and for one that it requires.

    Its first `given` parameters are not options. `name` is what the error calls the function.
    """
    parameters = list(inspect.signature(function).parameters.values())[given:]
    known = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for option in options:
            if not known:
                raise WhymaskError(f"{name} has no options, so {option!r} is unknown.")
            if option not in known:
                raise WhymaskError(f"{name}: {unknown('option', option, known)}")
    for option, parameter in known.items():
        if option not in options and parameter.default is parameter.empty:
            raise WhymaskError(f"{name}: the option {option!r} is required.")
