"""How many images go into one forward: measured while the work is done, halved when memory runs out."""

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from whymask.errors import WhymaskError


class Batching:
    """Finds the batch size with the most images per second, from the forwards a search makes anyway.

    Sizes are powers of two times the first guess. A size counts once it was timed twice (a first forward of a new
    shape may plan or compile), by its best time. As long as the largest or the smallest size tried is the best, the
    next one beyond it is tried. A size the user gives stays as it is.
    """

    def __init__(self, guess: int, *, fixed: bool = False, most: int = 4096) -> None:
        self.size = guess
        self.most = guess if fixed else most
        self.fixed = fixed
        self._times: dict[int, list[float]] = defaultdict(list)

    def record(self, count: int, seconds: float) -> None:
        """Learn from a forward of `count` images."""
        if self.fixed or count != self.size:
            return
        self._times[count] = sorted([*self._times[count], seconds / count])[:2]
        if len(self._times[count]) >= 2:
            self.size = self._next()

    def out_of_memory(self, count: int) -> None:
        """A batch of `count` did not fit: never send that many again."""
        self.most = max(1, count // 2)
        self.size = min(self.size, self.most)

    def _next(self) -> int:
        best = min((size for size, times in self._times.items() if len(times) >= 2), key=lambda s: min(self._times[s]))
        larger, smaller = best * 2, best // 2
        if larger <= self.most and len(self._times[larger]) < 2:
            return larger
        if smaller >= 1 and len(self._times[smaller]) < 2:
            return smaller
        return min(best, self.most)


EXHAUSTED = re.compile(
    "out of memory"  # CUDA, MPS
    "|can(no|')t allocate memory|DefaultCPUAllocator"  # torch on a CPU
    "|failed to allocate memory|bad_alloc|bad allocation"  # onnxruntime, C++
    "|ALLOC(ATION)?_FAILED"  # cuBLAS, cuDNN
    "|OOM when allocating",  # TensorFlow
    re.IGNORECASE,
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether no memory was left. Few libraries have a type for it: most only have a message."""
    if isinstance(error, WhymaskError):  # may quote the message of a server, whose memory is not ours
        return False
    exhausted = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return exhausted or EXHAUSTED.search(str(error)) is not None


def too_large() -> WhymaskError:
    """The error for a batch that cannot be halved any further."""
    return WhymaskError(
        "one image does not fit into memory: use a smaller image or model, or a device with more memory."
    )


@contextmanager
def single() -> Iterator[None]:
    """Report running out of memory on a single image as an error of one line."""
    try:
        yield
    except Exception as error:  # of any library
        if not is_out_of_memory(error):
            raise
        raise too_large() from None
