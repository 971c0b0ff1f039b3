"""Types of arrays, and conversions: of what a model returns to one, and of one to a tensor on a device."""

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whymask.errors import WhymaskError

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Masks: TypeAlias = NDArray[np.float32]
Rows: TypeAlias = NDArray[Any]
"""Kept sets (B, n), or pixel masks (B, H, W) in [0, 1] that show 1 - m of the fill: each row is one masked image."""


def on_device(values: Any, device: Any) -> Any:
    """Values as a tensor on a device; the host does not wait until CUDA has finished what it was given before."""
    import torch

    tensor = torch.as_tensor(values)
    if tensor.device.type == "cpu" and torch.device(device).type == "cuda":  # only copies of pinned memory do not wait
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def real_numbers(values: Any) -> Floats:
    """What a model or a function returned, as float64; tensors may be of any type, on any device, with gradients."""
    torch = sys.modules.get("torch")  # without it there are no tensors
    kind = type(values).__name__
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # numpy has no bf16
    try:
        numbers = np.asarray(values)
        if numbers.dtype.kind not in "fiub":
            raise TypeError
    except (TypeError, ValueError, RuntimeError):
        raise WhymaskError(f"the model must return plain real numbers, not this {kind}.") from None
    numbers = numbers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise WhymaskError("the model returned NaN or infinity for an image; scores must be finite.")
    return numbers
