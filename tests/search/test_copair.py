from inspect import signature

import numpy as np
import pytest
from sklearn.cluster import KMeans

from whymask import WhymaskError
from whymask.methods import run
from whymask.search.copair import coarse_count, coarse_groups, copair

from search.functions import complete, grid_centroids, masks_of_size, modular, problem, tangled


@pytest.mark.parametrize(
    ("n", "count"), [(60, 15), (61, 16), (64, 16), (68, 16), (69, 17), (70, 17), (9, 8), (5, 5), (400, 32)]
)
def test_coarse_count(n, count):
    assert coarse_count(n) == count


@pytest.mark.parametrize(("n", "forwards"), [(60, 106), (61, 107), (64, 107), (68, 107), (69, 108)])
def test_singles_and_pairs(n, forwards):
    """Equal when no pair exceeds the cap and no third group is needed."""
    centroids = np.random.default_rng(0).random((n, 2))
    params = {"max_area": 1.0, "min_sufficiency": 0.0}
    assert run("copair", modular(n)[0], n, centroids=centroids, params=params).ledger.nominal == forwards
    assert (
        run("copair", modular(n)[0], n, centroids=centroids, params={"min_sufficiency": 0.0}).ledger.nominal <= forwards
    )


def test_groups_partition_the_regions_and_do_not_depend_on_their_numbers():
    centroids = np.random.default_rng(1).random((64, 2))
    groups = coarse_groups(centroids, 16)
    assert groups.shape == (16, 64)
    assert (groups.sum(axis=0) == 1).all()
    shuffle = np.random.default_rng(2).permutation(64)
    np.testing.assert_array_equal(coarse_groups(centroids[shuffle], 16), groups[:, shuffle])


def test_groups_are_those_of_kmeans():
    centroids = grid_centroids(8, 8)
    labels = KMeans(16, n_init=1, random_state=0, max_iter=50).fit(centroids).labels_
    groups = coarse_groups(centroids, 16)  # a grid is numbered in (y, x) order already
    assert {frozenset(np.flatnonzero(g)) for g in groups} == {frozenset(np.flatnonzero(labels == v)) for v in range(16)}
    assert [np.flatnonzero(group)[0] for group in groups] == sorted(np.flatnonzero(group)[0] for group in groups)


def test_coinciding_centroids_give_fewer_groups():
    assert len(coarse_groups(np.array([[0.2, 0.2]] * 5 + [[0.8, 0.8]] * 5), 4)) == 2


def planted(groups, a, b, value=0.9):
    """Worth something only when both groups are complete."""
    both = groups[a] | groups[b]
    return lambda rows: np.where((rows & both).sum(axis=1) == both.sum(), value, 0.01 * rows.mean(axis=1))


@pytest.mark.parametrize("pair", [(0, 1), (3, 12), (2, 15)])
def test_finds_a_planted_pair(pair):
    centroids = grid_centroids(8, 8)
    groups = coarse_groups(centroids, 16)
    result = run("copair", planted(groups, *pair), 64, centroids=centroids, params={"pool_size": 16, "max_area": 1.0})
    np.testing.assert_array_equal(result.mask, groups[pair[0]] | groups[pair[1]])
    assert result.score == pytest.approx(0.9)


def test_planted_pair_is_the_enumerated_optimum():
    """n = 12 regions in 12 groups: pairs of groups are pairs of regions, all enumerable."""
    respond = tangled(12, seed=4)
    centroids = grid_centroids(3, 4)
    params = {"coarse_scale": 100, "pool_size": 12, "max_area": 1.0, "min_sufficiency": 0.0, "pair_gain": -1.0}
    result = run("copair", respond, 12, centroids=centroids, params=params)
    assert result.score == respond(masks_of_size(12, 2)).max()


def small(respond, areas=None, **params):
    """Four regions in four groups."""
    params = {"coarse_min": 4, "coarse_scale": 1, "max_area": 1.0, **params}
    return run("copair", respond, 4, centroids=grid_centroids(2, 2), areas=areas, params=params)


WEIGHTS = np.array([0.5, 0.02, 0.2, 0.01])


def test_a_sufficient_single_group_stands_when_the_pair_adds_little():
    assert small(lambda rows: rows @ WEIGHTS, pair_gain=0.3).mask.tolist() == [True, False, False, False]
    assert small(lambda rows: rows @ WEIGHTS, pair_gain=0.1).mask.tolist() == [True, False, True, False]
    weak = small(lambda rows: rows @ WEIGHTS / 10, pair_gain=0.3, max_groups=2)  # the single is not sufficient
    assert weak.mask.tolist() == [True, False, True, False]


