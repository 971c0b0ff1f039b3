"""Every command and every example in the README runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask.models import MODELS
from whymask.models.efficientnet_lite import SIZES

from cli.command import whymask_command
from models.tiny import quadrants

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for kind, text in BLOCKS if kind == "sh" for line in text.strip().splitlines()]
EXAMPLES = [text for kind, text in BLOCKS if kind == "python"]

pytestmark = pytest.mark.skipif(
    not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]"
)


@pytest.fixture
def photo(tmp_path, monkeypatch):
    """Files that the README names; the default model has a small input, since forwards are most of the time."""
    monkeypatch.setitem(SIZES, "efficientnet-lite0", 64)
    monkeypatch.chdir(tmp_path)
    Image.open(f"{data_dir}/camera.png").convert("RGB").save("photo.jpg")
    (tmp_path / "photos").mkdir()
    shutil.copy("photo.jpg", "photos/another.jpg")
    (tmp_path / "whymask-out").mkdir()
    whymask.explain("photo.jpg", quadrants(), k=4).save("photo.npz")
    shutil.copy("photo.npz", "whymask-out")


def test_make_commands():
    assert COMMANDS[:2] == ["make demo", "make test"]
    ci = (ROOT / ".ci" / "run").read_text()
    assert "\nmake test\n" in ci
    with_venv = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    dry = subprocess.run(["make", "-n", "demo"], cwd=ROOT, env=with_venv, capture_output=True, text=True, check=True)
    assert "whymask explain" in dry.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS[2:] if command != "whymask serve"])
@pytest.mark.usefixtures("photo")
def test_command(command):
    program, *words = shlex.split(command)
    assert program == "whymask"
    answer = whymask_command(*words)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


@pytest.mark.usefixtures("photo")
def test_serve():
    assert "whymask serve" in COMMANDS
    words = [sys.executable, "-m", "whymask", "serve", "--port", "0"]  # its usual port may be taken
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("Serving http://127.0.0.1:")
        process.terminate()


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.usefixtures("photo")
def test_example(example, capsys):
    exec(example, {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"(?:\]\(|src=\")([^)#\"]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
