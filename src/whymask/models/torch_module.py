"""Image classifiers that are torch modules: normalised pixels in, one logit per class out."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy, deepcopy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any, Self

import numpy as np
import torch
from PIL import Image

from whymask.errors import WhymaskError, first_line, unknown
from whymask.images.imaging import Canvas, CentreCrop, Geometry
from whymask.models.base import Bound, Response, composed
from whymask.models.classifier import Classifier, check_scale
from whymask.models.differentiable import Differentiable, Evidence
from whymask.models.launched import launched
from whymask.models.outputs import Activation, answers, check_activation, evidence, logits_in, names_of
from whymask.models.precision import converted, norm_settings
from whymask.models.replays import CudaReplays, compiled, padded
from whymask.utils.digest import digest, is_plain

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def device_of(name: str) -> torch.device:
    """The device of this name, if it is here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise WhymaskError(f"the device {name!r} is not available here.") from None
    return device


def dtype_of(name: str) -> torch.dtype:
    """The precision of this name."""
    if name not in DTYPES:
        raise unknown("dtype", name, DTYPES)
    return DTYPES[name]


def home_of(module: torch.nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where a module is and what it computes in; a module without tensors is on the CPU, in fp32."""
    tensors = [*module.parameters(), *module.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    return device, next((tensor.dtype for tensor in tensors if tensor.dtype in DTYPES.values()), torch.float32)


def run_settings(module: torch.nn.Module, device: torch.device, dtype: torch.dtype) -> dict[str, str]:
    """Where and in which precision a module runs, as `Model.settings` records it."""
    return {"device": str(device), "dtype": DTYPE_NAMES[dtype], **norm_settings(module, dtype)}


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block, each part's own mode after it.

    Only the flags change: classes may override `eval` and `train` to do more, such as merging weights.
    """
    training = [part for part in module.modules() if getattr(part, "training", False)]  # frozen scripts have none
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


class TorchClassifier(Classifier):
    """A torch module (B, 3, H, W) -> (B, classes) with the preprocessing (pixel - mean) / std on values 0 ... 255.

    With a mean of one value the module takes grey images (B, 1, H, W). `activation` says how a score follows from the
    logits, `logits` which entry of a tuple or dictionary they are.

    A module that this package has loaded is converted: to the device and dtype, frozen, in evaluation mode. A borrowed
    one belongs to the caller, who may go on training it. It runs as it is, with the weights it has at that time, and is
    left unchanged; another device or dtype than its own means a converted copy, and so does `compile`, by which
    torch.compile fuses what runs forward. Gradients are taken through the module as it is.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        geometry: Geometry,
        labels: Sequence[str],
        *,
        mean: Sequence[float] | float,
        std: Sequence[float] | float,
        name: str,
        aliases: Mapping[str, int] | None = None,
        fingerprint: str | None = None,
        device: str | None = "cpu",
        dtype: str | None = "fp32",
        compile: bool = False,
        borrowed: bool = False,
        activation: Activation = "softmax",
        logits: str | int | None = None,
    ) -> None:
        check_activation(activation)
        home = home_of(module)
        self.device = home[0] if device is None else device_of(device)
        self.dtype = home[1] if dtype is None else dtype_of(dtype)
        self.live = borrowed and not compile and (torch.empty(0, device=self.device).device, self.dtype) == home
        self.name, self.geometry, self.labels = name, geometry, list(labels)
        self.aliases = dict(aliases or {})
        # The weights of a live module may change at any time.
        self._weights = None if self.live else fingerprint or module_fingerprint(module, code=borrowed)
        if not self.live:
            module = _copied(module, name) if borrowed else module
            module = converted(module, name, self.device, self.dtype)
            # Convolutions on a CPU are up to twice as fast on channels-last tensors, and no slower elsewhere.
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.module = module
        # Code such as x.view(len(x), -1) runs only in the layout it was written for.
        self.layout = torch.contiguous_format if self.live and not channels_last(module) else torch.channels_last
        self.mean = torch.tensor(mean, dtype=torch.float32)
        self.std = torch.tensor(std, dtype=torch.float32)
        self.activation, self.key = activation, logits
        # What moves a score besides the weights; a family adds its own.
        self.besides: dict[str, Any] = {
            "geometry": geometry.fingerprint, "mean": self.mean.tolist(), "std": self.std.tolist(),
        }  # fmt: skip
        self.batch_size = 16 if self.device.type == "cpu" else 256
        if activation != "softmax":
            self.besides["activation"] = activation
        if logits is not None:
            self.besides["logits"] = logits
        run = compiled(self.module) if compile else self.module
        self.run: Callable[[torch.Tensor], torch.Tensor] = lambda inputs: logits_in(run(inputs), name, logits)
        self.replays = CudaReplays(self.module, self.run)
        self.settings = run_settings(module, self.device, self.dtype)
        if compile:
            self.settings["compiled"] = "yes"

    @property
    def fingerprint(self) -> str:
        """Equal only for equal weights (those a live module has now) and preprocessing."""
        return composed(self._weights or module_fingerprint(self.module, code=True), **self.besides)

    def encode(self, canvas: Canvas, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Normalised pixels (3, H, W) of a canvas, or grey ones (1, H, W), in the module's precision or another."""
        if self.mean.shape == (1,):
            canvas = np.asarray(Image.fromarray(canvas).convert("L"))[..., None]
        pixels = (torch.tensor(canvas).float() - self.mean) / self.std
        return pixels.to(self.device, dtype or self.dtype).permute(2, 0, 1)

    def outputs(self, inputs: Any) -> torch.Tensor:
        """The module's outputs in fp32, whatever it computes in."""
        return self.logits(inputs).float()

    def score(self, inputs: Any, targets: Sequence[int]) -> Response:
        """Probability of targets[i] for inputs[i], and the most probable answer; on CUDA the host does not wait."""
        reads_itself = getattr(self.read, "__func__", None) is not TorchClassifier.read  # what a subclass says counts
        if self.device.type != "cuda" or reads_itself:
            return super().score(inputs, targets)
        return launched(lambda: self._scored(self.outputs(inputs), targets), self.device)

    def read(self, outputs: Any, targets: Sequence[int]) -> Response:
        """The score that `evidence` defines."""
        score, top = self._scored(outputs, targets)
        return Response(score.cpu().numpy(), top.cpu().numpy())

    def _scored(self, outputs: torch.Tensor, targets: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores of the targets and the most probable answers, on the device."""
        return self.evidence(outputs, targets).score.double(), self.preferred(outputs)

    def logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """The module's outputs (B, classes) for a batch (B, 3, H, W), which is not changed."""
        count = len(inputs)
        # Not inference_mode: what a live module keeps of a forward, such as a table of positions, is used in training.
        with torch.no_grad(), evaluating(self.module) if self.live else nullcontext():
            pads = self.device.type == "cuda" and count <= self.replays.pads_up_to
            if pads and (more := padded(count, self.replays.step) - count):
                inputs = torch.cat([inputs, inputs[-1:].expand(more, *inputs.shape[1:])])
            inputs = inputs.clone(memory_format=self.layout)  # a module may overwrite its input
            # A recording would miss what the caller changes in a live module: replaced weights, options, parts.
            logits = self.replays(inputs) if pads and not self.live else self.run(inputs)
        return logits[:count]

    def differentiable(self, bound: Bound) -> Differentiable:
        """The image for methods that use gradients, in the module's own precision.

        A module that was converted to half precision is converted back: in half precision small gradients vanish, and
        so do small steps (one of IG2's moves a pixel by a hundredth of a grey level).
        """
        module, dtype = self.module, self.dtype
        if dtype.itemsize < 4 and not self.live:
            module, dtype = self._single, torch.float32
            bound = replace(bound, inputs=self.encode(bound.canvas, dtype))

        def read(inputs: torch.Tensor) -> Evidence:
            with evaluating(module) if self.live else nullcontext():
                outputs = module(inputs.to(dtype).clone(memory_format=self.layout))
            outputs = logits_in(outputs, self.name, self.key)
            return self.evidence(outputs.float(), [self.wanted(bound)] * len(inputs))

        return Differentiable(bound, module, read, partial(self.encode, dtype=dtype))

    @cached_property
    def _single(self) -> torch.nn.Module:
        """The module in fp32, with its weights as they were rounded."""
        return deepcopy(self.module).float()

    def evidence(self, outputs: torch.Tensor, targets: Sequence[int]) -> Evidence:
        """How the module's outputs (B, ...), in fp32, support targets[i] in row i.

        This defines the score. A family with another one overrides it, and `preferred` if need be.
        """
        return evidence(outputs, targets, self.activation)

    def preferred(self, outputs: torch.Tensor) -> torch.Tensor:
        """The most probable answers (B,)."""
        return answers(outputs, self.activation).argmax(dim=1)

    def over(self, module: torch.nn.Module) -> Self:
        """The same classifier on another module of its kind, which runs as it is."""
        other = copy(self)
        vars(other).pop("_single", None)  # made of the old weights
        other.module = other.run = module
        other.replays = CudaReplays(module, module)
        other._weights = None if self.live else module_fingerprint(module)
        return other


def _copied(module: torch.nn.Module, name: str) -> torch.nn.Module:
    try:
        return deepcopy(module)
    except Exception as error:  # tensors that are part of a graph, objects that cannot be copied
        raise WhymaskError(
            f"{name} cannot be copied, as another device or dtype requires ({error}): convert it before you wrap it."
        ) from None


def channels_last(module: torch.nn.Module) -> bool:
    """Whether a module's convolutions have been converted to channels-last tensors."""
    images = [weight for weight in module.parameters() if weight.ndim == 4 and not weight.is_contiguous()]
    return any(weight.is_contiguous(memory_format=torch.channels_last) for weight in images)


def module_fingerprint(module: torch.nn.Module, *, code: bool = False) -> str:
    """Identifies a module by a hash of its layers, as torch prints them, its plain attributes and all tensors.

    With `code`, the source of its classes is part of it: libraries have versions, a user's module does not.
    """
    layers = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(module))  # functions are printed with their address
    attributes = {name: _attributes(part) for name, part in module.named_modules()}
    kinds = dict.fromkeys(kind for part in module.modules() for kind in type(part).__mro__) if code else {}
    found = hashlib.sha256(digest([layers, attributes, [_source(kind) for kind in kinds]]).encode())
    buffers = module.named_buffers(remove_duplicate=False)  # those too that are not saved
    for name, tensor in (*module.named_parameters(remove_duplicate=False), *buffers):
        values = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + values.numpy().tobytes())
    return found.hexdigest()[:16]


