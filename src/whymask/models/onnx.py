"""Any ONNX image classifier, through onnxruntime."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.errors import WhymaskError, first_line, unknown
from whymask.images.imaging import Canvas, CentreCrop
from whymask.models.base import Bound, Response, composed
from whymask.models.batching import is_out_of_memory, single
from whymask.models.classifier import Classifier, check_scale
from whymask.models.differentiable import Differentiable, forward_only
from whymask.models.outputs import Activation, answers, check_activation, evidence, names_of
from whymask.models.packages import cache_folder, required
from whymask.models.torch_module import TorchClassifier
from whymask.utils.files import atomic

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxClassifier(Classifier):
    """A file that maps pixels (pixel - mean) / std, values 0 ... 255, to one number per class.

    Nothing about a file's preprocessing can be read from it, so layout, mean, std and what comes out are explicit:
    `activation` says how a score follows from the numbers ("none": they are probabilities).
    """

    def __init__(
        self,
        file: str | Path,
        *,
        size: int | tuple[int, int],
        mean: Sequence[float],
        std: Sequence[float],
        layout: Literal["NCHW", "NHWC"] = "NCHW",
        activation: Activation = "softmax",
        crop: float = 1.0,
        labels: Sequence[str] | None = None,
        aliases: Mapping[str, int] | None = None,
        name: str | None = None,
        device: str = "cpu",
        source: TorchClassifier | None = None,
    ) -> None:
        path = Path(file)
        if not path.is_file():
            raise WhymaskError(f"there is no file {path}.")
        if layout not in ("NCHW", "NHWC"):
            raise unknown("layout", layout, ("NCHW", "NHWC"))
        check_activation(activation)
        check_scale(mean, std)
        content = path.read_bytes()
        self.session = session_of(content, str(path), device)
        self.name = name or path.name
        self.aliases = dict(aliases or {})
        self.source = source  # the module the file was made from
        self.channels_first, self.activation = layout == "NCHW", activation
        self.geometry = CentreCrop(size, share=crop)
        self.mean, self.std = np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)
        self.fingerprint = composed(
            hashlib.sha256(content).hexdigest()[:16],
            geometry=self.geometry.fingerprint,
            mean=self.mean.tolist(),
            std=self.std.tolist(),
            layout=layout,
            activation=activation,
        )
        self.batch_size = 16
        self.settings = {"device": device, "dtype": "fp32", "runtime": runtime_version()}
        self.input = self.session.get_inputs()[0].name
        with single():
            classes = self._run(self.encode(np.zeros((*self.geometry.shape, 3), dtype=np.uint8))[None]).shape
        if len(classes) != 2:
            hint = f"; a YOLO detector is loaded as yolo:{path}" if len(classes) == 3 else ""
            raise WhymaskError(f"{path} must return (B, classes), not {len(classes)} dimensions{hint}.")
        self.labels = names_of(str(path), classes[1], labels, activation, call=f"whymask.load({str(path)!r}")

    def encode(self, canvas: Canvas) -> torch.Tensor:
        """Normalised pixels in the file's layout; a tensor, since torch composes masked inputs faster than numpy."""
        pixels = torch.from_numpy((canvas.astype(np.float32) - self.mean) / self.std)
        return pixels.permute(2, 0, 1).contiguous() if self.channels_first else pixels

    def outputs(self, inputs: Any) -> torch.Tensor:
        """What the file returns, in fp64."""
        return torch.from_numpy(self._run(inputs).astype(np.float64))

    def read(self, outputs: Any, targets: Sequence[int]) -> Response:
        """Scores and the likeliest answers, as for a torch module with these outputs."""
        score, top = evidence(outputs, targets, self.activation).score, answers(outputs, self.activation).argmax(dim=1)
        return Response(score.numpy(), top.numpy())

    def differentiable(self, bound: Bound) -> Differentiable:
        """The image for methods that use gradients: on the module the file was made from, where that is known."""
        if self.source is None:
            raise forward_only(self.name)
        return self.source.differentiable(bound)

    def _run(self, inputs: torch.Tensor) -> NDArray[Any]:
        return run(self.session, self.name, self.input, inputs)


def _runtime() -> Any:
    return required("onnxruntime", "ONNX models need onnxruntime: pip install 'whymask[onnx]'.")


def runtime_version() -> str:
    """What runs the files."""
    return f"onnxruntime {_runtime().__version__}"


def session_of(content: bytes, name: str, device: str) -> Any:
    """An onnxruntime session of a file."""
    runtime = _runtime()
    if PROVIDERS.get(device) not in runtime.get_available_providers():
        raise WhymaskError(f"onnxruntime cannot run on the device {device!r} here.")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()  # as the user has set it for torch
    # Threads that spin while they wait would take the cores from composing the next batch.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return runtime.InferenceSession(content, options, providers=[PROVIDERS[device]])
    except Exception as error:  # onnxruntime's errors have no common type
        raise WhymaskError(f"{name} cannot be loaded by onnxruntime: {first_line(error)}") from None


def run(session: Any, name: str, input_name: str, inputs: torch.Tensor) -> NDArray[Any]:
    """The first output for a batch."""
    try:
        return np.asarray(session.run(None, {input_name: inputs.contiguous().numpy()})[0])
    except Exception as error:  # as above
        if is_out_of_memory(error):
            raise  # the batch is sent again in halves
        raise WhymaskError(f"{name} failed: {first_line(error)}") from None


def onnx_file(module: torch.nn.Module, size: int, fingerprint: str) -> Path:
    """The module as an ONNX file with a free batch size, made once and kept on disk."""
    file = cache_folder() / f"module-{fingerprint}-{size}.onnx"
    if not file.is_file():
        with warnings.catch_warnings(), atomic(file) as out:
            warnings.simplefilter("ignore")  # the exporter that needs no further package says it is the older one
            torch.onnx.export(
                module,
                (torch.zeros(2, 3, size, size),),
                out.name,
                dynamo=False,
                input_names=["pixels"],
                output_names=["logits"],
                dynamic_axes={"pixels": {0: "batch"}, "logits": {0: "batch"}},
            )
    return file
