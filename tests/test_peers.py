"""benchmarks/peers.py without the peers: how a map is read, what a mask keeps, and the table."""

from pathlib import Path

import numpy as np
import pytest

import whymask
from whymask.explainer.case import Case
from whymask.images.partition import Partition

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "results" / "peers.jsonl"


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend("benchmarks")
    import peers

    return peers


def test_a_map_is_read_by_pixels_and_by_regions(peers):
    values = np.arange(400.0).reshape(20, 20)
    partition = Partition(np.repeat(np.arange(4), 100).reshape(20, 20).astype(np.int32), "bands")
    pixels, regions = peers.readings(values, partition)
    assert pixels.sum(axis=(1, 2)).tolist() == list(range(4, 401, 4))
    assert pixels[0].ravel().nonzero()[0].tolist() == [396, 397, 398, 399]
    assert (pixels[1:] | ~pixels[:-1]).all()  # each contains the one before
    assert [np.unique(partition.labels[mask]).tolist() for mask in regions] == [[3], [2, 3], [1, 2, 3], [0, 1, 2, 3]]
    assert peers.readings(pixels, partition)[0] is pixels


def test_the_reading_with_the_smaller_area_counts(peers):
    """The score needs the last row of pixels: the map's best 5%, but a whole region of a quarter."""
    model = whymask.wrap(lambda images: (images[:, -1] > 0).all(axis=(1, 2)).astype(float))
    case = Case.of(np.full((20, 20, 3), 9, dtype=np.uint8), model, regions="grid:2x2")
    found = peers.measure(case, lambda case, calls: np.arange(400.0).reshape(20, 20))
    assert (found["area"], found["reached"]) == (20 / 400, True)
    flat = np.zeros((20, 20))
    flat[10:] = 1  # the map says less, and its first pixels are not the last row
    assert peers.measure(case, lambda case, calls: flat)["area"] == 0.5


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
        {"photo": area, "tool": "lime", "version": "lime 1", "calls": 1000, "reached": True, "area": area, "kept": one}
        for area, one in zip((0.1, 0.2, 0.6), kept, strict=True)
    ]
    records += [record | {"tool": "whymask", "area": 0.05} for record in records[:2]]
    header, _, row, ours = peers.table(records).splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert len(cells) == len(header.strip("|").split("|"))
    assert cells[:6] == ["lime", "3", "1,000", "100%", "20.0%", "30.0%"]
    assert cells[6] == "+10.0 [+5.0, +15.0]"  # 5 and 15 points more on the photos that both have
    assert cells[7:11] == ["0.90"] * 4
    assert cells[11:] == ["67%", "67%"]
    assert ours.startswith("| whymask | 2 |")
    assert "\n| lime | 3 |" in peers.page(records)
    assert "for 3 photos that" in peers.page(records)
    assert "Versions: lime 1." in peers.page(records)


@pytest.mark.skipif(not RECORDS.is_file(), reason="no records of other tools are published")
def test_the_published_page_is_that_of_the_records(peers):
    assert (ROOT / "docs/peers.md").read_text() == peers.page(peers.read(RECORDS))


def test_half_a_line_at_the_end_of_the_records_is_dropped(peers, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text('{"tool": "lime"}\n{"tool": "sh')
    assert peers.read(file) == [{"tool": "lime"}]
    assert peers.read(tmp_path / "none") == []