def _attributes(part: torch.nn.Module) -> dict[str, Any]:
    """What a layer is set to but need not print, such as a number of heads; functions by their names.

    Dictionaries are left out: they are often caches.
    """
    left_out = ("training", "name_or_path")  # neither the mode nor the path of the weights moves a score
    public = {name: value for name, value in vars(part).items() if not name.startswith("_") and name not in left_out}
    named = {
        name: f"{getattr(value, '__module__', '')}.{value.__qualname__}" if inspect.isroutine(value) else value
        for name, value in public.items()
    }
    return {name: value for name, value in named.items() if not isinstance(value, dict) and is_plain(value)}


@lru_cache(maxsize=1024)
def _source(kind: type) -> str | None:
    """The code of a class, where it is known; that of torch follows from its version."""
    if kind.__module__.partition(".")[0] == "torch":
        return None
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # typed in, or not written in Python
        return None


IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""The usual mean and std of ImageNet, on pixel values 0 ... 255."""


def wrap_module(
    module: torch.nn.Module,
    *,
    size: int | tuple[int, int] | None = None,
    mean: Sequence[float] | float | None = None,
    std: Sequence[float] | float | None = None,
    crop: float = 0.875,
    labels: Sequence[str] | None = None,
    activation: Activation | None = None,
    logits: str | int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
) -> TorchClassifier:
    """Any module (B, 3, H, W) -> logits (B, classes), by default with ImageNet's usual preprocessing.

    The module is not changed. It is explained where it is, unless a device, a dtype or `compile` asks for a converted
    copy.
    """
    name = type(module).__name__
    if size is None:
        raise WhymaskError(
            f"{name} does not define the size of its images: whymask.wrap(model, size=224, mean={IMAGENET[0]}, "
            f"std={IMAGENET[1]}), with ImageNet's mean and std."
        )
    geometry = CentreCrop(size, share=crop)
    if grey(module):
        if mean is None or std is None or np.size(mean) != 1 or np.size(std) != 1:
            raise WhymaskError(
                f"{name} takes grey images, so mean and std have one value each: "
                f"whymask.wrap(model, size={size}, mean=[127.5], std=[127.5])."
            )
        mean, std = np.ravel(mean).tolist(), np.ravel(std).tolist()
    mean, std = (usual if given is None else given for given, usual in zip((mean, std), IMAGENET, strict=True))
    check_scale(mean, std)
    model = TorchClassifier(
        module,
        geometry,
        [],
        mean=mean,
        std=std,
        name=name,
        device=device,
        dtype=dtype,
        compile=compile,
        borrowed=True,
        activation=activation or "softmax",
        logits=logits,
    )
    blank = model.encode(np.zeros((*geometry.shape, 3), dtype=np.uint8))
    try:
        outputs = model.logits(blank[None]).shape[1]
    except (RuntimeError, TypeError, IndexError, AssertionError) as error:  # of the module
        raise WhymaskError(f"{name} fails on an image of shape {tuple(blank.shape)}: {first_line(error)}") from error
    model.labels = names_of(name, outputs, labels, activation)
    return model


def grey(module: torch.nn.Module) -> bool:
    """Whether the first convolution of a module reads a single channel."""
    first = next((part for part in module.modules() if isinstance(part, torch.nn.Conv2d)), None)
    return first is not None and first.in_channels == 1
