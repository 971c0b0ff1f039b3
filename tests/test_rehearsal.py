"""The configurations of the paper run from end to end, on small models with random weights."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

ROOT = Path(__file__).parent.parent


def rehearse(*words):
    given = [sys.executable, "-m", "scripts.paper_rehearsal", *words]
    return subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)


def test_configurations_of_the_paper_run(tmp_path):
    """One multimodal model and one classifier; the others need torchvision, or differ only in size."""
    small = ["--regions", "grid:4x4", "--draw", "1", "--quick", "--folder", str(tmp_path)]
    answer = rehearse("--only", "llava", "clip-vit-l14", *small)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = answer.stdout.splitlines()
    assert [re.sub(r" +", " ", re.sub(r"[\d.]+ s ", "", line)) for line in lines] == [
        "llava ok 22 rows",
        "clip-vit-l14 ok 36 rows",
    ]
    made = {folder.name for folder in (tmp_path / "runs").iterdir()}
    ablations = {f"clip-vit-l14-{name}" for name in ("initialisers", "budget", "k", "overlap")}
    assert made == {"llava", "clip-vit-l14", *ablations}


def test_a_failure_is_reported():
    answer = rehearse("--only", "qwen", "--regions", "none of these")
    assert answer.returncode == 1
    assert re.match(r"qwen +failed +[\d.]+ s  WhymaskError: regions is 'slico:64', ", answer.stdout)
