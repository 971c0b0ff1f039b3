"""Races over fills, against scoring every set on every fill."""

import numpy as np
import pytest

from whymask.search import Problem, Search
from whymask.search.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.oracle import Oracle, Responses
from whymask.search.protocol import Ask, Selection
from whymask.search.race import race


def run(rows, scores, *, objective=SUFFICIENCY, beat=None, first=0, how="mean"):
    """The winner of a race and the forwards on each fill; `scores` (fills, B) are the responses to the sets, by row."""
    scores = np.asarray(scores)
    oracle = Oracle(*(Responses() for _ in scores), how=how)
    n = rows.shape[1]
    by_set = {row.tobytes(): column for row, column in zip(rows, scores.T, strict=True)}

    def answer(ask):
        query = oracle.open(ask.rows, ask.objective, ask.stage, ask.fills)
        parts = [[by_set[row.tobytes()][fill] for row in part] for fill, part in enumerate(query.by_fill)]
        return oracle.answer(query, np.concatenate([np.array(part, dtype=float) for part in parts]))

    if beat is not None:
        answer(Ask(beat[None], objective, "init", Selection(beat)))
    before = oracle.ledger.mec
    search = race(Problem(n, archive=oracle.archive), rows, objective, Selection(rows[0]), beat=beat, first=first)
    ask = next(search)
    while True:
        try:
            ask = search.send(answer(ask))
        except StopIteration as stop:
            return stop.value, oracle.ledger.mec - before, oracle


EYE = np.eye(9, dtype=bool)


def test_on_one_fill_all_sets_are_scored_and_the_first_best_one_wins():
    found, forwards, _ = run(EYE, [[0.1, 0.5, 0.5, 0.2, 0, 0, 0, 0, 0]])
    assert found.mask.tolist() == EYE[1].tolist()
    assert found.score == 0.5
    assert forwards == 9


def test_a_third_of_the_sets_goes_on():
    scores = np.linspace(0.9, 0.1, 9) * np.array([[1], [0.5], [0.2]])
    found, forwards, oracle = run(EYE, scores)
    assert found.mask.tolist() == EYE[0].tolist()
    np.testing.assert_allclose(found.score, scores[:, 0].mean())
    assert forwards == 9 + 3 + 1
    assert np.isfinite(oracle.archive.responses).sum(axis=1).tolist() == [9, 3, 1]


def test_only_what_is_ahead_of_the_mask_to_beat_goes_on():
    scores = np.array([[0.5, 0.6, 0.4, 0.9], [0.5, 0.3, 0.9, 0.2], [0.5, 0.9, 0.9, 0.9]])
    rows = EYE[:4]
    found, forwards, _ = run(rows[1:], scores[:, 1:], beat=None)
    assert forwards == 3 + 1 + 1
    by_mask = np.concatenate([scores[:, :1], scores[:, 1:]], axis=1)
    found, forwards, _ = run(rows, by_mask, beat=rows[0])
    # On the first fill rows 1 and 3 are ahead of 0.5, on the first two only row 3 (0.55), which then wins.
    assert found.mask.tolist() == rows[3].tolist()
    np.testing.assert_allclose(found.score, scores[:, 3].mean())
    assert forwards == 3 + 2 + 1
    found, forwards, _ = run(rows, by_mask, beat=rows[0], first=1)  # only row 2, by 0.9 and then 0.9: (0.9 + 0.9) / 2
    assert found.mask.tolist() == rows[2].tolist()
    assert forwards == 3 + 1 + 1


def test_nothing_wins_where_all_fall_behind():
    scores = np.array([[0.5, 0.6, 0.4], [0.5, 0.3, 0.9]])
    found, forwards, _ = run(EYE[:3], scores, beat=EYE[0])
    assert found is None
    assert forwards == 2 + 1


def test_the_minimum_over_fills_is_the_minimum_so_far():
    scores = np.array([[0.5, 0.6, 0.9], [0.4, 0.9, 0.3]])
    found, _, _ = run(EYE[:3], scores, beat=EYE[0], how="min")
    assert found.mask.tolist() == EYE[1].tolist()
    assert found.score == 0.6


@pytest.mark.parametrize("how", ["mean", "min"])
def test_the_winner_has_the_score_that_all_fills_give_it(how):
    rng = np.random.default_rng(0)
    rows = rng.random((40, 12)) < 0.4
    rows = np.unique(rows, axis=0)
    everything = np.unique(np.concatenate([rows, ~rows]), axis=0)
    table = rng.random((3, len(everything)))
    at = {row.tobytes(): i for i, row in enumerate(everything)}

    def f(row, fill):
        return 0.5 * table[fill, at[row.tobytes()]] + 0.5 * (1 - table[fill, at[(~row).tobytes()]])

    oracle = Oracle(Responses(), Responses(), Responses(), how=how)
    search = race(Problem(12, archive=oracle.archive), rows, SUFF_NECC, Selection(rows[0]))
    ask = next(search)
    try:
        while True:
            query = oracle.open(ask.rows, ask.objective, ask.stage, ask.fills)
            sent = [table[fill, [at[row.tobytes()] for row in part]] for fill, part in enumerate(query.by_fill)]
            ask = search.send(oracle.answer(query, np.concatenate(sent)))
    except StopIteration as stop:
        found = stop.value
    values = [f(found.mask, fill) for fill in range(3)]
    np.testing.assert_allclose(found.score, np.mean(values) if how == "mean" else min(values))


def test_a_budget_ends_a_race_with_the_best_so_far():
    from whymask.methods import Recipe

    centroids = np.stack(np.meshgrid(np.arange(4), np.arange(4)), axis=-1).reshape(-1, 2) / 4 + 0.125
    for budget in range(1, 40):
        search = Search(
            Recipe("discs+swap", {"k": 3}),
            Problem(16, 0, centroids),
            budget=budget,
            fills=[0, 1],
            oracle=Oracle(Responses(), Responses()),
        )
        while search.result is None:
            search.answer(np.concatenate([rows[:, : 8 + 4 * fill].mean(axis=1) for fill, rows in search.pieces]))
        assert search.result.ledger.mec <= budget
        assert search.result.mask.sum() == 3


def test_a_race_that_the_budget_ends_returns_what_led_so_far():
    """Nine sets are scored on the first fill, then the budget ends: the best of them comes back."""
    oracle = Oracle(Responses(), Responses())
    search = race(Problem(9, archive=oracle.archive), EYE, SUFFICIENCY, Selection(EYE[0]))
    ask = next(search)
    query = oracle.open(ask.rows, ask.objective, ask.stage, ask.fills)
    ask = search.send(oracle.answer(query, np.arange(9) / 10))
    assert ask.best.mask.tolist() == EYE[8].tolist()
    assert ask.best.score is None
