"""How a module runs forward on CUDA: compiled once for all batch sizes, small batches recorded and replayed."""

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Any

import torch

from whymask.models.batching import is_out_of_memory


def compiled(module: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    """A module compiled once for batches of all sizes; with images of all sizes too, it would take twice as long."""
    run = torch.compile(module)

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        torch._dynamo.maybe_mark_dynamic(inputs, 0)
        result: torch.Tensor = run(inputs)
        return result

    return forward


class CudaReplays:
    """Runs a module, or what it was compiled to, on CUDA; a batch shape that comes again is recorded and replayed.

    A small batch of a deep network is computed before its next kernels are launched from Python; a replay launches
    all of them at once. The kernels are the same, so the results are too.
    """

    def __init__(self, module: torch.nn.Module, run: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.run = run
        # Padded batches have few shapes. cuDNN plans every convolution anew for each shape, a second or two for a whole
        # network; other networks gain only where a batch is so small that it is replayed.
        convolutional = sum(isinstance(part, torch.nn.Conv2d) for part in module.modules()) > 4
        self.step = 16 if convolutional else 8
        self.pads_up_to = inf if convolutional else 64
        self.largest = 256 if convolutional else 64  # the kernels of a larger batch are long enough
        self.seen: Counter[tuple[int, ...]] = Counter()
        self.recorded: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}
        self.pool: Any = None
        self.recordable = True  # until it fails: a module that looks at its values cannot be

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """The module's output for a batch."""
        shape = tuple(inputs.shape)
        self.seen[shape] += 1
        if not self.recordable or len(inputs) > self.largest or self.seen[shape] < 3:
            return self.run(inputs)
        if shape not in self.recorded:
            try:
                self.recorded[shape] = self._record(inputs)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise  # the batch is sent again in halves
                self.recordable = False
                return self(inputs)
        graph, source, result = self.recorded[shape]
        source.copy_(inputs)
        graph.replay()
        return result.clone()

    def _record(self, inputs: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
        # Recordings share their memory: each result is copied out before another is replayed.
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        source = inputs.clone()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, pool=self.pool):
            result = self.run(source)
        return graph, source, result


def padded(count: int, step: int = 16) -> int:
    """The next of 16, 32, 48, ... 128, 160, 192, 224, 256, 320, ... (or of finer steps): few batch shapes."""
    step = max(step, 1 << max(0, (count - 1).bit_length() - 3))
    return -(-count // step) * step
