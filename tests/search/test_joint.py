"""Several targets in one search: the ledger, the archive, and masks about as good as those of searches alone."""

from functools import partial

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import run
from whymask.search import Problem
from whymask.search.archive import Archive
from whymask.search.driver import Search, drive
from whymask.search.joint import DISCS, GROUPS, Joint
from whymask.search.objective import SUFFICIENCY, over_fills
from whymask.search.oracle import Oracle, Responses

from search.functions import grid_centroids

SIDE = 8
N = SIDE * SIDE
GRID = grid_centroids(SIDE, SIDE)


def spots(targets, seed=0, reach=0.12):
    """A response (B, T) for each of several compact objects: the sigmoid of how much of it is kept."""
    centres = np.random.default_rng(seed).random((targets, 2))
    weights = np.exp(-((GRID[None] - centres[:, None]) ** 2).sum(axis=2) / (2 * reach**2))
    weights /= weights.sum(axis=1, keepdims=True)
    return lambda rows: 1 / (1 + np.exp(5 - 10 * rows @ weights.T))


def found(joint, responds, *, budget=None, seed=0):
    """The result of a joint search, on one fill or more."""
    calls = []

    def respond(pieces):
        calls.append(sum(len(rows) for _, rows in pieces))
        return [responds[number](rows) for number, rows in pieces]

    oracle = Oracle(*(Responses() for _ in responds), targets=joint.targets)
    search = Search(joint, Problem(N, seed, GRID), fills=range(len(responds)), oracle=oracle, budget=budget)
    ((_, result),) = drive([search], respond, targets=joint.targets)
    assert sum(calls) == result.ledger.mec  # every forward is counted once
    return result


@pytest.mark.parametrize("fills", [1, 3])
@pytest.mark.parametrize("k", [6, None])
def test_every_score_is_that_of_its_mask(fills, k):
    responds = [spots(4, reach=0.1 + 0.02 * fill) for fill in range(fills)]
    result = found(Joint(4, k), responds)
    whole = np.ones((1, N), dtype=bool)
    for target, one in enumerate(result.each):
        score = over_fills(np.stack([respond(one.mask[None])[0] for respond in responds]), "mean")[target]
        assert one.score == pytest.approx(score, abs=1e-12)
        assert k is None or one.mask.sum() == k
        if k is None:
            full = over_fills(np.stack([respond(whole)[0] for respond in responds]), "mean")[target]
            assert one.selection.goal == pytest.approx(0.9 * full)
            assert one.score >= one.selection.goal
            assert one.mask.sum() < N / 2  # an object takes up about a tenth


def test_a_forward_that_is_made_for_a_target_is_in_its_ledger():
    result = found(Joint(5, 8), [spots(5)])
    first = len({row.tobytes() for row in _discs(8)})
    own = [one.ledger.mec - first for one in result.each]
    assert min(own) >= 0
    # Each later set was proposed by one target or more.
    assert sum(own) >= result.ledger.mec - first >= max(own)


def _discs(k):
    from whymask.search.discs import compact_masks

    return compact_masks(Problem(N, 0, GRID), k, DISCS)


def test_costs_no_more_than_it_says():
    for targets in (1, 5, 20):
        assert found(Joint(targets, 8), [spots(targets)]).ledger.mec <= DISCS + Joint(targets, 8).most
        assert found(Joint(targets), [spots(targets)]).ledger.mec <= 1 + DISCS + GROUPS + Joint(targets).most


def _of(respond, target, rows):
    return respond(rows)[:, target]


@pytest.mark.parametrize("targets", [5, 20])
def test_keeps_what_searches_alone_keep(targets):
    """On compact objects, for twice the forwards of one search. Each search alone has 160."""
    shares = []
    for seed in range(3):
        respond = spots(targets, seed)
        result = found(Joint(targets, 6), [respond], seed=seed)
        for target, one in enumerate(result.each):
            own = partial(_of, respond, target)
            alone = run("discs+swap", own, N, seed=seed, centroids=GRID, params={"k": 6})
            shares.append(one.score / alone.score)
    assert np.mean(shares) >= (0.95 if targets <= 5 else 0.9)


def test_a_budget_ends_it_with_the_masks_so_far():
    for budget in (0, 5, 60):
        result = found(Joint(3, 6), [spots(3), spots(3, 1)], budget=budget)
        assert not result.complete
        assert result.ledger.mec <= budget
        assert len(result.each) == 3
    assert [one.mask.sum() for one in result.each] == [6, 6, 6]


def test_the_archive_of_one_target_is_that_of_a_search_for_it():
    rng = np.random.default_rng(0)
    rows = rng.random((9, N)) < 0.3
    values = rng.random((9, 3))
    oracle = Oracle(targets=3)
    oracle.answer(oracle.open(rows, SUFFICIENCY, "init"), values)
    for target in range(3):
        alone = Oracle()
        alone.answer(alone.open(rows, SUFFICIENCY, "init"), values[:, target])
        one: Archive = oracle.archive.of(target)
        np.testing.assert_array_equal(one.rows, alone.archive.rows)
        np.testing.assert_array_equal(one.responses, alone.archive.responses)
        np.testing.assert_array_equal(one.score(rows[:4], SUFFICIENCY), alone.archive.score(rows[:4], SUFFICIENCY))
        assert one.frontier(N) == alone.archive.frontier(N)


def test_scores_of_another_shape_are_an_error():
    with pytest.raises(WhymaskError, match=r"must return 2 scores per image, shape \(\d+, 2\), but returned \(\d+,\)"):
        found(Joint(2, 6), [lambda rows: rows.mean(axis=1)])
