import numpy as np
import pytest

from whymask.methods import run
from whymask.search import Selection
from whymask.search.greedy import greedy

from search.functions import complete, modular, problem, tangled


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_forwards(n):
    assert run("greedy", tangled(n), n).ledger.nominal == n * (n + 1)
    assert run("greedy", tangled(n), n, params={"objective": "sufficiency"}).ledger.nominal == n * (n + 1) // 2


@pytest.mark.parametrize("placed", [(3,), (5, 0, 2), (4, 3, 2, 1, 0, 5, 6)])
def test_continuation(placed):
    n = 7
    seed = Selection(np.isin(np.arange(n), placed), order=placed, kept=len(placed))
    result, sizes = complete(greedy(problem(n), seed), tangled(n))
    assert result.order[: len(placed)] == placed
    assert sorted(result.order) == list(range(n))
    assert 2 * sum(sizes) == (n - len(placed)) * (n - len(placed) + 1)


def test_modular_is_sorted_by_weight():
    respond, weights = modular(30)
    np.testing.assert_array_equal(run("greedy", respond, 30).order, np.argsort(-weights))


def test_each_step_is_the_best_step():
    n, respond = 8, tangled(8, seed=3)
    order = run("greedy", respond, n).order
    for step in range(n):
        value = {}
        for region in sorted(set(range(n)) - set(order[:step])):
            row = np.isin(np.arange(n), [*order[:step], region])[None]
            value[region] = respond(row)[0] + 1 - respond(~row)[0]
        assert order[step] == max(value, key=value.get)


def test_ties_go_to_the_lowest_index():
    assert run("greedy", lambda rows: np.full(len(rows), 0.3), 12).order.tolist() == list(range(12))
