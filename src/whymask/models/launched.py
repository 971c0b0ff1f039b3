"""Forwards on CUDA that the host does not wait for: their scores are copied back while it goes on."""

from collections.abc import Callable

import torch

from whymask.models.base import Launched, Response


def launched(compute: Callable[[], tuple[torch.Tensor, torch.Tensor]], device: torch.device) -> Launched:
    """Launch what computes scores (B,) and the answers the model would give, (B,), on a CUDA device.

    Errors of a kernel are raised where the response is read.
    """
    stream = torch.cuda.current_stream(device)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record(stream)
    score, top = map(_on_host, compute())
    end.record(stream)

    def wait() -> tuple[Response, float]:
        end.synchronize()
        return Response(score.numpy(), top.numpy()), start.elapsed_time(end) / 1000

    return Launched(wait)


def _on_host(values: torch.Tensor) -> torch.Tensor:
    """A copy that has arrived when the device comes to what it is given next."""
    copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)  # a copy to other memory would wait
    return copy.copy_(values, non_blocking=True)
