"""lean: the order of Greedy for fewer forwards."""

import numpy as np
import pytest

from whymask.methods import run

from search.functions import grid_centroids, modular, spot

GRID = grid_centroids(4, 4)


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
