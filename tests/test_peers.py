"""benchmarks/peers.py without the peers: how a map is read, what a mask keeps, and the table."""

import numpy as np
import pytest

import whymask
from whymask.explainer.case import Case


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend("benchmarks")
    import peers

    return peers


def test_a_map_is_read_one_hundredth_at_a_time_from_its_highest_value(peers):
    values = np.arange(400.0).reshape(20, 20)
    masks = peers.by_map(values)
    assert masks.sum(axis=(1, 2)).tolist() == list(range(4, 401, 4))
    assert masks[0].ravel().nonzero()[0].tolist() == [396, 397, 398, 399]
    assert (masks[1:] | ~masks[:-1]).all()  # each contains the one before


def test_the_area_is_that_of_the_smallest_mask_that_keeps_nine_tenths_on_black(peers):
    picture = np.zeros((20, 20, 3), dtype=np.uint8)
    picture[:10] = 200  # the score is what is left of it
    model = whymask.wrap(lambda images: images[:, :10].mean(axis=(1, 2, 3)) / 255)
    case = Case.of(picture, model, regions="grid:4x4")
    upper = np.arange(20)[:, None] < np.arange(1, 11)[:, None, None] + np.zeros((1, 1, 20))
    record = peers.measure(case, lambda case, calls: upper)
    assert record["reached"]
    assert record["area"] == 9 / 20
    assert record["kept"]["black"] == 0.9
    assert record["kept"]["mean"] == pytest.approx(0.95)  # the mean colour is half as bright
    assert record["calls"] == 0
    failed = peers.measure(case, lambda case, calls: upper[:3])
    assert not failed["reached"]
    assert failed["area"] == 3 / 20


def test_our_own_forwards_are_those_of_the_search(peers):
    model = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)
    case = Case.of(np.full((20, 20, 3), 200, dtype=np.uint8), model, regions="grid:4x4")
    calls = peers.Calls(case)
    masks = peers.ours(case, calls, method="greedy")
    assert calls.count == peers.whymask.Explainer(model, method="greedy").search(case)[0].ledger.mec > 100
    assert masks.shape == (16, 20, 20)
    assert masks.sum(axis=(1, 2)).tolist() == [25 * size for size in range(1, 17)]


def test_the_table_has_a_row_of_medians_for_each_tool(peers):
    kept = [dict.fromkeys(peers.FILLS, value) for value in (0.95, 0.9, 0.4)]
    records = [
        {"tool": "lime", "calls": 1000, "reached": True, "area": area, "kept": one}
        for area, one in zip((0.1, 0.2, 0.6), kept, strict=True)
    ]
    header, _, row = peers.table(records).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == len(header.strip("|").split("|"))
    assert cells[:6] == ["lime", "3", "1,000", "100%", "20.0%", "30.0%"]
    assert cells[6:10] == ["0.90"] * 4
    assert cells[10:] == ["67%", "67%"]


def test_half_a_line_at_the_end_of_the_records_is_dropped(peers, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text('{"tool": "lime"}\n{"tool": "sh')
    assert peers.read(file) == [{"tool": "lime"}]
    assert peers.read(tmp_path / "none") == []
