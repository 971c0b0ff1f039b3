"""docs/paper.md: its commands exist, with these options, and lead to configurations that exist."""

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from whymask.bench.ablations import ABLATIONS
from whymask.bench.config import read_config
from whymask.cli import app

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text()
COMMANDS = re.findall(r"(?:^|`)(whymask .+?)(?:`|$)", PAGE, re.MULTILINE)


def configuration(run):
    """Of a run, or of the one that an ablation is made from."""
    name = re.sub(f"-({'|'.join(ABLATIONS)})$", "", run.removeprefix("runs/"))
    return read_config(ROOT / "configs" / "paper" / f"{name}.toml")


@pytest.mark.parametrize("words", [shlex.split(one)[1:] for one in COMMANDS], ids=" ".join)
def test_command(words):
    command = get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    given = command.make_context(command.name, list(words)).params  # raises an error for an unknown option
    runs = [configuration(str(run)) for run in given.get("runs") or ()]
    for name in given.get("methods") or ():
        assert all(name in {method.name for method in run.methods} for run in runs)
    if "config" in given:
        assert (ROOT / given["config"]).is_file()
    if command.name == "ablate":
        assert given["name"] in ABLATIONS


def test_every_configuration_and_ablation_is_named():
    assert {f"whymask bench run configs/paper/{file.name}" for file in (ROOT / "configs/paper").glob("*.toml")} <= {
        *COMMANDS
    }
    assert {one.split()[3] for one in COMMANDS if " ablate " in one} == set(ABLATIONS)
