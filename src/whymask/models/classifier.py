"""Image classifiers that are torch modules: normalised pixels in, one logit per class out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whymask.errors import WhymaskError, unknown
from whymask.imaging import Canvas, CentreCrop, ImageSource, Resize, load_image
from whymask.masking import Fill, fill_canvas
from whymask.models.base import Bound, Response, Target

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class PixelBound(Bound):
    """Inputs are normalised pixels (3, H, W)."""

    def index(self, labels: NDArray[np.int32]) -> torch.Tensor:
        """The label map as (1, H, W): all channels of a pixel share its region."""
        return torch.from_numpy(labels.astype(np.int64))[None].to(self.inputs.device)


class TorchClassifier:
    """A torch module (B, 3, H, W) -> (B, classes) with the preprocessing (pixel - mean) / std on values 0 ... 255."""

    deterministic = True
    default_k = 8

    def __init__(
        self,
        module: torch.nn.Module,
        geometry: CentreCrop,
        labels: Sequence[str],
        *,
        aliases: Mapping[str, int] | None = None,
        mean: Sequence[float],
        std: Sequence[float],
        name: str,
        fingerprint: str,
        device: str = "cpu",
        dtype: str = "fp32",
    ) -> None:
        if dtype not in DTYPES:
            raise unknown("dtype", dtype, DTYPES)
        try:
            self.device = torch.device(device)
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError):
            raise WhymaskError(f"the device {device!r} is not available here.") from None
        self.name, self.fingerprint = name, fingerprint
        self.geometry, self.labels = geometry, list(labels)
        self.aliases = dict(aliases or {})
        self.dtype = DTYPES[dtype]
        # Convolutions on a CPU are up to twice as fast on channels-last tensors, and no slower elsewhere.
        self.module = module.eval().requires_grad_(False).to(self.device, self.dtype)
        self.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.mean = torch.tensor(mean, dtype=torch.float32)
        self.std = torch.tensor(std, dtype=torch.float32)
        self.batch_size = 16 if self.device.type == "cpu" else 256
        self.settings = {"device": str(self.device), "dtype": dtype}

    def bind(
        self,
        image: ImageSource,
        *,
        target: int | str | None = None,
        question: str | None = None,
        resize: Resize = "own",
        fill: Fill = "black",
    ) -> PixelBound:
        """Put the image on the input grid; without a target, explain the class the model predicts."""
        if question is not None:
            raise WhymaskError(f"{self.name} is a classifier: it takes a target, not a question.")
        picture = load_image(image)
        canvas, box = self.geometry.place(picture, resize)
        inputs = self.normalise(canvas)
        probes = 0
        if target is None:
            index, probes = int(self._probabilities(inputs[None]).argmax()), 1
        else:
            index = self.resolve(target)
        backdrop = fill_canvas(fill, canvas)
        return PixelBound(
            image=picture,
            canvas=canvas,
            fill=backdrop,
            box=box,
            target=Target(index, self.labels[index]),
            inputs=inputs,
            fill_inputs=self.normalise(backdrop),
            key=(tuple(inputs.shape), self.dtype),
            probes=probes,
        )

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Class probabilities of the bounds' targets, and the class predicted for each input."""
        probabilities = self._probabilities(inputs)
        targets = torch.tensor([bound.target.index for bound in bounds], device=self.device)
        score = probabilities.gather(1, targets[:, None])[:, 0]
        return Response(score.double().cpu().numpy(), probabilities.argmax(dim=1).cpu().numpy())

    def normalise(self, canvas: Canvas) -> torch.Tensor:
        """Pixels (H, W, 3) as the module wants them, (3, H, W)."""
        pixels = (torch.tensor(canvas).float() - self.mean) / self.std
        return pixels.to(self.device, self.dtype).permute(2, 0, 1)

    def resolve(self, target: int | str) -> int:
        """The class index a user means: a number, a class name, or an alias of one."""
        if isinstance(target, str) and not target.strip().lstrip("-").isdigit():
            wanted = target.strip().lower()
            names = {label.lower(): index for index, label in reversed(list(enumerate(self.labels)))}
            names = {**self.aliases, **names}
            if wanted not in names:
                raise unknown("target", wanted, names)
            return names[wanted]
        index = int(target)
        if not 0 <= index < len(self.labels):
            raise WhymaskError(f"target {index} is outside the model's classes 0 ... {len(self.labels) - 1}.")
        return index

    def _probabilities(self, inputs: torch.Tensor) -> torch.Tensor:
        count = len(inputs)
        with torch.inference_mode():
            if self.device.type == "cuda":
                inputs = torch.cat([inputs, inputs[-1:].expand(padded(count) - count, *inputs.shape[1:])])
            logits: torch.Tensor = self.module(inputs.contiguous(memory_format=torch.channels_last))
            return logits[:count].float().softmax(dim=1)


def padded(count: int) -> int:
    """The next of 16, 24, 32, 48, 64, 96, ...: few batch shapes, since cuDNN plans every convolution anew for each."""
    size = 16
    while size < count:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size