def test_a_third_group_joins_only_an_insufficient_candidate():
    assert small(lambda rows: rows @ WEIGHTS / 10).mask.tolist() == [True, True, True, False]
    assert small(lambda rows: rows @ WEIGHTS / 10, max_groups=2).mask.sum() == 2
    assert small(lambda rows: rows @ WEIGHTS / 10, max_groups=3).mask.sum() == 3
    assert small(lambda rows: rows @ WEIGHTS).mask.sum() == 2


def test_candidates_over_the_area_cap_are_not_scored():
    areas = np.array([0.4, 0.3, 0.2, 0.1])
    capped = small(lambda rows: rows @ WEIGHTS, areas=areas, max_area=0.5, pair_gain=0.0)
    assert capped.mask.tolist() == [True, False, False, True]  # 0.4 + 0.1 fits exactly
    assert capped.ledger.nominal == 4 + 4  # of six pairs, 0.4 + 0.3 and 0.4 + 0.2 are over the cap
    alone = small(lambda rows: rows @ WEIGHTS, areas=areas, max_area=0.2, pair_gain=0.0)
    assert alone.mask.tolist() == [False, False, True, False]  # every pair is over it: the best single group that fits
    assert alone.ledger.nominal == 4


@pytest.mark.parametrize("budget", [None, 20, 3, 0])
def test_the_area_cap_holds_for_a_single_group_too(budget):
    """The best group by far covers 0.675 of the image, and is the first."""
    centroids = grid_centroids(8, 8)
    large, good, *_ = coarse_groups(centroids, 16)
    areas = np.where(large, 0.675 / large.sum(), 0.325 / (~large).sum())

    def respond(rows):
        return 0.8 * (rows & large).sum(axis=1) / large.sum() + 0.1 * (rows & good).sum(axis=1) / good.sum()

    found = run("copair", respond, 64, centroids=centroids, areas=areas, budget=budget)
    assert found.mask @ areas <= 0.2
    assert (found.mask & good).sum() == good.sum()


def test_a_cap_that_no_group_keeps_leaves_the_best_group():
    areas = np.array([0.3, 0.25, 0.21, 0.24])
    found = small(lambda rows: rows @ WEIGHTS, areas=areas, max_area=0.2)
    assert found.mask.tolist() == [True, False, False, False]
    assert found.ledger.nominal == 4


def plain_copair(respond, groups, areas, pool_size, gain, enough, least, most):
    """Algorithm 1 with sets; the area limits hold for every candidate C_0: a group, a pair, a pair and a third."""

    def score(group_ids):
        return respond(groups[list(group_ids)].any(axis=0)[None])[0]

    def fits(group_ids):
        return least <= sum(areas[groups[i]].sum() for i in group_ids) <= most

    def best(candidates):
        return max(candidates, key=score, default=None)  # the first of equal ones

    everything = range(len(groups))
    pool = sorted(sorted(everything, key=lambda i: -score([i]))[:pool_size])
    single = best([(i,) for i in everything if fits([i])])
    pair = best([(i, j) for i in pool for j in pool if i < j and fits([i, j])])
    if pair is None or (single and score(pair) - score(single) < gain and score(single) >= enough):
        start = single or best([(i,) for i in everything])
    else:
        start = pair
    if score(start) < enough:
        start = best([(*start, i) for i in pool if i not in start and fits([*start, i])]) or start
    return groups[list(start)].any(axis=0)


@pytest.mark.parametrize("seed", range(60))
def test_is_algorithm_1_with_limits_of_the_area(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 25))
    centroids, areas = rng.random((n, 2)), rng.dirichlet(np.full(n, 0.5))
    respond, faint = tangled(n, seed), rng.choice([1.0, 0.2])
    limits = {"min_area": float(rng.choice([0, 0, 0.1])), "max_area": float(rng.choice([0.05, 0.2, 0.4]))}
    params = {"pool_size": int(rng.integers(2, 9)), "pair_gain": float(rng.choice([0.0, 0.05, 0.5])), **limits}
    found = run("copair", lambda rows: faint * respond(rows), n, centroids=centroids, areas=areas, params=params)
    expected = plain_copair(
        lambda rows: faint * respond(rows), coarse_groups(centroids, coarse_count(n)), areas,
        params["pool_size"], params["pair_gain"], 0.1, limits["min_area"], limits["max_area"],
    )  # fmt: skip
    np.testing.assert_array_equal(found.mask, expected)


