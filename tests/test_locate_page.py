"""The code of docs/locate.md runs, and its tables agree with the package."""

import re
import shutil
from pathlib import Path

import pytest
from skimage.data import data_dir
from typer.testing import CliRunner

from whymask.cli import app
from whymask.models.own import TASKS
from whymask.models.registry import FAMILIES

PAGE = (Path(__file__).parents[1] / "docs" / "locate.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=list(TASKS))
def test_example(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(f"{data_dir}/rocket.jpg", "photo.jpg")
    exec(example, {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "regions" in printed


def test_every_task_has_an_example():
    assert [re.findall(r'task="(\w+)"', example) for example in EXAMPLES] == [[task] for task in TASKS]


def test_commands_have_options_that_exist():
    shown = CliRunner().invoke(app, ["explain", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for option in set(re.findall(r"(?<!-)--[a-z][a-z-]*", PAGE)):
        assert option in shown


def test_ids_match_their_families():
    families = [family.name for family in FAMILIES.values()]
    assert {"NAME/OF-DETECTOR", "NAME/OF-OPEN-DETECTOR", "NAME/OF-SEGMENTER", "yolo:FILE.onnx"} <= set(families)
