import json
import subprocess
import sys

import pytest

import whymask
from whymask.search import METHODS
from whymask.theory import paper_tables


def whymask_command(*arguments):
    return subprocess.run([sys.executable, "-m", "whymask", *arguments], capture_output=True, text=True, check=False)


def test_theory():
    assert json.loads(whymask_command("theory", "--json").stdout) == paper_tables()
    printed = whymask_command("theory").stdout
    for figure in ("27.41%", "87.79%", "91.69%"):
        assert figure in printed


def test_methods():
    listed = json.loads(whymask_command("methods", "--json").stdout)["methods"]
    assert [method["name"] for method in listed] == list(METHODS)
    assert next(m for m in listed if m["name"] == "trace")["parameters"]["k"] == 8
    printed = whymask_command("methods").stdout
    assert all(line.split()[0] in METHODS for line in printed.splitlines())


def test_one_method_with_its_parameters():
    printed = whymask_command("methods", "trace").stdout
    assert "rounds             5" in printed
    assert whymask_command("methods", "trece").stderr == "whymask: unknown method 'trece'; did you mean 'trace'?\n"


def test_version():
    assert whymask_command("--version").stdout.strip() == whymask.__version__


def test_an_unknown_command_is_exit_code_2_without_a_traceback():
    answer = whymask_command("explian")
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("module", ["whymask", "whymask.search", "whymask.cli"])
def test_import_is_light(module):
    heavy = ["torch", "matplotlib", "skimage", "transformers", "sklearn"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