def test_the_least_area():
    areas = np.array([0.4, 0.3, 0.2, 0.1])
    result = small(lambda rows: rows @ WEIGHTS, areas=areas, min_area=0.65, pair_gain=0.0)
    assert result.mask.tolist() == [True, True, False, False]  # 0.4 + 0.2 would score more but is too small
    assert result.ledger.nominal == 4 + 1


def test_an_area_at_its_limit_is_inside_whatever_the_rounding():
    areas = np.array([0.7, 0.1, 0.15, 0.05])
    assert areas[0] + areas[1] < 0.8  # by rounding
    least = small(lambda rows: rows @ WEIGHTS, areas=areas, min_area=0.8, pair_gain=0.0)
    assert least.ledger.nominal == 4 + 2  # 0.7 + 0.1 and 0.7 + 0.15
    areas = np.array([0.1, 0.2, 0.6, 0.1])
    assert areas[0] + areas[1] > 0.3
    most = small(lambda rows: rows @ WEIGHTS, areas=areas, max_area=0.3, pair_gain=0.0)
    assert most.ledger.nominal == 4 + 3  # 0.1 + 0.2, 0.1 + 0.1 and 0.2 + 0.1


def test_groups_are_made_as_copair_makes_them():
    centroids = np.random.default_rng(3).random((64, 2))
    defaults = {name: value.default for name, value in signature(coarse_groups).parameters.items()}
    copairs = copair.parameters
    assert (defaults["seed"], defaults["max_iter"]) == (copairs["centroid_seed"], copairs["kmeans_max_iter"])
    np.testing.assert_array_equal(
        coarse_groups(centroids, coarse_count(64)),
        coarse_groups(centroids, 16, copairs["centroid_seed"], copairs["kmeans_max_iter"]),
    )


def test_the_pool_limits_pairs_and_the_third_group():
    weights = np.array([0.05, 0.04, 0.03, 0.0])

    def respond(rows):  # the last region is worth nothing alone, and a lot with the first two
        return rows @ weights + np.where(rows[:, 0] & rows[:, 1] & rows[:, 3], 0.5, 0.0)

    assert small(respond, pool_size=3).mask.tolist() == [True, True, True, False]
    assert small(respond, pool_size=4).mask.tolist() == [True, True, False, True]
    assert small(respond, pool_size=3).ledger.nominal == 4 + 3 + 1


def test_pool_size_by_default():
    """q = min(c, max(pool_min, ceil(pool_frac * c)) + pool_reserve)."""
    centroids = grid_centroids(8, 8)
    for params, q in (({}, 14), ({"pool_frac": 0.75}, 16), ({"pool_min": 2}, 7), ({"pool_reserve": 0}, 10)):
        params = {"max_area": 1.0, "min_sufficiency": 0.0, **params}
        result = run("copair", tangled(64), 64, centroids=centroids, params=params)
        assert result.ledger.nominal == 16 + q * (q - 1) // 2


def test_two_regions():
    result = run("copair", lambda rows: rows @ np.array([0.3, 0.6]), 2, centroids=[[0.2, 0.5], [0.8, 0.5]])
    assert result.mask.tolist() == [False, True]


def test_reported_order_is_inside_the_mask():
    result = run("copair+order", tangled(64), 64, centroids=grid_centroids(8, 8))
    assert sorted(result.selection.order) == np.flatnonzero(result.mask).tolist()


def test_needs_centroids():
    with pytest.raises(WhymaskError, match="centroids"):
        run("copair", tangled(9), 9)
    with pytest.raises(WhymaskError, match=r"\(9, 2\)"):
        run("copair", tangled(9), 9, centroids=np.zeros((8, 2)))


@pytest.mark.parametrize("params", [{"pool_size": 0}, {"max_groups": 0}, {"coarse_min": 0}, {"coarse_scale": 0.0}])
def test_refuses(params):
    with pytest.raises(WhymaskError):
        run("copair", tangled(9), 9, centroids=grid_centroids(3, 3), params=params)


def test_complete_without_the_driver():
    seed, sizes = complete(copair(problem(64, centroids=grid_centroids(8, 8))), tangled(64))
    assert sizes[0] == 16
    assert seed.mask.any()
