import json

import pytest

from whymask import WhymaskError
from whymask.bench.export import export
from whymask.models.packages import optional

from bench.made_up import ordering, row, write
from bench.toy import finish, start


@pytest.fixture
def run(tmp_path):
    mask = {"score": 1, "area": 0.25, "mask": [3, 1], "mec": 160, "seconds": 1.0}
    return write(
        tmp_path / "run",
        [
            (row("greedy"), {"a": ordering(0.25, order=[1, 0]), ("a", 1): ordering(0.5, order=[0, 1])}),
            (row("trace", 1, returns="mask"), {"a": mask, "b": {**mask, "score": 0.5}, "c": "there is no file"}),
        ],
    )


@pytest.mark.skipif(optional("pyarrow") is None, reason="pyarrow is not installed")
def test_every_record_is_in_the_file(tmp_path, run):
    from pyarrow.parquet import read_table

    code, out, err = finish(start("export", run, "-o", tmp_path / "all.parquet"))
    assert (code, out, err) == (0, f"5 records in {tmp_path}/all.parquet.\n", "")
    lines = read_table(tmp_path / "all.parquet").to_pylist()
    about = ("model", "split", "method", "sample", "seed", "insertion_auc", "score", "order", "mask", "error")
    assert [tuple(line[name] for name in about) for line in lines] == [
        ("net", "correct", "greedy", "a", 0, 0.25, None, [1, 0], None, None),
        ("net", "correct", "greedy", "a", 1, 0.5, None, [0, 1], None, None),
        ("net", "correct", "trace", "a", 0, None, 1.0, None, [3, 1], None),
        ("net", "correct", "trace", "b", 0, None, 0.5, None, [3, 1], None),
        ("net", "correct", "trace", "c", 0, None, None, None, None, "there is no file"),
    ]
    assert json.loads(lines[0]["settings"]) == {"k": 8}


def test_without_pyarrow_one_sentence(tmp_path, run, monkeypatch):
    monkeypatch.setattr("whymask.bench.export.optional", lambda name: None)
    with pytest.raises(WhymaskError, match=r"Parquet files need pyarrow: pip install 'whymask\[bench\]'"):
        export([run], tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()
