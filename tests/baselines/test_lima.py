import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whymask.methods import run

from search.functions import modular, tangled


def test_modular_is_sorted_by_weight():
    respond, weights = modular(15)
    np.testing.assert_array_equal(run("lima-bidirectional", respond, 15).order, np.argsort(-weights))


@pytest.mark.parametrize(("n", "forwards"), [(1, 2), (2, 4), (3, 8), (64, 64 * 66 // 2)])
def test_forwards(n, forwards):
    assert run("lima-bidirectional", tangled(n), n).ledger.nominal == forwards


@given(n=st.integers(1, 12), seed=st.integers(0, 20), budget=st.integers(0, 60))
def test_a_permutation_whatever_the_budget(n, seed, budget):
    result = run("lima-bidirectional", tangled(n, seed), n, budget=budget)
    assert sorted(result.order) == list(range(n))
    assert result.ledger.mec <= budget


def test_ties_go_to_the_lowest_index():
    assert run("lima-bidirectional", lambda rows: np.full(len(rows), 0.3), 9).order.tolist() == list(range(9))
