import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whymask import WhymaskError
from whymask.search import run

from search.functions import modular, tangled

NAMES = ("search_scope", "pending_samples", "update_step")


@pytest.mark.parametrize(
    ("settings", "n49", "n64"), [((10, 8, 5), 986, 1412), ((8, 4, 10), 674, 944), ((6, 4, 15), 574, 784)]
)
def test_published_forwards(settings, n49, n64):
    params = dict(zip(NAMES, settings, strict=True))
    assert run("eagle-efficient", tangled(49), 49, params=params).ledger.nominal == n49
    assert run("eagle-efficient", tangled(64), 64, params=params).ledger.nominal == n64


def test_modular_is_sorted_by_weight():
    respond, weights = modular(40)
    np.testing.assert_array_equal(run("eagle-efficient", respond, 40).order, np.argsort(-weights))


@given(
    n=st.integers(1, 12),
    seed=st.integers(0, 20),
    budget=st.integers(0, 60),
    settings=st.tuples(*[st.integers(1, 5)] * 3),
)
def test_a_permutation_whatever_the_settings(n, seed, budget, settings):
    params = dict(zip(NAMES, settings, strict=True))
    result = run("eagle-efficient", tangled(n, seed), n, params=params, budget=budget)
    assert sorted(result.order) == list(range(n))
    assert result.ledger.mec <= budget


def test_an_empty_scope_is_refused():
    with pytest.raises(WhymaskError, match="search_scope"):
        run("eagle-efficient", tangled(4), 4, params={"search_scope": 0})


def test_ties_go_to_the_lowest_index():
    assert run("eagle-efficient", lambda rows: np.full(len(rows), 0.3), 30).order.tolist() == list(range(30))
