import numpy as np
import pytest

from search.functions import complete, problem, tangled
from whymask import WhymaskError
from whymask.search import run
from whymask.search.phasewin import phasewin


def test_worked_example():
    weights = np.array([0.40, 0.25, 0.15, 0.10, 0.06, 0.04])
    result, sizes = complete(phasewin(problem(6)), lambda rows: rows @ weights)
    assert result.order == (0, 1, 2, 3, 4, 5)
    assert sizes == [6, 5, 1, 1, 3, 2, 1, 1]
    assert sum(complete(phasewin(problem(6), window=3), lambda rows: rows @ weights)[1]) == 25


def test_largest_only_by_region_size():
    sizes = np.array([4, 3, 2]) / 9
    params = {"policy": "LG", "window": 2, "hard_exit": False}
    assert run("phasewin", lambda rows: rows @ sizes, 3, params=params).ledger.nominal == 16


def test_one_region_is_one_evaluation():
    result = run("phasewin", lambda rows: rows[:, 0] * 0.5, 1)
    assert result.order.tolist() == [0]
    assert result.ledger.nominal == 2


def test_nothing_scores_costs_two_screenings():
    result = run("phasewin", lambda rows: np.zeros(len(rows)), 9, params={"objective": "sufficiency"})
    assert result.order.tolist() == list(range(9))
    assert result.ledger.nominal == 18


def test_warm_start_is_greedy():
    respond = tangled(10)
    greedy = run("greedy", respond, 10).order
    np.testing.assert_array_equal(run("phasewin", respond, 10, params={"warm_start": 10}).order, greedy)
    np.testing.assert_array_equal(run("phasewin", respond, 10, params={"warm_start": 4}).order[:4], greedy[:4])


def test_annealing_follows_the_seed():
    def order(seed, anneal):
        return run(
            "phasewin", lambda rows: np.full(len(rows), 0.5), 32, seed=seed, params={"anneal": anneal}
        ).order.tolist()

    assert order(0, True) == order(0, True)
    assert order(0, True) != order(1, True)
    assert order(0, False) == order(1, False) == list(range(32))
    assert sorted(order(3, True)) == list(range(32))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"policy": "AB"}, "'BA'"),
        ({"window": 0}, "window"),
        ({"window_frac": 0.0}, "window_frac"),
        ({"beta_del": 1.0}, "beta_del"),
        ({"hard_delta": 0.0}, "hard_delta"),
    ],
)
def test_refuses(params, words):
    with pytest.raises(WhymaskError, match=words):
        run("phasewin", tangled(4), 4, params=params)
