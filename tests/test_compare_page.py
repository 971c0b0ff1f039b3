"""docs/compare.md: its whymask lines run, and every count in its table is that of the lines shown."""

import re
import shutil
from pathlib import Path

import pytest
from skimage.data import data_dir

PAGE = (Path(__file__).parents[1] / "docs" / "compare.md").read_text()
(SETUP,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TASKS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
TOOLS = ["whymask", "captum", "shap", "lime", "grad-cam"]


def code(task, tool):
    """The lines of a task in a tool; none where it has no call for it."""
    found = re.findall(rf"```{tool}\n(.*?)```", task, re.DOTALL)
    assert len(found) <= 1
    return "".join(found)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.splitlines()[0])
def test_its_lines_run(task, tmp_path, monkeypatch, capsys):
    lines = code(task, "whymask")
    if "to_frame" in lines:
        pytest.importorskip("pandas", reason="pandas is not installed")
    if "tiny-qwen" in lines:
        pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    monkeypatch.chdir(tmp_path)
    shutil.copy(f"{data_dir}/rocket.jpg", "photo.jpg")
    space = {}
    exec(SETUP, space)
    before = set(space)
    exec(lines, space)
    made = [file for file in tmp_path.iterdir() if file.suffix == ".png" and file.stat().st_size]
    assert made or capsys.readouterr().out or set(space) - before


def test_its_table_counts_those_lines():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"]
    titles, _, *rows = rows
    assert titles == ["task", "whymask", "captum", "shap", "lime", "pytorch-grad-cam", "transformers pipelines"]
    assert len(rows) == len(TASKS) == 10
    for (title, *cells), task in zip(rows, TASKS, strict=True):
        assert task.partition("\n")[0].lower() == title.lower()
        counts = [len(code(task, tool).splitlines()) or "—" for tool in TOOLS]
        assert cells == [*map(str, counts), "—"], title


@pytest.mark.parametrize("number", [1, 2, 8, 10])
def test_the_lines_of_captum_run(number, tmp_path, monkeypatch):
    """The other libraries are not needed by whymask; captum is there where its gradient methods are."""
    attr = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    import numpy as np
    import torch
    from captum.metrics import sensitivity_max

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda *_, **__: None)
    space = {"Occlusion": attr.Occlusion, "FeatureAblation": attr.FeatureAblation, "label": 1}
    space |= {"visualize_image_attr": attr.visualization.visualize_image_attr, "sensitivity_max": sensitivity_max}
    exec(SETUP, space)
    photo = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    space |= {"photo": photo, "x": torch.from_numpy(photo).permute(2, 0, 1)[None] / 255}
    space |= {"score": lambda images: images.mean(dim=(1, 2, 3)), "masks": torch.arange(64)[:, None] // 16}
    with torch.no_grad():
        exec(code(TASKS[number - 1], "captum"), space)
