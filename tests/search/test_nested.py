"""Nested regions: coarse searches asked on fine regions, and split, which goes on with the parts."""

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import Recipe, run
from whymask.search import Problem, Search
from whymask.search.nested import coarse
from whymask.search.objective import SUFF_NECC, Objective

from search.functions import grid_centroids, sigmoid, tangled

SIDE = 16
Y, X = np.divmod(np.arange(SIDE**2), SIDE)
PARENTS = (Y // 2) * 8 + X // 2  # 8 x 8 squares of four regions each
FINE = grid_centroids(SIDE, SIDE)


def blob(seed):
    """Evidence in one place that no union of squares fits: half of the regions around a centre matter."""
    rng = np.random.default_rng(seed)
    weights = np.exp(-((FINE - rng.random(2)) ** 2).sum(axis=1) / 0.02) * (rng.random(SIDE**2) < 0.6)
    weights += rng.normal(0, 0.1, SIDE**2)
    return lambda rows: sigmoid(6 * (rows @ weights) / np.sort(weights)[-32:].sum() - 4)


def nested(name, respond, seed=0, **options):
    return run(name, respond, SIDE**2, seed=seed, centroids=FINE, parents=PARENTS, **options)


@pytest.mark.parametrize("name", ["discs+swap", "trace", "copair", "smallest"])
def test_stages_before_a_split_search_the_coarse_regions(name):
    """The same sets in the same order as on the coarse regions alone: with no tries left, the same mask too."""
    respond = blob(1)
    asked, wanted = [], []

    def fine(rows):
        asked.append(rows)
        return respond(rows)

    def coarsely(rows):
        wanted.append(rows)
        return respond(rows[:, PARENTS])

    found = nested(f"{name}+split", fine, params={"split_tries": 0})
    alone = run(name, coarsely, 64, centroids=grid_centroids(8, 8))
    np.testing.assert_array_equal(np.concatenate(asked), np.concatenate(wanted)[:, PARENTS])
    np.testing.assert_array_equal(found.mask, alone.mask[PARENTS])
    assert (found.score, found.selection.goal) == (alone.score, alone.selection.goal)
    assert found.ledger.mec == alone.ledger.mec


def test_a_split_gains_at_the_same_area():
    """Never worse than the start; better than as many exchanges of coarse regions; below the best of 32 regions."""
    gained = []
    for seed in range(6):
        respond = blob(seed)
        start = nested("discs+swap+split", respond, seed, params={"split_tries": 0})
        found = nested("discs+swap+split", respond, seed)
        longer = nested("discs+swap+split", respond, seed, params={"tries": 296, "split_tries": 0})
        assert found.mask.sum() == 4 * 8
        assert found.score >= start.score
        assert found.score <= sigmoid(2) + 1e-9
        assert found.ledger.mec <= 24 + 136 + 160
        gained.append(found.score - longer.score)
    assert min(gained) > 0
    assert np.mean(gained) > 0.1


def test_a_split_covers_no_more_than_it_started_from():
    """Regions differ in area by up to a factor of four."""
    areas = np.random.default_rng(0).uniform(0.25, 1, SIDE**2)
    areas /= areas.sum()
    for seed in range(3):
        respond = blob(seed)
        start, found = (nested("discs+split", respond, seed, areas=areas, params={"split_tries": t}) for t in (0, 160))
        assert areas[found.mask].sum() <= 1.01 * areas[start.mask].sum()
        assert found.score > start.score


def test_the_coarse_problem():
    areas = np.arange(1, SIDE**2 + 1) / np.arange(1, SIDE**2 + 1).sum()
    problem = coarse(Problem(SIDE**2, 5, FINE, areas, parents=PARENTS))
    assert (problem.n, problem.seed, problem.parents) == (64, 5, None)
    some = PARENTS == 9
    assert problem.areas[9] == pytest.approx(areas[some].sum())
    np.testing.assert_allclose(problem.centroids[9], np.average(FINE[some], axis=0, weights=areas[some]))


def test_what_is_known_of_fine_sets_is_known_of_coarse_ones():
    search = Search(Recipe("greedy"), Problem(SIDE**2, 0, FINE, parents=PARENTS))
    rows = np.random.default_rng(0).random((6, 64)) < 0.3
    query = search.oracle.open(np.take(rows, PARENTS, axis=1), SUFF_NECC, "init")
    scores = search.oracle.answer(query, tangled(SIDE**2)(query.send))
    known = coarse(Problem(SIDE**2, archive=search.oracle.archive, parents=PARENTS)).archive
    assert {row.tobytes() for row in known.rows} == {row.tobytes() for row in (*rows, *~rows)}
    assert known.response(rows[2]) == search.oracle.archive.response(rows[2][PARENTS])
    both, values = known.scored(SUFF_NECC)
    assert dict(zip(map(bytes, both), values, strict=True))[bytes(rows[1])] == scores[1]
    assert known.scored(Objective(0.0))[0].shape == (12, 64)


def test_a_split_needs_nested_regions():
    with pytest.raises(WhymaskError, match="split needs regions that are nested: pass regions='slico:64/4'"):
        run("discs+split", tangled(16), 16, centroids=grid_centroids(4, 4))
    with pytest.raises(WhymaskError, match="parents must give each of the 4 regions its coarse one"):
        run("greedy", tangled(4), 4, parents=[0, 0, 2, 2])
    with pytest.raises(WhymaskError, match="swap refines a mask, but split gives a split mask"):
        Recipe("discs+split+swap")


@pytest.mark.parametrize("budget", [0, 10, 170, 200])
def test_a_split_that_the_budget_ends_is_a_mask_of_fine_regions(budget):
    respond = blob(2)
    found = nested("discs+swap+split", respond, budget=budget)
    assert found.mask.shape == (SIDE**2,)
    assert found.mask.sum() == 32
    assert found.ledger.mec <= budget
    assert not found.complete


@pytest.mark.parametrize("seed", range(5))
def test_smallest_goes_on_with_the_parts_of_coarse_regions(seed):
    """A conjunction of neighbouring fine regions: the coarse search ends with whole squares, the fine one with it."""
    centre = np.random.default_rng(seed).integers(SIDE**2)
    needed = np.argsort(((FINE - FINE[centre]) ** 2).sum(axis=1), kind="stable")[:5]
    found = nested("smallest", lambda rows: rows[:, needed].all(axis=1).astype(float), seed)
    assert sorted(np.flatnonzero(found.mask)) == sorted(needed)
    assert (found.score, found.selection.goal) == (1, 0.9)


def test_smallest_on_parts_covers_no_more_than_on_whole_regions():
    for seed in range(4):
        respond = blob(seed)
        whole = run(
            "smallest", lambda rows, f=respond: f(rows[:, PARENTS]), 64, centroids=grid_centroids(8, 8), seed=seed
        )
        found = nested("smallest", respond, seed)
        assert found.score >= found.selection.goal
        assert found.mask.sum() < 4 * whole.mask.sum()


@pytest.mark.parametrize("budget", [0, 10, 80, 200])
def test_smallest_on_parts_that_the_budget_ends(budget):
    found = nested("smallest", blob(2), budget=budget)
    assert found.ledger.mec <= budget
    assert not found.complete
    assert found.mask.any()


def test_smallest_on_parts_of_what_is_never_sufficient():
    """The whole image scores 0, so the coarse search gives up; its mask comes back in parts."""
    found = nested("smallest", lambda rows: (rows.sum(axis=1) == 8) * 0.0, params={"enough": 0.5})
    assert found.score == 0
    assert not (np.bincount(PARENTS[found.mask], minlength=64) % 4).any()


def test_a_largest_size_is_for_plain_regions():
    with pytest.raises(WhymaskError, match="k_max is for regions that are not nested"):
        nested("smallest", blob(2), params={"k_max": 8})
