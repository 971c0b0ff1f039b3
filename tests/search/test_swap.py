"""The searches beyond the paper's: discs, swap, greedy-k, lean, smallest, others."""

import hashlib

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import Recipe, run
from whymask.search import Problem, Search
from whymask.search.discs import compact_masks
from whymask.search.objective import SUFF_NECC, SUFFICIENCY, Archive, Objective, Oracle, Responses, pack
from whymask.search.random_k import random_k
from whymask.search.stage import stage
from whymask.search.surrogate import Surrogate
from whymask.search.swap import exchanged, single_exchanges

from search.functions import grid_centroids, masks_of_size, modular, sigmoid, tangled

GRID = grid_centroids(4, 4)
GOLDEN = [  # all sets asked for on four spots, in order
    ("discs", {}, "3128bc79a345dcf7"),
    ("discs+swap", {}, "1b2905744d0cc247"),
    ("discs+swap+others", {}, "ab311c0f3b083098"),
    ("smallest", {}, "f021ca7eab8c6e3c"),
    ("lean", {}, "a16d8866bbc337d5"),
]


def spot(n=64, seed=0):
    """Evidence in one place and a few odd weights: a sigmoid of weights that fall off around a centre."""
    rng = np.random.default_rng(seed)
    centroids = grid_centroids(8, 8)[:n]
    weights = 2 * np.exp(-((centroids - rng.random(2)) ** 2).sum(axis=1) / 0.03) + rng.normal(0, 0.3, n)
    return (lambda rows: sigmoid(rows @ weights - 6)), weights, centroids


def test_the_archive_holds_every_image_once():
    oracle = Oracle()
    rows = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0]], dtype=bool)
    question = oracle.open(rows, SUFF_NECC, "init")
    scores = oracle.answer(question, question.send.sum(axis=1) / 4)
    archive = oracle.archive
    assert {row.tobytes() for row in archive.rows} == {row.tobytes() for row in [*rows, *~rows]}
    assert len(archive.rows) == 4
    assert archive.response(rows[1]) == 0.5
    known, values = archive.scored(SUFF_NECC)
    assert dict(zip(pack(known), values, strict=True))[pack(rows)[0]] == pytest.approx(scores[0])
    assert len(known) == 4  # of a set and its complement both sides are known
    assert archive.scored(SUFFICIENCY)[1].tolist() == archive.responses.tolist()
    necessity, values = archive.scored(Objective(0.0))
    assert dict(zip(pack(necessity), values, strict=True))[pack(rows)[1]] == 1 - 0.25
    assert archive.frontier(1) == {1: 0.25}
    assert len(archive.near(SUFFICIENCY, rows[0])[0]) == 4
    assert Archive().frontier(3) == {}


def test_what_a_search_learns_from_does_not_depend_on_who_searched_before():
    respond, _, centroids = spot()
    shared = Responses()
    results = []
    for _ in range(2):  # the second finds every response known
        search = Search(Recipe("discs+swap"), Problem(64, 3, centroids), oracle=Oracle(shared))
        while search.result is None:
            search.answer(respond(search.query.send))
        results.append(search.result)
    assert results[0].mask.tolist() == results[1].mask.tolist()
    assert results[0].ledger.mec == results[1].ledger.mec


def test_the_surrogate_recovers_a_linear_function():
    _, weights = modular(16)
    rng = np.random.default_rng(0)
    rows = np.argsort(rng.random((400, 16)), axis=1) < 5
    surrogate = Surrogate(Problem(16), Objective(0.5))  # not logarithmic
    surrogate.fit(rows, rows @ weights, rows[0])
    assert np.corrcoef(surrogate.mean, weights)[0, 1] > 0.999
    draws = surrogate.draw(2000, 1.0, rng)
    np.testing.assert_allclose(draws.mean(axis=0), surrogate.mean, atol=0.1)
    # What few sets tell is uncertain, and neighbours are expected to be alike.
    near = Surrogate(Problem(16, centroids=GRID), SUFFICIENCY)
    near.fit(np.eye(16, dtype=bool)[[0]], np.array([0.5]), np.eye(16, dtype=bool)[0])
    covariance = np.cov(near.draw(4000, 1.0, rng).T)
    assert covariance[0, 1] > covariance[0, 3] > covariance[0, 15] - 0.05


