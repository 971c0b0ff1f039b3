"""Every command and example of the documentation runs; what needs a checkpoint from a hub is at least parsed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask.cli import app
from whymask.methods import Recipe, methods
from whymask.models import MODELS
from whymask.models.efficientnet_lite import SIZES

from cli.command import whymask_command
from models.tiny import quadrants

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```([\w-]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
RUN_HERE = {"README.md", "first.md", "methods.md", "reading.md"}  # pages whose Python runs in this file
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(page, kind):
    return [text for found, text in BLOCK.findall(page.read_text()) if found == kind]


def commands():
    """Every line of a shell block, once."""
    lines = [line for page in PAGES for text in blocks(page, "sh") for line in text.strip().splitlines()]
    return sorted({line.split(" #")[0].strip() for line in lines})


COMMANDS = commands()
# In tables too, what is asked of a photo is a command.
QUESTIONS = re.findall(r"\| `(whymask explain [^`]*)` \| `([^`]*)` \|", (ROOT / "docs/first.md").read_text())
EXAMPLES = [(page.name, text) for page in PAGES if page.name in RUN_HERE for text in blocks(page, "python")]


ASKED = ("method", "parameters", "regions", "fill", "model")  # in the provenance


def runs_here(command):
    """Whether everything that a command of whymask names is here."""
    elsewhere = re.search(r" \S+/\S+| \S+\.onnx| words\.npz| bench | serve", command.replace("{data_dir}", ""))
    return command.startswith("whymask") and not elsewhere


needs_weights = pytest.mark.skipif(
    not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]"
)


@pytest.fixture
def photo(tmp_path, monkeypatch):
    """The files that the pages name; the default model has a small input, since forwards are most of the time."""
    monkeypatch.setitem(SIZES, "efficientnet-lite0", 64)
    monkeypatch.chdir(tmp_path)
    Image.open(f"{data_dir}/camera.png").convert("RGB").save("photo.jpg")
    (tmp_path / "photos").mkdir()
    shutil.copy("photo.jpg", "photos/another.jpg")
    (tmp_path / "whymask-out").mkdir()
    whymask.explain("photo.jpg", quadrants(), k=4).save("photo.npz")
    shutil.copy("photo.npz", "whymask-out")


@needs_weights
@pytest.mark.parametrize("command", [command for command in COMMANDS if runs_here(command)])
@pytest.mark.usefixtures("photo")
def test_command(command):
    if "tiny-" in command:
        pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    answer = whymask_command(*shlex.split(command)[1:])
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout


@pytest.mark.parametrize("command", [command for command in COMMANDS if not runs_here(command)])
def test_other_command(command):
    """Commands that need a checkpoint, a GPU or an hour name what exists."""
    program, *words = shlex.split(command)
    if program == "whymask":
        parse(words)
    elif program == "make":
        assert set(words) <= TARGETS
    elif program == "pip":
        (wanted,) = words[1:]
        name, extras = re.fullmatch(r"(whymask)\[([\w,]+)\]", wanted).groups()
        assert set(extras.split(",")) <= extras_of(name)
    else:
        assert program == "python"
        script = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
        assert (ROOT / script).is_file()


def extras_of(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == name
    return set(project["optional-dependencies"])


def parse(words):
    """Parse a command line without running it."""
    command = typer.main.get_command(app)
    context = command.make_context("whymask", list(words))
    while hasattr(command, "commands"):
        rest = [*getattr(context, "_protected_args", []), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_make_commands():
    assert blocks(ROOT / "README.md", "sh")[0].split("#")[0].split() == ["make", "demo"]
    ci = (ROOT / ".ci" / "run").read_text()
    assert "\nmake test\n" in ci
    with_venv = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    dry = subprocess.run(["make", "-n", "demo"], cwd=ROOT, env=with_venv, capture_output=True, text=True, check=True)
    assert "whymask explain" in dry.stdout


@needs_weights
@pytest.mark.usefixtures("photo")
def test_serve():
    assert "whymask serve" in COMMANDS
    words = [sys.executable, "-m", "whymask", "serve", "--port", "0"]  # its usual port may be taken
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("Serving http://127.0.0.1:")
        process.terminate()


@needs_weights
@pytest.mark.parametrize("page", sorted({page for page, _ in EXAMPLES}))
@pytest.mark.usefixtures("photo")
def test_examples(page, capsys):
    """The blocks of a page follow each other."""
    space = {}
    for name, example in EXAMPLES:
        if name == page:
            if "tiny-" in example:
                pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
            exec(example, space)
            assert capsys.readouterr().out


@needs_weights
@pytest.mark.parametrize(("command", "call"), QUESTIONS, ids=[command for command, _ in QUESTIONS])
@pytest.mark.usefixtures("photo")
def test_questions(command, call):
    """The command and the Python call in a row of the table ask for the same."""
    answer = whymask_command(*shlex.split(command)[1:], "--json", "--budget", "60")
    assert answer.returncode == 0, answer.stderr
    found = eval(call[:-1] + ", budget=60)", {"explain": whymask.explain, "photo": "photo.jpg"})
    printed, returned = json.loads(answer.stdout)["provenance"], found.as_dict()["provenance"]
    assert {key: printed[key] for key in ASKED} == {key: returned[key] for key in ASKED}


def test_every_page_with_code_is_run_by_a_test():
    tests = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    for page in PAGES:
        if page.name not in RUN_HERE and any(kind == "python" for kind, _ in BLOCK.findall(page.read_text())):
            assert any(f'"{page.name}"' in text or f"docs/{page.name}" in text for text in tests.values()), page.name


METHODS_PAGE = (ROOT / "docs" / "methods.md").read_text()
COSTS = re.findall(r"`([a-z0-9+-]+)`(?:\*\*)? \(([\d,]+)\)", METHODS_PAGE)
COSTS += re.findall(r"`([a-z0-9+-]+)`, (\d,\d{3})\b", METHODS_PAGE)
COSTS += re.findall(r"^\| `([a-z0-9+-]+)` \| ([\d,]+) \|", METHODS_PAGE, re.MULTILINE)


@pytest.mark.parametrize(("name", "forwards"), COSTS)
def test_methods_cost_what_their_page_says(name, forwards):
    assert Recipe(name).estimate(64) == int(forwards.replace(",", ""))


def test_the_page_of_methods_lists_all():
    costs = {name for name, _ in COSTS}
    single = {method.name for method in methods() if "+" not in method.name}
    assert single <= costs
    assert {"discs+swap", "discs+swap+lean", "trace+greedy", "copair+phasewin"} <= costs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"(?:\]\(|src=\")([^)#\"]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target
