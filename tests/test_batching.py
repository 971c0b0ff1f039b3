import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.batching import Batching
from whymask.case import Case, batching, halves
from whymask.search import Recipe

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


def test_one_image_too_many_is_one_clear_sentence():
    model = whymask.wrap(Small(1), size=32)
    model.module.fits = 0
    with pytest.raises(WhymaskError, match="does not fit"):
        whymask.explain(lit(0), model, regions="grid:2x2", k=1, target=0)


def test_other_errors_pass():
    class Broken(Quadrants):
        def forward(self, x):
            if len(x) > 1:
                raise RuntimeError("shapes do not match")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="shapes do not match"):
        whymask.explain(lit(0), whymask.wrap(Broken(), size=32), regions="grid:4x4", k=2)
