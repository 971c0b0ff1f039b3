import numpy as np
import pytest

from whymask import WhymaskError
from whymask.search.objective import SUFF_NECC, SUFFICIENCY, Ledger, Objective, pack
from whymask.search.oracle import Oracle

ROWS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]], dtype=bool)


def ask(oracle, rows, objective, respond):
    query = oracle.open(rows, objective, "init")
    return oracle.answer(query, respond(query.send)), query


def size(rows):
    return rows.sum(axis=1) / 4


def test_objectives():
    for objective, sides, expected in [
        (SUFFICIENCY, 1, [0.25, 0.5, 0.5]),
        (SUFF_NECC, 2, [0.375, 0.625, 0.625]),
        (Objective(0.0), 1, [0.5, 0.75, 0.75]),
        (Objective(0.25), 2, [0.4375, 0.6875, 0.6875]),
    ]:
        scores, query = ask(Oracle(cache=False), ROWS, objective, size)
        np.testing.assert_allclose(scores, expected)
        assert len(query.send) == sides * 3
    assert str(SUFF_NECC) == "suff_necc"
    assert str(Objective(0.25)) == "0.25*suff+0.75*necc"
    with pytest.raises(WhymaskError, match="alpha"):
        Objective(1.1)


def test_an_image_is_sent_once_and_counted_once():
    oracle = Oracle()
    rows = np.concatenate([ROWS, ROWS[:1], ~ROWS[:1]])
    scores, query = ask(oracle, rows, SUFFICIENCY, size)
    assert len(query.send) == 3  # rows 0 and 3 agree, and row 4, the complement of row 0, is row 2
    np.testing.assert_allclose(scores, [0.25, 0.5, 0.5, 0.25, 0.5])
    _, query = ask(oracle, ROWS, SUFF_NECC, size)
    assert len(query.send) == 1  # only the complement of row 1 is new
    assert (oracle.ledger.nominal, oracle.ledger.mec) == (5 + 6, 3 + 1)
    assert oracle.ledger.entries == {("init", "suff"): (8, 3), ("init", "necc"): (3, 1)}


def test_pack_tells_every_set_apart():
    n = 11
    rows = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    assert len(set(pack(rows))) == 2**n


def test_ledger_prints_and_survives_json():
    ledger = Ledger()
    ledger.add("init", "suff", 160, 158)
    ledger.add("continue", "necc", 10, 9)
    assert Ledger.from_dict(ledger.as_dict()) == ledger
    assert str(ledger) == "167 forwards (init 158, continue 9; 170 without a cache)"
    assert ledger.stage("order") == (0, 0)
    assert "none" in str(Ledger())
    ledger.add("probe", "suff", 4, 3)
    assert (ledger.nominal, ledger.mec) == (170, 167)  # counted apart
    assert str(ledger).endswith("), plus 3 for reference scores")


def test_the_complement_of_a_pixel_mask_shows_what_it_hides():
    masks = np.random.default_rng(0).random((3, 4, 5)).astype(np.float32)
    kept, rest = SUFF_NECC.images(masks)
    np.testing.assert_array_equal(kept, masks)
    np.testing.assert_allclose(kept + rest, 1, rtol=1e-6)
    scores, query = ask(Oracle(), masks, SUFF_NECC, lambda images: images.mean(axis=(1, 2)))
    assert query.send.shape == (6, 4, 5)
    np.testing.assert_allclose(scores, masks.mean(axis=(1, 2)), rtol=1e-5)  # both sides say the same of a mean
