"""Any ONNX image classifier, through onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from whymask.errors import WhymaskError
from whymask.imaging import Canvas, CentreCrop
from whymask.models.base import Response
from whymask.models.classifier import Classifier
from whymask.models.packages import optional

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxClassifier(Classifier):
    """A file that maps pixels (pixel - mean) / std, values 0 ... 255, to one number per class.

    Nothing about a file's preprocessing can be read from it, so layout, mean, std and what comes out are explicit.
    """

    def __init__(
        self,
        file: str | Path,
        *,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        layout: Literal["NCHW", "NHWC"] = "NCHW",
        output: Literal["logits", "probs"] = "logits",
        crop: float = 1.0,
        labels: Sequence[str] | None = None,
        device: str = "cpu",
    ) -> None:
        runtime = optional("onnxruntime")
        if runtime is None:
            raise WhymaskError("ONNX models need onnxruntime: pip install 'whymask[onnx]'.")
        path = Path(file)
        if not path.is_file():
            raise WhymaskError(f"there is no file {path}.")
        if layout not in ("NCHW", "NHWC") or output not in ("logits", "probs"):
            raise WhymaskError("layout is 'NCHW' or 'NHWC', output is 'logits' or 'probs'.")
        if PROVIDERS.get(device) not in runtime.get_available_providers():
            raise WhymaskError(f"onnxruntime cannot run on the device {device!r} here.")
        content = path.read_bytes()
        try:
            self.session = runtime.InferenceSession(content, providers=[PROVIDERS[device]])
        except Exception as error:  # onnxruntime's errors have no common type
            raise WhymaskError(f"{path} cannot be loaded by onnxruntime: {str(error).splitlines()[0]}") from None
        self.name, self.fingerprint = path.name, hashlib.sha256(content).hexdigest()[:16]
        self.channels_first, self.output = layout == "NCHW", output
        self.geometry = CentreCrop(size, share=crop)
        self.mean, self.std = np.asarray(mean, dtype=np.float32), np.asarray(std, dtype=np.float32)
        self.batch_size = 16
        self.settings = {"device": device, "layout": layout, "output": output}
        self.input = self.session.get_inputs()[0].name
        classes = self._run(self.encode(np.zeros((size, size, 3), dtype=np.uint8))[None]).shape
        if len(classes) != 2:
            raise WhymaskError(f"{path} must return (B, classes), not {len(classes)} dimensions.")
        self.labels = [str(i) for i in range(classes[1])] if labels is None else list(labels)
        if len(self.labels) != classes[1]:
            raise WhymaskError(f"{path} has {classes[1]} classes, but {len(self.labels)} labels were given.")

    def encode(self, canvas: Canvas) -> NDArray[np.float32]:
        """Normalised pixels in the file's layout."""
        pixels: NDArray[np.float32] = (canvas.astype(np.float32) - self.mean) / self.std
        return np.ascontiguousarray(pixels.transpose(2, 0, 1)) if self.channels_first else pixels

    def score(self, inputs: Any, targets: Sequence[int]) -> Response:
        """The file's probabilities, or the softmax of its logits."""
        values = self._run(inputs).astype(np.float64)
        if self.output == "logits":
            values = np.exp(values - values.max(axis=1, keepdims=True))
            values /= values.sum(axis=1, keepdims=True)
        return Response(values[np.arange(len(values)), list(targets)], values.argmax(axis=1))

    def _run(self, inputs: NDArray[np.float32]) -> NDArray[Any]:
        try:
            return np.asarray(self.session.run(None, {self.input: inputs})[0])
        except Exception as error:  # as above
            raise WhymaskError(f"{self.name} failed: {str(error).splitlines()[0]}") from None
