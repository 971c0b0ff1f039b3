"""smallest and others: masks of no given size, and further masks beside the first."""

import numpy as np
import pytest

from whymask.methods import Recipe, run
from whymask.search import Problem, Search
from whymask.search.discs import compact_masks
from whymask.search.driver import drive
from whymask.search.narrow import cut, narrow
from whymask.search.oracle import Oracle, Responses
from whymask.search.protocol import Selection, mask_of

from search.functions import complete, grid_centroids, neighbours, problem, scattered, sigmoid, spot, tangled

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


def planted(seed):
    """(centres, regions): 2 to 5 neighbours among 35 to 400 regions."""
    rng = np.random.default_rng(seed)
    centroids = scattered(int(rng.integers(35, 401)), rng)
    return centroids, neighbours(int(rng.integers(2, 6)), centroids, rng)


def test_smallest_finds_regions_that_score_only_together():
    """Nothing scores but masks that keep all of them: 19 of 20 such sets are found within 450 forwards."""
    found, exact = 0, 0
    for seed in range(200):
        centroids, needed = planted(seed)
        respond = lambda rows, needed=needed, top=(1.0, 0.6)[seed % 2]: top * rows[:, needed].all(axis=1)  # noqa: E731
        result = run("smallest", respond, len(centroids), seed=seed, centroids=centroids, budget=450)
        found += result.score >= result.selection.goal and result.complete
        exact += sorted(np.flatnonzero(result.mask).tolist()) == sorted(needed)
    assert found >= 190
    assert exact >= 190


def three_places(seed, fills):
    """(centres, a function for each fill): three places of eight regions are needed; their weights vary by fill."""
    rng = np.random.default_rng(seed)
    centroids = scattered(64, rng)
    places = [neighbours(8, centroids, rng) for _ in range(3)]

    def respond():
        weights = rng.normal(0, 0.15, (3, 64))
        for weight, place in zip(weights, places, strict=True):
            weight[place] += rng.uniform(0.3, 1.7, len(place))
        weights /= weights.sum(axis=1, keepdims=True)
        return lambda rows: sigmoid(8 * (rows @ weights.T - 0.5)).prod(axis=1)

    return centroids, [respond() for _ in range(fills)]


@pytest.mark.parametrize("fills", [1, 2, 3])
def test_the_estimate_holds_on_several_fills(fills):
    used = []
    for seed in range(6):
        centroids, by_fill = three_places(seed, fills)
        oracle = Oracle(*(Responses() for _ in by_fill))
        search = Search(
            Recipe("smallest"), Problem(64, seed, centroids=centroids), None, oracle=oracle, fills=tuple(range(fills))
        )
        ((_, result),) = drive([search], lambda pieces, by_fill=by_fill: [by_fill[fill](rows) for fill, rows in pieces])
        used.append(result.ledger.mec)
    assert np.mean(used) / 1.5 <= Recipe("smallest").estimate(64, fills) <= 1.5 * np.mean(used)


def test_smallest_finds_one_of_two_places_that_score_alone():
    for seed in range(20):
        centroids, one = planted(seed)
        other = neighbours(len(one), centroids, np.random.default_rng((seed, 1)))
        respond = lambda rows, sets=(one, other): np.max([rows[:, some].all(axis=1) for some in sets], axis=0)  # noqa: E731
        result = run("smallest", respond, len(centroids), seed=seed, centroids=centroids, budget=450)
        assert set(np.flatnonzero(result.mask).tolist()) in (set(one), set(other))


def test_smallest_finds_regions_that_multiply_the_score():
    """Each missing region leaves a fifth: all are needed for nine tenths."""
    for seed in range(20):
        centroids, needed = planted(seed)
        respond = lambda rows, needed=needed: 0.2 ** (~rows[:, needed]).sum(axis=1)  # noqa: E731
        result = run("smallest", respond, len(centroids), seed=seed, centroids=centroids, budget=450)
        assert sorted(np.flatnonzero(result.mask).tolist()) == sorted(needed)


def test_smallest_comes_close_to_the_fewest_regions():
    """Of a monotone function of a sum the best mask of every size is known: its largest weights."""
    more = []
    for seed in range(20):
        respond, weights, centroids = spot(seed=seed)
        result = run("smallest", respond, 64, seed=seed, centroids=centroids, params={"enough": 0.9})
        best = np.arange(64) < np.arange(1, 65)[:, None]  # (64, 64): the first regions
        fewest = 1 + int(np.argmax(respond(best[:, np.argsort(np.argsort(-weights))]) >= 0.9))
        assert result.score >= 0.9
        more.append(int(result.mask.sum()) - fewest)
    assert min(more) >= 0
    assert np.mean(more) <= 1


def test_smallest_finds_masks_that_score_more_than_the_whole_image():
    """Every region outside a spot of four takes away: the whole image scores 50 / 62 of what they do."""
    wanted = mask_of([5, 6, 9, 10], 16)
    respond = lambda rows: rows[:, wanted].mean(axis=1) / (1 + rows[:, ~wanted].sum(axis=1) / 50)  # noqa: E731
    found = run("smallest", respond, 16, centroids=GRID, params={"enough": 0.9})
    assert found.mask.tolist() == wanted.tolist()


