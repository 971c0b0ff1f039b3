"""Converting a module to a device and a precision without damaging its numbers, and how exactly a GPU computes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from whymask.errors import WhymaskError


def converted(module: torch.nn.Module, name: str, device: torch.device, dtype: torch.dtype) -> torch.nn.Module:
    """The same module in evaluation mode and frozen, on this device and in this precision.

    In half precision batch norms stay in fp32 and take inputs of any precision: a channel whose variance exceeds
    65,504 would be divided by infinity in fp16, and so silenced without an error. Other weights beyond the range raise
    an error.
    """
    module = module.eval().requires_grad_(False)
    if dtype.itemsize >= 4:
        return module.to(device, dtype)
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    exact = [{key: tensor.clone() for key, tensor in part.state_dict().items()} for part in norms]
    for part in module.modules():
        if not isinstance(part, _BatchNorm):
            _check_range(part, name, dtype)
    module.to(device, dtype)
    for part, state in zip(norms, exact, strict=True):
        part.float().load_state_dict(state)
    return module


def norm_settings(module: torch.nn.Module, dtype: torch.dtype) -> dict[str, str]:
    """The precision of batch norms where it is not the module's, so that records of other roundings are not mixed."""
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    kinds = {tensor.dtype for part in norms for tensor in (*part.parameters(), *part.buffers())}
    return {"norms": "fp32"} if torch.float32 in kinds and dtype != torch.float32 else {}


@contextmanager
def all_bits() -> Iterator[None]:
    """Products and convolutions in fp32 keep all bits inside the block, on CUDA too."""
    cudnn: Any = torch.backends.cudnn
    newer = hasattr(cudnn, "conv")  # torch 2.9 has other names, and they must not be mixed
    name, off = ("fp32_precision", "ieee") if newer else ("allow_tf32", False)
    backends = [cudnn.conv if newer else cudnn, torch.backends.cuda.matmul]
    before = [getattr(backend, name) for backend in backends]
    try:
        for backend in backends:
            setattr(backend, name, off)
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            setattr(backend, name, value)


def _check_range(part: torch.nn.Module, name: str, dtype: torch.dtype) -> None:
    for label, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
        if tensor.is_floating_point() and (tensor.isfinite() & ~tensor.to(dtype).isfinite()).any():
            kind = str(dtype).removeprefix("torch.")
            raise WhymaskError(
                f"{name} has weights beyond the range of {kind} ({type(part).__name__}.{label}): pass dtype='bf16' or "
                "'fp32'."
            )
