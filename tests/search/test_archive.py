import numpy as np
import pytest

from whymask.search.archive import ROOM, Archive
from whymask.search.objective import SUFF_NECC, SUFFICIENCY, pack

N = 12


@pytest.mark.parametrize("targets", [None, 3])
@pytest.mark.parametrize("fills", [1, 3])
def test_holds_what_was_noted_last_of_every_set(fills, targets):
    """Compared with a dictionary, while far more sets are noted than there is room for at first; some come again."""
    rng = np.random.default_rng(0)
    archive = Archive(fills, targets=targets)
    order, known, behind = [], {}, {}
    while len(order) < 5 * ROOM:
        fill, rows = int(rng.integers(fills)), np.unique(rng.random((int(rng.integers(12)), N)) < 0.5, axis=0)
        keys, answers = pack(rows), rng.integers(1, 9, len(rows)).astype(float).tolist()
        responses = rng.random(len(rows) if targets is None else (len(rows), targets)).tolist()
        archive.add(fill, keys, responses, N, answers)
        order += [key for key in keys if key not in order]
        known.update({(fill, key): response for key, response in zip(keys, responses, strict=True)})
        behind.update({(fill, key): count for key, count in zip(keys, answers, strict=True)})
        assert pack(archive.rows) == order
        unknown = np.nan if targets is None else [np.nan] * targets
        expected = [[known.get((fill, key), unknown) for key in order] for fill in range(fills)]
        if order:
            np.testing.assert_array_equal(archive.responses, expected)
        assert archive.answers.tolist() == [[behind.get((fill, key), np.inf) for key in order] for fill in range(fills)]


def test_what_was_read_stays_as_it_is():
    archive, keys = Archive(), pack(np.eye(2, dtype=bool))
    archive.add(0, keys, [0.25, 0.5], 2, [8, 8])
    rows, responses, answers = archive.rows, archive.responses, archive.answers
    archive.add(0, keys, [0.75, 0.75], 2, [16, 16])
    archive.add(0, pack(np.ones((1, 2), dtype=bool)), [1.0], 2, [8])
    assert rows.tolist() == np.eye(2, dtype=bool).tolist()
    assert responses.tolist() == [[0.25, 0.5]]
    assert answers.tolist() == [[8, 8]]


@pytest.mark.parametrize("objective", [SUFFICIENCY, SUFF_NECC])
def test_scores_on_some_fills_are_those_of_their_responses(objective):
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.eye(N, dtype=bool), ~np.eye(N, dtype=bool)])
    archive, values = Archive(3), rng.random((3, len(rows)))
    for fill, responses in enumerate(values):
        archive.add(fill, pack(rows), responses.tolist(), N)
    sides = values.reshape(3, 2, N)[:, : len(objective.sides)]
    found = archive.score(rows[:N], objective, [2, 0])
    expected = np.mean([objective.combine(sides[fill]) for fill in (2, 0)], axis=0)
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(float).eps)
