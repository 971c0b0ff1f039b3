"""Image classifiers of transformers."""

from typing import Any

import torch

from whymask.errors import WhymaskError
from whymask.images.imaging import Preprocessed
from whymask.models.hf import (
    configuration,
    from_checkpoint,
    model_from_checkpoint,
    name_of,
    normalisation,
    pixel_steps,
)
from whymask.models.outputs import Activation, names_of
from whymask.models.torch_module import TorchClassifier


def classifier(
    model: Any, processor: Any, name: str, *, activation: Activation | None = None, **options: Any
) -> TorchClassifier:
    """A transformers classifier with its image processor; options are device, dtype, compile and borrowed.

    The labels of a model for multi-label classification are judged one by one.
    """
    names, problem = model.config.id2label, model.config.problem_type
    if not names:
        raise WhymaskError(f"{name} has no classification head: its configuration lists no classes.")
    if problem == "regression" and activation is None:
        raise WhymaskError(f"{name} is a model for regression: wrap a function that maps its output to [0, 1].")
    if activation is None and problem == "multi_label_classification":
        activation = "sigmoid"
    labels = [str(names[i]).split(",")[0].strip() for i in range(len(names))]
    return TorchClassifier(
        _Logits(model),
        Preprocessed([pixel_steps(processor)]),
        labels=names_of(name, len(names), labels, activation),
        aliases={
            alias.strip().lower(): i
            for i in reversed(range(len(names)))
            for alias in (str(names[i]), *str(names[i]).split(","))
            if len(names) > 1
        },
        activation=activation or "softmax",
        name=name,
        **normalisation(processor),
        **options,
    )


class _Logits(torch.nn.Module):
    """The logits of a transformers model as a plain module."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def extra_repr(self) -> str:
        """Part of the module's fingerprint."""
        return configuration(self.model)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(pixel_values=pixels).logits
        return logits


def load(
    checkpoint: str,
    *,
    device: str = "cpu",
    dtype: str = "fp32",
    compile: bool = False,
    activation: Activation | None = None,
) -> TorchClassifier:
    """An image classifier from the hub or a local folder; tensors only, no remote code."""
    from transformers import AutoImageProcessor, AutoModelForImageClassification

    model = model_from_checkpoint(AutoModelForImageClassification, checkpoint)
    processor = from_checkpoint(AutoImageProcessor, checkpoint)
    options: dict[str, Any] = {"device": device, "dtype": dtype, "compile": compile, "activation": activation}
    return classifier(model, processor, checkpoint, **options)


def wrap_pair(
    model: Any,
    processor: Any,
    *,
    device: str | None = None,
    dtype: str | None = None,
    compile: bool = False,
    activation: Activation | None = None,
) -> TorchClassifier:
    """An existing image classifier with its image processor; it is not modified."""
    options: dict[str, Any] = {"device": device, "dtype": dtype, "compile": compile, "activation": activation}
    return classifier(model, processor, name_of(model), borrowed=True, **options)