def test_exchanges():
    mask = np.array([1, 1, 0, 0, 0], dtype=bool)
    weights = np.array([0.1, 0.9, 0.5, 0.2, 0.0])
    assert np.flatnonzero(exchanged(mask, weights, 1)).tolist() == [1, 2]
    assert np.flatnonzero(exchanged(mask, weights, 2)).tolist() == [1, 2]  # the second would make it worse
    equal = np.array([0.1, 0.2, 0.5, 0.2, 0.0])
    assert np.flatnonzero(exchanged(mask, equal, 2)).tolist() == [1, 2]  # nor would it make it better
    best = np.array([0.9, 0.8, 0.5, 0.2, 0.0])
    assert np.flatnonzero(exchanged(mask, best, 3)).tolist() == [0, 2]  # one exchange is always made
    rows = single_exchanges(mask, weights)
    assert len({row.tobytes() for row in rows}) == len(rows) == 2 * 3
    assert np.flatnonzero(rows[0]).tolist() == [1, 2]
    assert (rows.sum(axis=1) == 2).all()


def test_discs_are_compact_and_spread():
    rows = compact_masks(Problem(16, centroids=GRID), 4, 16)
    assert (rows.sum(axis=1) == 4).all()
    for row in rows:
        x, y = (np.ptp(GRID[row][:, side]) for side in (0, 1))
        assert max(x, y) <= 0.75 + 1e-9
    assert rows.any(axis=0).all()
    with pytest.raises(WhymaskError, match="pass centroids"):
        run("discs", tangled(16), 16)


@pytest.mark.parametrize("start", ["trace", "discs", "greedy-k", "random-k", "copair"])
def test_swap_never_makes_a_mask_worse(start):
    respond = tangled(16, seed=4)
    alone = run(start, respond, 16, centroids=GRID)
    refined = run(f"{start}+swap", respond, 16, centroids=GRID, params={"tries": 40})
    assert refined.score >= alone.score
    assert refined.mask.sum() == alone.mask.sum()
    assert refined.ledger.mec <= alone.ledger.mec + 40


def test_swap_stops_at_a_local_optimum_and_says_so():
    respond = tangled(10, seed=2)
    found = run("random-k+swap", respond, 10, params={"k": 3, "tries": 10_000})
    assert found.selection.local_optimum
    neighbours = single_exchanges(found.mask, np.zeros(10))
    assert respond(neighbours).max() <= found.score
    assert found.ledger.mec <= 120  # C(10, 3)
    assert not run("random-k+swap", respond, 10, params={"k": 3, "tries": 4}).selection.local_optimum


def test_swap_finds_the_best_mask_of_a_modular_function():
    respond, weights = modular(20, seed=1)
    found = run("random-k+swap", respond, 20, params={"k": 4, "tries": 400})
    assert set(np.flatnonzero(found.mask)) == set(np.argsort(-weights)[:4])


def test_swap_works_on_both_sides():
    respond = tangled(12, seed=3)
    found = run("random-k+swap", respond, 12, params={"k": 3, "tries": 300, "init_objective": "suff_necc"})
    score = SUFF_NECC.combine(np.array([respond(found.mask[None]), respond(~found.mask[None])]))
    assert found.score == pytest.approx(score[0])
    rows = masks_of_size(12, 3)
    assert found.score >= 0.97 * SUFF_NECC.combine(np.array([respond(rows), respond(~rows)])).max()


def test_at_equal_cost_it_beats_trace():
    gains = []
    for seed in range(12):
        respond, _, centroids = spot(seed=seed)
        ours = run("discs+swap", respond, 64, seed=seed, centroids=centroids)
        theirs = run("trace", respond, 64, seed=seed, centroids=centroids)
        assert ours.ledger.mec <= 160
        gains.append(ours.score - theirs.score)
    assert np.mean(gains) > 0.05


def blind(respond, start, rng, tries=136, together=8):
    """The score of swap's own loop with exchanges of one to three regions drawn at random."""
    mask, score, known = start.mask, start.score, {start.mask.tobytes()}
    while tries > 0:
        rows: list[np.ndarray] = []
        while len(rows) < min(together, tries):
            row, most = mask.copy(), rng.integers(1, 4)
            row[rng.choice(np.flatnonzero(mask), most, replace=False)] = False
            row[rng.choice(np.flatnonzero(~mask), most, replace=False)] = True
            if row.tobytes() not in known:
                known.add(row.tobytes())
                rows.append(row)
        scores = respond(np.array(rows))
        tries -= len(rows)
        if scores.max() > score:
            mask, score = rows[int(scores.argmax())], scores.max()
    return score


