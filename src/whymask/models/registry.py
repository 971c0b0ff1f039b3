"""Models by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from whymask.errors import unknown
from whymask.models.base import Model


@dataclass(frozen=True)
class Entry:
    """A model that can be loaded by its id."""

    name: str
    summary: str
    extra: str  # what to install for it: pip install 'whymask[extra]'
    module: str  # imported only when the model is asked for

    @property
    def installed(self) -> bool:
        """Whether its packages are here."""
        check: Callable[[str], bool] = import_module(self.module).installed
        return check(self.name)


_LITE = "whymask.models.efficientnet_lite"
MODELS = {
    entry.name: entry
    for entry in (
        Entry("efficientnet-lite0", "ImageNet classifier, 224 px, 4.7 M parameters", "lite", _LITE),
        Entry("efficientnet-lite1", "ImageNet classifier, 240 px, 5.4 M parameters", "lite", _LITE),
        Entry("efficientnet-lite2", "ImageNet classifier, 260 px, 6.1 M parameters", "lite", _LITE),
    )
}


def load(name: str, *, device: str = "cpu", dtype: str = "fp32") -> Model:
    """The model of this id, on a device ("cpu", "cuda", "mps") in a precision ("fp32", "fp16", "bf16")."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    model: Model = import_module(MODELS[name].module).load(name, device=device, dtype=dtype)
    return model
