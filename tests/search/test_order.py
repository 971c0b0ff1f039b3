import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import run
from whymask.search import Selection
from whymask.search.order import order_inside

from search.functions import complete, problem, tangled

WEIGHTS = np.array([0.05, 0.3, 0.1, 0.4, 0.15])


def additive(rows):
    return rows @ WEIGHTS


def seeded(*regions, n=5):
    return Selection(np.isin(np.arange(n), regions))


def test_orders_inside_the_set_and_releases():
    seed, sizes = complete(order_inside(problem(5), seeded(0, 1, 2, 3)), additive)
    assert seed.order == (3, 1, 2, 0)
    assert sizes == [4, 3, 2, 1]
    assert seed.kept == 2  # 0.4 + 0.3 >= 0.8 * 0.85
    assert seed.prefix == (3, 1)


@pytest.mark.parametrize(("gamma", "kept"), [(0.1, 1), (0.8, 2), (0.9, 3), (1.0, 4)])
def test_release_keeps_the_shortest_prefix(gamma, kept):
    assert complete(order_inside(problem(5), seeded(0, 1, 2, 3), gamma=gamma), additive)[0].kept == kept


def test_first_prefix_counts_when_scores_fall_again():
    def peak(rows):
        return np.choose(rows.sum(axis=1), [0.0, 0.9, 0.1, 0.5])

    assert complete(order_inside(problem(3), seeded(0, 1, 2, n=3)), peak)[0].kept == 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("threshold", [20, 3])
def test_early_stop_keeps_the_same_prefix_with_fewer_forwards(seed, threshold):
    def prefix(early_stop):
        params = {"k": 6, "early_stop": early_stop, "order_threshold": threshold}
        return run("trace+order", tangled(14, seed), 14, seed=seed, params=params)

    full, early = prefix(False), prefix(True)
    assert full.selection.prefix == early.selection.prefix
    assert len(full.selection.order) == 6
    assert early.ledger.mec <= full.ledger.mec
    assert early.ledger.nominal <= full.ledger.nominal + 1  # looking up F(C), which is known
    if early.selection.kept < 5:
        assert early.ledger.nominal < full.ledger.nominal


def test_large_sets_are_ordered_by_single_scores():
    def pairwise(rows):  # alone, region 0 is worth nothing; with region 4 everything
        return np.where(rows[:, 0] & rows[:, 4], 1.0, 0.1 * (rows @ np.arange(5)) / 10)

    seed, sizes = complete(order_inside(problem(5), seeded(0, 1, 2, 3, 4), order_threshold=4), pairwise)
    assert seed.order == (4, 3, 2, 1, 0)
    assert sizes == [5, 5]
    assert seed.kept == 5


def test_refuses_gamma():
    with pytest.raises(WhymaskError, match="gamma"):
        run("trace+greedy", tangled(9), 9, params={"gamma": 0})
