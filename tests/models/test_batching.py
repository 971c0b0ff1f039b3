import weakref

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case, batching
from whymask.explainer.responder import halves
from whymask.methods import Recipe
from whymask.models.batching import Batching, is_out_of_memory
from whymask.models.function import FunctionModel

from models.tiny import Quadrants, lit, quadrants


def settle(seconds_per_image, guess=16, steps=60, **options):
    """The size it ends at when a forward of b images takes b * seconds_per_image(b)."""
    sizes = Batching(guess, **options)
    for _ in range(steps):
        sizes.record(sizes.size, sizes.size * seconds_per_image(sizes.size))
    return sizes.size


@pytest.mark.parametrize("best", [1, 4, 16, 64, 512])
@pytest.mark.parametrize("guess", [4, 16, 256])
def test_finds_the_fastest_size(best, guess):
    assert settle(lambda b: 1 + abs(np.log2(b / best)), guess) == best


def test_limits():
    assert settle(lambda b: 1 / b, most=100) == 64
    assert settle(lambda b: 1 / b, guess=7, fixed=True) == 7


def test_a_slow_first_forward_of_a_shape_does_not_decide():
    seen = set()

    def seconds(b):
        first = b not in seen
        seen.add(b)
        return 100.0 if first else 1 / b

    assert settle(seconds, guess=16, most=128) == 128


def test_a_size_of_the_users_wins():
    model = quadrants()
    assert Case.of(lit(0), model, regions="grid:2x2", batch_size=5).batching.size == 5
    assert batching(model) is batching(model)
    with pytest.raises(WhymaskError, match="batch_size"):
        Case.of(lit(0), model, regions="grid:2x2", batch_size=0)


def test_halves_keep_every_row_in_order():
    rows = np.eye(9, dtype=bool)
    parts = [(0, rows[:2]), (1, rows[2:7]), (2, rows[7:])]
    first, second = halves(parts)
    assert sum(len(r) for _, r in first) == 4
    joined = [(number, tuple(row)) for number, some in [*first, *second] for row in some]
    assert joined == [(number, tuple(row)) for number, some in parts for row in some]


class Small(Quadrants):
    """Has memory for `fits` images."""

    def __init__(self, fits):
        super().__init__()
        self.fits, self.sizes = fits, []

    def forward(self, x):
        if len(x) > self.fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.sizes.append(len(x))
        return super().forward(x)


@pytest.mark.parametrize("fits", [1, 3, 10])
def test_out_of_memory_halves_and_loses_no_score(fits):
    small = Small(fits)
    model = whymask.wrap(small, size=32, mean=(0, 0, 0), std=(255, 255, 255), crop=1.0)
    case = Case.of(lit(0), model, regions="grid:4x4")
    found = case.search(Recipe("greedy"))[0]
    expected = Case.of(lit(0), quadrants(), regions="grid:4x4").search(Recipe("greedy"))[0]
    assert found.order == expected.order
    assert found.ledger.mec == expected.ledger.mec
    assert max(small.sizes) <= fits
    assert case.batching.size <= fits


def simulated(kind, message):
    def fail():
        raise kind(message)

    return fail


BEYOND = 2**46  # this many numbers are more than an address space
EXHAUSTED = {
    "python": lambda: bytearray(8 * BEYOND),
    "numpy": lambda: np.empty(BEYOND),
    "torch on a CPU": lambda: torch.empty(BEYOND),
    "onnxruntime": simulated(Exception, "[ONNXRuntimeError] : 6 : Failed to allocate memory for requested buffer"),
    "C++": simulated(Exception, "std::bad_alloc"),
    "cuBLAS": simulated(RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    "cuDNN 8": simulated(RuntimeError, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    "cuDNN 9": simulated(RuntimeError, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    "MPS": simulated(RuntimeError, "MPS backend out of memory"),
    "TensorFlow": simulated(Exception, "OOM when allocating tensor with shape[64,224,224,3]"),
}


@pytest.mark.parametrize("library", EXHAUSTED)
def test_the_errors_of_every_library_halve_a_batch(library):
    def small(images):
        if len(images) > 3:
            EXHAUSTED[library]()
        return images.mean(axis=(1, 2, 3)) / 255

    search = {"regions": "grid:4x4", "method": "greedy"}
    found = whymask.explain(lit(0), whymask.wrap(small), **search)
    assert found.order == whymask.explain(lit(0), whymask.wrap(small), **search, batch_size=1).order


@pytest.mark.parametrize("library", EXHAUSTED)
@pytest.mark.parametrize("target", [0, None])
def test_one_image_too_many_is_one_clear_sentence(library, target):
    """It may be met when a target is looked for, or by the first masked image."""
    small = Small(1)
    model = whymask.wrap(small, size=32)
    small.forward = lambda x: EXHAUSTED[library]()
    with pytest.raises(WhymaskError, match=r"^one image does not fit into memory: .*\.$"):
        whymask.explain(lit(0), model, regions="grid:2x2", k=1, target=target)
    with pytest.raises(WhymaskError, match=r"^one image does not fit into memory: .*\.$"):
        list(whymask.explain_many([lit(0)], model, regions="grid:2x2", k=1, targets=[target]))


def test_one_image_too_many_for_a_replay():
    def no_memory(images):
        raise MemoryError

    ordering = whymask.explain(lit(0), quadrants(), regions="grid:2x2", method="greedy")
    with pytest.raises(WhymaskError, match="one image does not fit into memory"):
        whymask.replay(ordering, whymask.wrap(no_memory))


def test_a_server_without_memory_is_not_this_machine():
    assert not is_out_of_memory(WhymaskError("http://host answered 500 (CUDA out of memory); gave up after 1 try."))


class Tensors(FunctionModel):
    """A function model with inputs that are tensors, of any shape."""

    def encode(self, canvas):
        return torch.tensor(super().encode(canvas)).float()


def brightness(x):
    return x.mean(axis=(1, 2, 3)) / 255


@pytest.mark.parametrize("kind", [FunctionModel, Tensors])
def test_a_batch_that_failed_is_gone_before_its_halves_are_sent(kind):
    failed = []

    def small(x):
        assert not [1 for batch in failed if batch() is not None]
        if len(x) > 2:
            failed.append(weakref.ref(x))
            raise MemoryError
        return brightness(x)

    whymask.explain(lit(0), kind(small), regions="grid:4x4", method="greedy")
    assert failed


@pytest.mark.parametrize(("kind", "most"), [(FunctionModel, 0), (Tensors, 1)])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_memory_does_not_grow_with_the_shapes_of_images(kind, most, in_flight):
    """Between two results at most the batch that the next one is composed in is kept."""
    batches = []

    def watch(x):
        batches.append(weakref.ref(x))
        return brightness(x)

    images = (np.full((16 + i, 32, 3), i, dtype=np.uint8) for i in range(40))
    search = {"regions": "grid:2x2", "method": "greedy", "in_flight": in_flight}
    for _ in whymask.explain_many(images, kind(watch), **search):
        assert len([1 for batch in batches if batch() is not None]) <= most
    assert len(batches) > 80


def test_what_is_learned_does_not_grow_with_the_forwards():
    sizes = Batching(4)
    for i in range(1000):
        sizes.record(sizes.size, 1 + i % 7)
    assert sum(len(times) for times in sizes._times.values()) < 50


def test_other_errors_pass():
    class Broken(Quadrants):
        def forward(self, x):
            if len(x) > 1:
                raise RuntimeError("shapes do not match")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="shapes do not match"):
        whymask.explain(lit(0), whymask.wrap(Broken(), size=32), regions="grid:4x4", k=2)