def test_what_was_scored_guides_the_exchanges():
    """At equal cost it comes far closer to the best mask, which is known here, than exchanges at random do."""
    ours, theirs = [], []
    for seed in range(36):
        respond, weights, centroids = spot(seed=seed)
        best = respond(np.isin(np.arange(64), np.argsort(-weights)[:8])[None])[0]
        found = run("discs+swap", respond, 64, seed=seed, centroids=centroids)
        start = run("discs", respond, 64, seed=seed, centroids=centroids)
        assert found.ledger.mec <= start.ledger.mec + 136
        ours.append(1 - found.score / best)
        theirs.append(1 - blind(respond, start, np.random.default_rng(seed)) / best)
    gains = np.array(theirs) - ours
    assert gains.mean() > 4 * gains.std() / np.sqrt(len(gains))
    assert np.mean(ours) < np.mean(theirs) / 4
    assert np.mean(ours) < 0.01


@pytest.mark.parametrize(("name", "params", "digest"), GOLDEN)
def test_the_sets_our_searches_ask_for(name, params, digest):
    """Any other constant, random choice or model of the scores leads to other sets."""
    asked = hashlib.sha256()
    for seed in range(4):
        respond, _, centroids = spot(seed=seed)

        def recorded(rows, respond=respond):
            asked.update(np.packbits(rows, axis=1).tobytes())
            return respond(rows)

        run(name, recorded, 64, seed=seed, centroids=centroids, params=params)
    assert asked.hexdigest()[:16] == digest


@pytest.mark.parametrize("tries", [0, 1, 8, 9])
def test_swap_scores_as_many_masks_as_it_may(tries):
    found = run("random-k+swap", tangled(16), 16, params={"k": 4, "tries": tries})
    assert found.ledger.mec == found.ledger.nominal == 1 + tries
    assert not found.selection.local_optimum


def test_swap_leaves_a_mask_that_nothing_beats():
    """An equal score is no reason to exchange anything."""
    respond = lambda rows: np.full(len(rows), 0.5)  # noqa: E731
    start, found = (run(name, respond, 16, centroids=GRID, params={"k": 4}) for name in ("discs", "discs+swap"))
    assert found.mask.tolist() == start.mask.tolist()


def test_discs_score_as_many_as_a_budget_pays_for():
    respond, _, centroids = spot(seed=1)
    whole = run("discs", respond, 64, centroids=centroids)
    part = run("discs", respond, 64, centroids=centroids, budget=7)
    first = compact_masks(Problem(64, centroids=centroids), 8, 24)[:7]
    assert whole.complete
    assert not part.complete
    assert part.ledger.mec == 7
    assert part.score == pytest.approx(respond(first).max())


def test_greedy_k_is_the_prefix_of_greedy():
    respond = tangled(12, seed=5)
    prefix = run("greedy", respond, 12, params={"objective": "sufficiency"}).order[:4]
    found = run("greedy-k", respond, 12, params={"k": 4})
    assert set(np.flatnonzero(found.mask)) == set(prefix.tolist())
    assert found.ledger.nominal == 12 + 11 + 10 + 9
    assert run("greedy-k", respond, 12, params={"k": 4, "candidates": 3}).ledger.nominal == 12


def test_lean_is_greedy_while_nothing_is_settled():
    respond, _ = modular(14, seed=2)  # neither side ever settles before its end
    greedy = run("greedy", respond, 14)
    for between in (0, 3):
        found = run("lean", respond, 14, params={"settled": 0.0, "between": between})
        assert found.order.tolist() == greedy.order.tolist()
        looks = [left if step % (between + 1) == 0 else max(1, round(0.25 * left))
                 for step, left in enumerate(range(14, 0, -1))]  # fmt: skip
        # Both sides of every look; before it of what is placed, and once of the whole image.
        assert found.ledger.nominal == 2 * sum(looks) + 2 * 14 + 2
        assert (found.ledger.mec < 0.7 * greedy.ledger.mec) == (between == 3)


@pytest.mark.parametrize("speak", [1, 2])
def test_lean_places_several_only_where_both_sides_are_settled(speak):
    """One of the first `speak` regions is enough, so all of them must be gone before the rest scores nothing."""
    found = run("lean", lambda rows: rows[:, :speak].any(axis=1).astype(float), 20)
    assert sorted(found.order[:speak]) == list(range(speak))
    # The whole image; then, each after a look at what is placed: until the rest is gone one region by both sides (and
    # all of them are looked at anew once the first region is there), afterwards a share by sufficiency.
    expected, left = 2 + sum(2 + 2 * (20 - i) for i in range(speak)), 20 - speak
    while left:
        expected, left = expected + 2 + left, left - max(1, round(0.15 * left))
    assert found.ledger.nominal == expected


