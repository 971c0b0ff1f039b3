import numpy as np
import pytest

from whymask.bench.stats import intervals, p_values
from whymask.metrics.shares import wilson


def test_a_constant_is_sure():
    low, high = intervals(np.full((7, 2), 0.25))
    assert low.tolist() == high.tolist() == [0.25, 0.25]


def test_an_interval_is_that_of_the_mean():
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 0.2, (400, 3))
    low, high = intervals(values)
    # For so many samples the mean is normal: 1.96 standard errors to either side.
    half = 1.96 * values.std(axis=0) / 20
    assert low == pytest.approx(values.mean(axis=0) - half, abs=0.0015)
    assert high == pytest.approx(values.mean(axis=0) + half, abs=0.0015)


def test_columns_do_not_depend_on_their_company():
    values = np.random.default_rng(1).random((30, 4))
    together = intervals(values)
    for i in range(4):
        assert intervals(values[:, [i]])[:, 0] == pytest.approx(together[:, i], abs=1e-6)


def test_a_difference_in_one_direction_is_significant_and_one_in_both_is_not():
    same, mixed = np.full(12, 0.01), np.tile([0.3, -0.3], 6)
    sure, unsure = p_values(np.stack([same, mixed], axis=1))
    # All twelve signs agree in 2 of 2^12 flips.
    assert sure == pytest.approx(2 / 2**12, abs=0.0015)
    assert unsure == 1


def test_p_is_exact_where_all_flips_can_be_counted():
    # Of the 16 sign patterns of 1, 2, 3, 4 the sums 10 and -10 are as large as the one seen: p = 2 / 16.
    assert p_values(np.array([[1.0], [2.0], [3.0], [4.0]]))[0] == pytest.approx(2 / 16, abs=0.015)


def test_the_smallest_p_says_how_many_flips_were_drawn():
    assert p_values(np.ones((64, 1)))[0] == 1 / 5001  # none of 5,000 is as extreme, and what was seen counts


@pytest.mark.parametrize(("share", "count"), [(0.8, 10), (0, 7), (1, 30), (0.5, 1), (0.37, 400)])
def test_wilson_solves_its_equation(share, count):
    """Its ends are where the share seen is 1.96 standard errors away: (share - p)^2 = z^2 p (1 - p) / count."""
    for p in wilson(share, count):
        assert 0 <= p <= 1
        assert (share - p) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / count, abs=1e-6)


def test_wilson_as_it_is_published():
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(1, 10) == pytest.approx((0.7225, 1), abs=1e-4)
