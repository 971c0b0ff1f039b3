"""docs/fills.md is what its records say."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whymask.images.masking import fills_of

ROOT = Path(__file__).parents[1]


@pytest.fixture
def fills(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import fills

    return fills


def test_the_page_is_what_the_records_say(fills):
    assert fills.PAGE.read_text(encoding="utf-8") == fills.page()


def test_rows_are_parsed_as_the_page_writes_them(fills):
    recipe, settings, budget = fills.parsed("discs+swap tries=4 fill=black,blur regions=slico:64/4 budget=90")
    assert (recipe.name, recipe.params, budget) == ("discs+swap", {"tries": 4}, 90)
    assert settings == {"fill": "black,blur", "regions": "slico:64/4"}
    for file in fills.RECORDS.glob("*.gz"):
        for name, _ in fills.read(file):
            fills.parsed(name.removesuffix(" (no race)"))


def test_masks_are_judged_on_the_fills_of_their_row_and_two_more(fills):
    assert fills.own_and_two("smallest") == ["black", "mean", "dark_defocus"]
    assert fills.own_and_two("smallest fill=black,blur,mean") == ["black", "blur", "mean", "dark_defocus", "noise"]
    kept = {"black": 0.5, "mean": 0.4, "dark_defocus": 0.9, "inpaint": np.nan}
    lost = kept | {"dark_defocus": 0.3}
    masks = {str(number): {"full": 0.8, "scores": scores} for number, scores in enumerate((kept, kept, lost, kept))}
    assert fills.halved(masks, fills.own_and_two("smallest")) == "0.75"
    assert fills.halved(masks, ["black", "inpaint"]) == ""  # not known of older masks


def test_the_estimate_of_a_search_is_near_what_photos_took(fills):
    """Of progress bars, for smallest masks on one fill and on several, of plain regions and of nested ones."""
    compared = set()
    for file in fills.RECORDS.glob("*.gz"):
        for (name, null), masks in fills.read(file).items():
            recipe, settings, _ = fills.parsed(name.removesuffix(" (no race)"))
            if null or recipe.name != "smallest" or "keep_answer" in settings:
                continue
            several = len(fills_of(settings.get("fill", "black")))
            n = 256 if "regions" in settings else 64
            took = np.mean([mask["forwards"] for mask in masks.values()])
            assert took / 1.5 <= recipe.estimate(n, several) <= 1.5 * took, name
            compared.add((n, several))
    assert len(compared) >= 6


def test_a_run_writes_records_that_the_tables_read(tmp_path):
    """Two photos of the right class by name, on a model that looks at brightness."""
    from PIL import Image

    for number, name in enumerate(("a", "b", "c", "d")):
        Image.new("RGB", (32, 32), (60 * number, 200, 90)).save(tmp_path / f"{name}.jpg")
    model = tmp_path / "model.py"
    model.write_text(
        "import numpy as np, whymask\n"
        "def load():\n"
        "    def respond(images):\n"
        "        scores = np.full((len(images), 8), 0.05)\n"
        "        red = images[..., 0].mean(axis=(1, 2))\n"
        "        right = 2 * np.clip(np.rint(red / 60), 0, 3).astype(int)\n"
        "        scores[np.arange(len(images)), right] = 0.65\n"
        "        return scores\n"
        "    return whymask.wrap(respond, labels=[str(i) for i in range(8)])\n"
    )
    script, out = [sys.executable, str(ROOT / "benchmarks" / "fills.py")], tmp_path / "out.jsonl"
    rows = ["discs+swap k=2 tries=4 regions=grid:3x3", "smallest fill=several regions=grid:3x3"]
    options = ["--model", f"{model}:load", "--half", "odd", "--count", "2"]
    subprocess.run([*script, "run", str(tmp_path), str(out), *rows, *options], check=True, capture_output=True)
    printed = subprocess.run([*script, "table", str(out)], check=True, capture_output=True, text=True).stdout
    assert f"`{rows[0]}` | 2 |" in printed
    assert f"`{rows[1]}` | 2 |" in printed
    assert "half on all six" in printed


def test_two_versions_of_a_row_are_compared_on_the_same_photos(fills):
    def mask(score):
        return {"forwards": 10, "score": score, "area": 0.1, "scores": dict.fromkeys(fills.FOUR + fills.OTHERS, score)}

    before = {"a": mask(0.2), "b": mask(0.4), "other": mask(0.9)}
    now = {"a": mask(0.5), "b": mask(0.7), "another": mask(0.0)}
    rows = {("trace", False): now, ("only now", False): now, ("trace", True): now}
    head, line, cells = fills.against(rows, {("trace", False): before, ("trace", True): before}).splitlines()
    assert cells.startswith("| `trace` | 2 | 10 | 10 | +0.300 [+0.300, +0.300] | +0.000 [+0.000, +0.000] | +0.300")
    assert len(head.split("|")) == len(line.split("|")) == len(cells.split("|"))


def test_shares_have_intervals(fills):
    masks = {str(number): {"full": 1.0, "scores": {"black": float(number < 30)}} for number in range(40)}
    share, low, high = (float(part.strip("[],")) for part in fills.held(masks, ["black"]).split())
    assert share == 0.75
    assert 0.75 - 3 * np.sqrt(0.75 * 0.25 / 40) < low < 0.75 < high < 0.75 + 3 * np.sqrt(0.75 * 0.25 / 40)
