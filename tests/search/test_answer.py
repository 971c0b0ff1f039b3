"""What a search is given when the answer must be kept."""

import itertools

import numpy as np
import pytest

from whymask.methods import Recipe
from whymask.search import answer
from whymask.search.driver import Search, drive
from whymask.search.objective import over_fills, pack
from whymask.search.oracle import Responses
from whymask.search.protocol import Problem

TARGET, OTHER = 7, 8
N = 36
CENTRES = np.array([[(i % 6) / 6, (i // 6) / 6] for i in range(N)])


def value(score, kept):
    return answer.WEIGHT * score + (1 - answer.WEIGHT) * kept


def _but_one(fills):
    """Kept on all fills, or on all but one."""
    yield [(0.0, True)] * fills
    yield [(1.0, True)] * (fills - 1) + [(1.0, False)]


@pytest.mark.parametrize("how", ["mean", "min"])
@pytest.mark.parametrize("fills", [1, 2, 3, 8])
def test_the_goal_is_reached_exactly_where_every_fill_keeps_the_answer(fills, how):
    extremes = (
        itertools.product([(0.0, False), (1.0, False), (0.0, True), (1.0, True)], repeat=fills)
        if fills < 8
        else _but_one(fills)
    )
    for some in extremes:
        together = over_fills(np.array([[value(score, kept)] for score, kept in some]), how)[0]
        assert (together >= answer.GOAL - 1e-9) == all(kept for _, kept in some)


def test_the_score_can_be_read_from_what_a_search_is_given():
    for score in (0.0, 0.3, 1.0):
        assert answer.score(value(score, True)) == pytest.approx(score)
        assert answer.score(value(score, False)) is None


def search(score, top, fills=1, seed=0):
    """The smallest mask of a function with answers: rows (B, N) -> scores (B,), and first choices (B,) on each fill."""
    known = [Responses() for _ in range(fills)]
    oracle = answer.AnswerOracle(*known, answers={TARGET})

    def respond(pieces):
        for about, rows in pieces:
            known[about].answers.update(zip(pack(rows), top(rows, about).tolist(), strict=True))
        return [score(rows, about) for about, rows in pieces]

    recipe = Recipe("smallest", {"enough": answer.GOAL})
    one = Search(recipe, Problem(N, seed, CENTRES), oracle=oracle, fills=range(fills))
    ((_, found),) = drive([one], respond)
    return found


def test_fewer_regions_keep_the_answer_than_the_score():
    """Each of ten regions adds a tenth to the score, but four of any are enough for the answer."""
    parts = np.zeros(N)
    parts[10:20] = 0.1

    def top(rows, about):
        return np.where(rows[:, 10:20].sum(axis=1) >= 4, TARGET, OTHER)

    found = search(lambda rows, about: rows @ parts, top)
    assert found.mask.sum() == 4
    assert found.mask[10:20].sum() == 4


def test_a_high_score_is_not_the_answer():
    """Regions 0 to 2 give a score of 0.9, and another answer; only with region 35 it is the target, at 0.3."""

    def score(rows, about):
        return np.where(rows[:, 35], 0.3, 0.3 * rows[:, :3].sum(axis=1))

    found = search(score, lambda rows, about: np.where(rows[:, 35], TARGET, OTHER))
    assert np.flatnonzero(found.mask).tolist() == [35]
    assert answer.score(found.score) == pytest.approx(0.3)


def test_on_several_fills_the_answer_is_kept_on_each():
    """The fills need different regions."""
    needed = ([3, 4], [9, 10])

    def top(rows, about):
        return np.where(rows[:, needed[about]].all(axis=1), TARGET, OTHER)

    found = search(lambda rows, about: rows[:, needed[about]].mean(axis=1), top, fills=2)
    assert np.flatnonzero(found.mask).tolist() == [3, 4, 9, 10]