def test_narrow_asks_for_each_group_and_then_for_what_is_left():
    """Of 64 regions in 16 groups all but one group go at once, then three of its four regions."""
    respond = lambda rows: rows[:, 37].astype(float)  # noqa: E731
    start = Selection(np.ones(64, dtype=bool), 1.0)
    found, sizes = complete(narrow(problem(64, centroids=grid_centroids(8, 8)), start, 0.9), respond)
    assert (np.flatnonzero(found.mask).tolist(), found.score) == ([37], 1.0)
    assert sizes == [16, 1, 4, 1]


def test_narrow_removes_what_it_may_where_not_all_of_it_can_go():
    """Any five of sixteen regions are enough: each can be spared, and eleven of them together, after 4 bisections."""
    respond = lambda rows: np.minimum(1, rows.sum(axis=1) / 5)  # noqa: E731
    start = Selection(np.ones(16, dtype=bool), 1.0)
    found, sizes = complete(narrow(problem(16, centroids=GRID), start, 0.9), respond)
    assert found.mask.sum() == 5
    assert sizes == [16, *[1] * 5]  # 16 of them first, then 8, 12, 10, 11


def test_narrow_cuts_finer_where_nothing_can_be_spared():
    """One region in each of 16 blocks is needed: no group of 4 can go, but 3 of its regions can."""
    centroids = grid_centroids(8, 8)
    groups = cut(problem(64, centroids=centroids), np.ones(64, dtype=bool), 16)
    needed = groups.argmax(axis=1)
    respond = lambda rows: rows[:, needed].all(axis=1).astype(float)  # noqa: E731
    start = Selection(np.ones(64, dtype=bool), 1.0)
    found, sizes = complete(narrow(problem(64, centroids=centroids), start, 0.9), respond)
    assert np.flatnonzero(found.mask).tolist() == sorted(needed.tolist())
    assert sizes[:2] == [16, 32]


@pytest.mark.parametrize(("n", "count"), [(64, 16), (35, 16), (7, 16), (50, 1)])
def test_groups_are_even_and_compact(n, count):
    rng = np.random.default_rng(n)
    centroids = scattered(n, rng)
    mask = rng.random(n) < 0.8
    groups = cut(problem(n, centroids=centroids), mask, count)
    assert len(groups) == min(count, mask.sum())
    assert (groups.sum(axis=0) == mask).all()  # each region once
    sizes = groups.sum(axis=1)
    assert sizes.max() <= 2 * sizes.min()
    if count == 16 and n == 64:
        spread = np.mean([np.ptp(centroids[group], axis=0).max() for group in groups])
        assert spread < 0.35  # a group of 4 in a grid of 8 x 8 extends over two or three spacings


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


def two_spots(seed):
    """(centres, a function for each of three fills): evidence in two places, whose weights vary by fill."""
    rng, centroids = np.random.default_rng(seed), grid_centroids(8, 8)
    near = [np.exp(-((centroids - rng.random(2)) ** 2).sum(axis=1) / 0.03) for _ in range(2)]
    weights = [2 * near[0] + 1.8 * near[1] + rng.normal(0, 0.3, 64) for _ in range(3)]
    return centroids, [lambda rows, weight=weight: sigmoid(rows @ weight - 6) for weight in weights]


def test_on_several_fills_another_mask_takes_fewer_forwards_than_there_are_discs():
    """24 discs race, of which 8 go on to the second fill and 3 to the third; then there is another mask to improve."""
    for seed in range(6):
        centroids, by_fill = two_spots(seed)

        def found(name, budget=None, seed=seed, centroids=centroids, by_fill=by_fill):
            oracle, fills = Oracle(*(Responses() for _ in by_fill)), tuple(range(len(by_fill)))
            search = Search(
                Recipe(name), Problem(64, seed, centroids=centroids), None, budget=budget, oracle=oracle, fills=fills
            )
            ((_, result),) = drive([search], lambda pieces: [by_fill[fill](rows) for fill, rows in pieces])
            return result

        first = found("discs+swap").ledger.mec
        assert len(found("discs+swap+others", first + 24 + 8 + 3).selection.others) >= 1


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


def test_the_empty_mask_is_no_evidence():
    """Nothing scores more than any mask of up to five regions: the best of these comes back all the same."""
    centroids = np.stack(np.meshgrid(np.arange(8), np.arange(8)), axis=-1).reshape(-1, 2) / 8

    def respond(rows):
        sizes = rows.sum(axis=1)
        return np.where(sizes >= 20, 1.0, np.where(sizes == 0, 0.3, 0.1))

    found = run("smallest", respond, 64, centroids=centroids, params={"k_max": 5})
    assert 1 <= found.mask.sum() <= 5
