"""Zero-shot classification: an image tower, and classes that are texts of a text tower."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize, softplus

from whymask.arrays import on_device
from whymask.errors import WhymaskError
from whymask.images.imaging import Geometry
from whymask.models.base import Bound, Target
from whymask.models.classifier import is_name
from whymask.models.differentiable import Evidence
from whymask.models.packages import cache_folder
from whymask.models.torch_module import TorchClassifier
from whymask.utils.digest import digest
from whymask.utils.files import atomic

Texts: TypeAlias = str | os.PathLike[str] | Sequence[str]
"""Lines of a file, or the lines themselves."""


class ZeroShot(TorchClassifier):
    """Classes by their texts: a logit is scale * cos(image, text), and the module maps pixels to image features.

    The score is the probability the model was trained to give. CLIP compares texts: the softmax over all classes, a
    free text (a target that is not a class) being one more of them, for the images that ask for it. With a bias, as in
    SigLIP, each text is judged alone: the sigmoid of scale * cos + bias, whatever the other classes are. `fingerprint`
    is that of both towers and the tokenizer.
    """

    def __init__(
        self,
        encoder: torch.nn.Module,
        embed: Callable[[list[str]], NDArray[np.float32]],
        scale: float,
        geometry: Geometry,
        classes: Sequence[str],
        templates: Sequence[str],
        *,
        fingerprint: str,
        bias: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(encoder, geometry, classes, fingerprint=fingerprint, **options)
        self.besides |= {"scale": scale, "classes": list(classes), "templates": list(templates)}
        if bias is not None:
            self.besides["bias"] = bias
        if self.live:  # only the image tower is hashed again
            self.besides["towers"] = fingerprint
        self.scale, self.bias = scale, bias
        self._embed = embed
        self._free: dict[str, int] = {}
        # Only the image tower is converted to another dtype; CUDA rounds differently from a CPU.
        matrix = cached_text_matrix(embed, list(classes), list(templates), f"{fingerprint} {self.device.type}")
        self.texts = torch.from_numpy(matrix).to(self.device)  # (classes + free texts, D), rows of length 1

    def meant(self, target: int | str) -> Target:
        """The answer a user means; a text that is not a class name is a target too."""
        text = str(target).strip()
        if is_name(target) and text.lower() not in {label.lower() for label in self.labels}:
            return Target.named(text)
        if len(self.labels) == 1 and self.bias is None:
            raise WhymaskError(f"the only class of {self.name} scores 1 on every image: pass more classes.")
        return super().meant(target)

    def evidence(self, outputs: torch.Tensor, targets: Sequence[int]) -> Evidence:
        """From image features: of each target alone, or among the classes and the image's own free text."""
        wanted = on_device(targets, self.device)
        own = self.scale * (normalize(outputs) * self.texts[wanted]).sum(dim=1)
        if self.bias is not None:
            return Evidence(own + self.bias, softplus(own + self.bias))
        total = torch.logsumexp(self._similar(outputs), dim=1)
        return Evidence(own, torch.where(wanted >= len(self.labels), torch.logaddexp(total, own), total))

    def preferred(self, outputs: torch.Tensor) -> torch.Tensor:
        """The classes that are most similar (B,)."""
        return self._similar(outputs).argmax(dim=1)

    def _similar(self, features: torch.Tensor) -> torch.Tensor:
        """scale * cos(image, class text), (B, classes)."""
        return self.scale * normalize(features) @ self.texts[: len(self.labels)].T

    def wanted(self, bound: Bound) -> int:
        """The row of the text that is explained; a free one is embedded when it is first asked for."""
        text = bound.target.label
        if bound.target.numbered:
            return bound.target.index
        if text not in self._free:
            row = torch.from_numpy(_unit(self._embed([text]))).to(self.device)
            self._free[text] = len(self.texts)
            self.texts = torch.cat([self.texts, row])
        return self._free[text]


def cached_text_matrix(
    embed: Callable[[list[str]], NDArray[np.float32]], classes: list[str], templates: list[str], embedder: str
) -> NDArray[np.float32]:
    """One unit row per class: the mean of its unit text embeddings over the templates, made unit again.

    Kept on disk, since a thousand classes times eighty templates take minutes on a CPU. `embedder` identifies all that
    moves an embedding.
    """
    file = cache_folder() / f"text-{digest([embedder, templates, classes])}.npy"
    if file.is_file():
        return np.asarray(np.load(file, allow_pickle=False))
    rows = (_unit(embed([template.format(name) for template in templates])) for name in classes)
    matrix = np.stack([_unit(row.mean(axis=0)) for row in rows])
    with atomic(file) as out:
        np.save(out, matrix)
    return matrix


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def lines(texts: Texts) -> list[str]:
    """Class names or templates; empty lines do not count."""
    if isinstance(texts, str | os.PathLike):
        path = Path(texts)
        if not path.is_file():
            raise WhymaskError(f"there is no file {path}: pass a list of texts, or a file with one a line.")
        texts = path.read_text(encoding="utf-8").splitlines()
    found = [text.strip() for text in texts if text.strip()]
    if not found:
        raise WhymaskError("the list of classes or templates is empty.")
    return found
