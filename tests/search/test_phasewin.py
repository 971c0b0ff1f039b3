import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whymask import WhymaskError
from whymask.methods import run
from whymask.search.phasewin import Growth, phasewin

from search.functions import complete, problem, tangled


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


def test_a_phase_that_slows_down_ends_before_a_region_below_its_share():
    for score, verdict in [(1.0, "accept"), (0.51, "accept and stop"), (0.5, "accept and stop"), (0.49, "reject")]:
        assert Growth(1.0, delta=0.02, phi=0.5, before=1.0).verdict(score) == verdict
    assert Growth(1.0, delta=0.02, phi=0.5).verdict(0.1) == "accept"  # the first region after the opener


@pytest.mark.parametrize("policy", ["BA", "LG", "T2"])
def test_a_window_accepts_what_may_enter_it(policy):
    """With 0 and 1, a third region scores half of what the best second one does, exactly the share that is enough."""

    def respond(rows):
        with_both = np.where(rows.sum(axis=1) == 2, 0.5, 0.25)
        with_first = np.where(rows.sum(axis=1) == 1, 0.5, 0.25)
        return np.where(rows[:, 0], np.where(rows[:, 1], with_both, with_first), 0.125)

    settings = {"policy": policy, "alpha_sel": 0.5, "window": 1, "hard_exit": False, "objective": "sufficiency"}
    result, sizes = complete(phasewin(problem(4), **settings), respond)
    assert result.order == (0, 1, 2, 3)
    assert sizes == [4, 3, 1, 1, 1]  # one phase: two screenings, then window by window


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


@given(
    st.integers(1, 12), st.integers(0, 10**6), st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.floats(0.1, 1),
    st.integers(1, 12), st.sampled_from(["BA", "LG", "T2"]), st.booleans(),
    st.sampled_from(["sufficiency", "suff_necc"]),
)  # fmt: skip
def test_is_a_permutation_for_any_thresholds(n, seed, beta_del, alpha_sel, beta_win, window, policy, anneal, objective):
    params = {
        "beta_del": beta_del, "alpha_sel": alpha_sel, "beta_win": beta_win, "window": window, "policy": policy,
        "anneal": anneal, "objective": objective,
    }  # fmt: skip
    assert sorted(run("phasewin", tangled(n, seed), n, params=params).order) == list(range(n))


def test_a_phase_with_no_score_left_goes_on():
    """After the opener nothing scores, but the next phase's opener may: score only with 0, or with 1 and 2."""

    def respond(rows):
        return np.where(rows[:, 0] & (rows.sum(axis=1) == 1), 0.5, 0.0)

    result = run("phasewin", respond, 4, params={"objective": "sufficiency"})
    assert sorted(result.order) == [0, 1, 2, 3]
    assert result.ledger.nominal == 4 + 3 + 3 + 3  # screen, screen, next phase's screen, completion


def test_the_coin_is_fair_and_defers_once():
    """Regions 2 and 3 wait: 3 goes first when 2 is deferred and 3 is not, a quarter of the time.

    When both are deferred, 2 is at the head again and cannot be deferred twice.
    """

    def order(seed):
        def respond(rows):
            return np.full(len(rows), 0.5)

        return run("phasewin", respond, 4, seed=seed, params={"window": 1, "policy": "LG", "anneal": True,
                                                              "hard_exit": False}).order  # fmt: skip

    swapped = np.mean([order(seed)[2] != 2 for seed in range(400)])
    assert abs(swapped - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 400)


def test_a_stopped_phasewin_is_completed_by_last_scores():
    weights = np.array([0.05, 0.1, 0.3, 0.2, 0.35])
    stopped = run("phasewin", lambda rows: rows @ weights, 5, params={"objective": "sufficiency"}, budget=5)
    assert stopped.order.tolist() == [4, 2, 3, 1, 0]


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
