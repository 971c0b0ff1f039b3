"""The code of docs/multimodal.md runs."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from skimage.data import data_dir

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import torch
import transformers

import whymask
from whymask.explainer.case import Case
from whymask.models import FAMILIES

from models.families import FAMILIES as TINY
from models.families import load_processor

PAGE = (Path(__file__).parents[1] / "docs" / "multimodal.md").read_text()
WRAPPED, SEVERAL, FAST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("model_type", ["qwen3_vl"])
def test_a_wrapped_model(tmp_path, monkeypatch, capsys, model_type):
    folder = TINY[model_type].save(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    shutil.copy(f"{data_dir}/rocket.jpg", "photo.jpg")
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    space = {"module": module, "processor": load_processor(folder)}
    exec(WRAPPED, space)
    assert capsys.readouterr().out.splitlines()[-1] == "exact one forward together"
    exec(SEVERAL, space)
    assert capsys.readouterr().out.count("[0, ") == 2


def test_the_fast_path_of_the_page_agrees_with_the_generic_one(tmp_path, monkeypatch):
    folder = str(TINY["vipllava"].save(tmp_path))
    monkeypatch.setattr(FAMILIES, "_things", dict(FAMILIES._things))
    space = {}
    exec(FAST, space)
    fast, generic = whymask.load(folder), whymask.load(folder, fast=False)
    assert type(fast) is space["VipLlava"]
    rows = np.random.default_rng(0).random((6, 16)) < 0.5
    scores = []
    for model in (fast, generic):
        case = Case.of(f"{data_dir}/rocket.jpg", model, target="Yes", question="Is there a dog ?", regions="grid:4x4")
        scores.append(model.respond(case.inputs(rows), [case.bound] * 6).score)
    np.testing.assert_allclose(*scores, atol=1e-5)
