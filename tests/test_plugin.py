"""A package that is installed beside whymask (tests/plugin) and has entry points: nothing in whymask knows of it."""

import configparser
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

PLUGIN = Path(__file__).parent / "plugin"
CONFIG = """
models = ["corner:top-left", {id = "corner:bottom-right", options = {gain = 0.5}}]
methods = ["singles", {method = "singles+greedy", params = {k = 2}}]
regions = "grid:4x4"
swatches = {count = 3}
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with an image whose top left corner is bright, where new processes find the package."""
    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    pixels[:8, :8] = 255
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    paths = [str(PLUGIN), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def whymask(*arguments):
    """What a command prints."""
    command = [sys.executable, "-m", "whymask", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_page_about_extensions_shows_this_package():
    page = (PLUGIN.parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
    code = (PLUGIN / "whymask_example" / "__init__.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 4
    for block in blocks:
        assert block in code
    declared = tomllib.loads(re.search(r"```toml\n(.*?)```", page, re.S)[1])["project"]["entry-points"]
    points = configparser.ConfigParser()
    points.read(PLUGIN / "whymask_example-0.1.dist-info" / "entry_points.txt")
    assert declared == {group: dict(points[group]) for group in points.sections()}


def test_in_python(place):
    code = """
import whymask
found = whymask.explain("photo.png", "corner:top-left", method="singles+swap", k=4, regions="grid:4x4")
assert sorted(found.regions) == [0, 1, 4, 5], found
assert found.provenance["method"] == "singles+swap"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_on_the_command_line(place):
    assert "the k regions that score best alone" in whymask("methods", "singles")
    assert "corner:NAME" in whymask("models")
    given = ["--model", "corner:top-left", "--model-option", "gain=0.5", "--regions", "grid:4x4", "--k", "4"]
    found = json.loads(whymask("explain", "photo.png", "--method", "singles", *given, "--json"))
    assert (sorted(found["regions"]), found["score"]) == ([0, 1, 4, 5], 0.5)


def test_in_a_benchmark(place):
    (place / "mine.toml").write_text(CONFIG)
    assert "12 of 12 results are there" in whymask("bench", "run", "mine.toml", "--quiet")
    table = whymask("bench", "table", "runs/mine")
    for text in ("corner:top-left, swatches, 3 samples", "| singles |", "| singles+greedy |"):
        assert text in table


def test_on_the_page(place):
    httpx = pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
    pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
    command = [sys.executable, "-m", "whymask", "serve", "--model", "corner:top-left", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[1]
            with httpx.Client(base_url=address, headers={"origin": address}) as page:
                assert "singles+swap" in page.get("/api/options").text
                wanted = {"method": "singles", "k": 4, "regions": "grid:4x4"}
                job = page.post("/api/jobs", params=wanted, content=(place / "photo.png").read_bytes()).json()
                while (state := page.get(f"/api/jobs/{job['id']}").json())["state"] in ("queued", "running"):
                    time.sleep(0.05)
                assert state["state"] == "done", state
                (result,) = page.get(f"/api/results/{job['id']}").json()["explanations"]
                assert sorted(result["regions"]) == [0, 1, 4, 5]
        finally:
            server.terminate()
