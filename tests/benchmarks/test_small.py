import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def small(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import small

    yield small
    del sys.modules["small"]


def test_the_tables_are_what_the_records_say(small, tmp_path):
    small.write(tmp_path)
    written = sorted(page.name for page in tmp_path.glob("*.md"))
    assert written == sorted(page.name for page in small.RESULTS.glob("*.md"))
    for name in written:
        assert (small.RESULTS / name).read_text() == (tmp_path / name).read_text(), name


def test_packing_keeps_every_record(small, tmp_path):
    small.unpack(tmp_path / "runs")
    small.pack(tmp_path / "runs", tmp_path / "one.tar.gz")
    (tmp_path / "runs" / "k").mkdir()  # no run of a table
    small.pack(tmp_path / "runs", tmp_path / "two.tar.gz")
    one, two = ((tmp_path / name).read_bytes() for name in ("one.tar.gz", "two.tar.gz"))
    assert one[20:] == two[20:]  # behind the header, which names the file
    for file in (tmp_path / "runs" / "scenes").glob("records-*"):
        file.unlink()
    with pytest.raises(SystemExit, match="no records of scenes"):
        small.pack(tmp_path / "runs", tmp_path / "three.tar.gz")
    assert not (tmp_path / "three.tar.gz").exists()
