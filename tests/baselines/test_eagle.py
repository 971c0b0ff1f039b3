import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whymask import WhymaskError
from whymask.methods import run

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
    """At the front and, of the eight least promising that could be removed, at the back too."""
    order = run("eagle-efficient", lambda rows: np.full(len(rows), 0.3), 12).order.tolist()
    assert order == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 3, 11]


def test_ties_do_not_go_by_the_stale_list():
    def respond(rows):  # the last of single regions is the best, and any two are enough
        return np.where(rows.sum(axis=1) > 1, 0.9, rows @ np.arange(6) / 10)

    order = run("eagle-efficient", respond, 6, params={"objective": "sufficiency"}).order.tolist()
    assert order == [5, 1, 2, 3, 4, 0]