@pytest.mark.parametrize(
    ("kept", "rest", "params"),
    [
        (0.95, 0.02, {}),
        (0.949, 0.02, {}),
        (0.95, 0.021, {}),
        (1.0, 0.0, {"reached": 1.0, "settled": 0.0}),
        (0.99, 0.0, {"reached": 1.0, "settled": 0.0}),
        (0.75, 0.5, {"reached": 0.75, "settled": 0.5}),
    ],
)
def test_lean_sides_are_settled_at_a_share_of_the_whole(kept, rest, params):
    """With region 0 the image scores `kept`, without it `rest`, the whole 1; the shares themselves are enough."""
    respond = lambda rows: np.where(rows.all(axis=1), 1.0, np.where(rows[:, 0], kept, rest))  # noqa: E731
    found = run("lean", respond, 20, params=params)
    full = kept >= params.get("reached", 0.95)
    gone = rest <= params.get("settled", 0.02)
    # The whole image; a look by both sides that places region 0; then all looks have the same two answers.
    expected, left, looks = 2 + 2 + 2 * 20, 19, 0
    while left:
        looked = left if (gone and full) or looks % 4 == 0 else max(1, round(0.25 * left))
        expected += 2 + (1 if gone else 2) * looked
        left, looks = left - (max(1, round(0.15 * left)) if gone and full else 1), looks + 1
    assert found.order[0] == 0
    assert found.ledger.nominal == expected


def test_lean_sees_an_answer_that_comes_back():
    """Without 0 and 1, region 9 speaks for the answer: only who looks at the rest again removes it next."""

    def respond(rows):
        there, more, hidden = rows[:, 0], rows[:, 1], rows[:, 9]
        return 0.9 * there + 0.05 * (there & more) + 0.6 * (~there & ~more & hidden)

    assert run("lean", respond, 12).order[:3].tolist() == [0, 1, 9]


def test_lean_asks_less_where_a_side_is_settled():
    respond, _, centroids = spot(seed=1)
    lean, greedy = (run(name, respond, 64, centroids=centroids) for name in ("lean", "greedy"))
    assert lean.ledger.mec < 0.6 * greedy.ledger.mec
    assert sorted(lean.order) == list(range(64))

    def insertion(order):
        return respond(np.tril(np.ones((64, 64), dtype=bool))[:, np.argsort(order)]).mean()

    assert insertion(lean.order) > insertion(greedy.order) - 0.01
    single = run("lean", respond, 64, centroids=centroids, params={"at_once": 0.0})
    assert lean.ledger.mec < single.ledger.mec < greedy.ledger.mec


def test_lean_starts_from_the_kept_prefix():
    respond, _, centroids = spot(seed=2)
    found = run("discs+swap+lean", respond, 64, centroids=centroids)
    assert tuple(found.order[: found.selection.kept].tolist()) == found.selection.prefix


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


def test_stages_share_one_objective(stages):
    """What a mask was scored by is what its refinement compares with, whatever the defaults of the stages."""
    seen = []

    @stage("mask", "", cost=lambda n, p: 1)
    def mine(problem, *, init_objective: Objective = SUFF_NECC):
        seen.append(Objective.of(init_objective))
        return (yield from random_k(problem, init_objective=init_objective))

    stages.add(mine)
    run("mine+swap", tangled(16), 16)
    run("mine+swap", tangled(16), 16, params={"init_objective": "suff_necc"})
    assert seen == [SUFFICIENCY, SUFF_NECC]


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


def test_wrong_parameters_are_refused():
    for name, params, message in [
        ("discs+swap", {"tries": -1}, "tries"),
        ("discs+swap", {"together": 0}, "together"),
        ("lean", {"settled": 1.0}, "settled must lie in"),
        ("lean", {"at_once": 1.0}, "at_once must lie in"),
        ("lean", {"again": 0.0}, "again must lie in"),
        ("lean", {"between": -1}, "between must be"),
        ("lean", {"reached": 1.5}, "reached must lie in"),
        ("smallest", {"share": 0.0}, "share must lie in"),
        ("discs+swap+others", {"overlap": 1.0}, "overlap must lie in"),
        ("greedy-k", {"candidates": 0}, "candidates"),
        ("random-k", {"draws": 0}, "draws"),
    ]:
        with pytest.raises(WhymaskError, match=message):
            run(name, tangled(16), 16, centroids=GRID, params=params)
