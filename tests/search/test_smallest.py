"""smallest and others: masks of no given size, and further masks beside the first."""

import numpy as np
import pytest

from whymask.methods import run
from whymask.search import Problem
from whymask.search.discs import compact_masks

from search.functions import grid_centroids, spot, tangled

GRID = grid_centroids(4, 4)


def test_smallest_needs_no_k():
    needed = np.zeros(16, dtype=bool)
    needed[[5, 6, 9]] = True
    respond = lambda rows: 0.05 + 0.9 * (rows[:, needed].sum(axis=1) / 3) ** 2  # noqa: E731
    found = run("smallest", respond, 16, centroids=GRID)
    assert np.flatnonzero(found.mask).tolist() == [5, 6, 9]
    assert found.selection.goal == pytest.approx(0.9 * 0.95)
    assert found.frontier[3] == pytest.approx(0.95)
    assert found.frontier[2] == pytest.approx(0.05 + 0.9 * 4 / 9)


def test_smallest_says_when_nothing_is_enough():
    respond = lambda rows: rows.mean(axis=1) ** 2  # noqa: E731 - every region is needed
    found = run("smallest", respond, 16, centroids=GRID, params={"k_max": 6, "tries": 20})
    assert found.mask.sum() == 6
    assert found.score < found.selection.goal
    reached = run("smallest", respond, 16, centroids=GRID, params={"enough": 0.1, "tries": 20})
    assert reached.mask.sum() == 6  # (6 / 16) ** 2 = 0.14, (5 / 16) ** 2 = 0.098
    assert reached.score >= 0.1


@pytest.mark.parametrize("budget", [None, 200, 300, 400])
def test_smallest_returns_the_best_mask_where_none_is_enough(budget):
    """Eight regions score most; more of them less and less, but for the whole image."""
    respond = lambda rows: np.where(rows.all(axis=1), 1.0, 0.5 - 0.02 * np.abs(rows.sum(axis=1) - 8))  # noqa: E731
    found = run("smallest", respond, 16, centroids=GRID, budget=budget, params={"k_max": 15})
    assert found.score == 0.5
    assert found.mask.sum() == 8
    assert max(found.frontier) > 8  # larger ones were tried


def test_others_start_from_the_best_disc_that_is_different():
    """The first mask's search may have looked in one place only: here at a single mask, drawn at random."""
    respond, _, centroids = spot(seed=5)
    params = {"k": 4, "tries": 0, "other_tries": 0, "alternatives": 2, "overlap": 0.25}
    found = run("random-k+swap+others", respond, 64, seed=2, centroids=centroids, params=params)
    first = run("random-k", respond, 64, seed=2, params={"k": 4}).mask
    every = compact_masks(Problem(64, 2, centroids), 4, 64)
    taken = [first]
    for _ in range(2):
        different = every[[max((row & mask).sum() for mask in taken) <= 1 for row in every]]
        taken.append(different[np.argmax(respond(different))])
    masks = [found.selection.mask, *(other.mask for other in found.selection.others)]
    assert {mask.tobytes() for mask in masks} == {mask.tobytes() for mask in taken}
    assert found.ledger.nominal == 1 + len(every)  # the discs are asked for once


def test_others_need_no_centres():
    found = run("random-k+swap+others", tangled(16), 16, params={"k": 4, "tries": 40, "other_tries": 8})
    assert len(found.selection.others) == 2
    assert found.ledger.nominal == 1 + 40 + 2 * 8


def test_others_share_few_regions():
    spots = [[0, 1, 4, 5], [10, 11, 14, 15], [2, 3, 6, 7]]
    respond = lambda rows: np.max([rows[:, spot].mean(axis=1) for spot in spots], axis=0)  # noqa: E731
    found = run("discs+swap+others", respond, 16, centroids=GRID, params={"k": 4, "overlap": 0.25})
    masks = [found.selection.mask, *(other.mask for other in found.selection.others)]
    assert len(masks) == 3
    assert all(respond(mask[None])[0] == 1 for mask in masks)
    assert all((a & b).sum() <= 1 for i, a in enumerate(masks) for b in masks[:i])


def test_the_best_of_several_masks_comes_first():
    for seed in range(6):
        params = {"k": 4, "tries": 8}
        found = run("random-k+swap+others", tangled(16, seed), 16, seed=seed, centroids=GRID, params=params)
        assert all(found.score >= other.score for other in found.selection.others)


@pytest.mark.parametrize("budget", [0, 20, 33, 60])
def test_smallest_keeps_its_goal_when_the_budget_ends_it(budget):
    respond, _, centroids = spot(seed=3)
    found = run("smallest", respond, 64, centroids=centroids, budget=budget)
    assert found.mask.sum() <= 8
    assert (found.selection.goal is None) == (budget == 0)
