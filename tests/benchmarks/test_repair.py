import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks" / "repair.py"


def test_goes_on_where_it_was(tmp_path):
    """A line per row and case; a second run adds only what is missing."""
    options = ["--models", "tiny-llava", "--images", "12", "--curves", "0", "--overlaps", "0", "--out", str(tmp_path)]

    def run(*more):
        subprocess.run([sys.executable, str(SCRIPT), *options, *more], check=True, capture_output=True)
        return [json.loads(line) for line in (tmp_path / "repair.jsonl").read_text().splitlines()]

    first = run("--count", "1")
    rows = [record["row"] for record in first]
    assert len(rows) == len(set(rows)) == 1 + 8  # what was asked, direct rows with controls
    both = run("--count", "2")
    assert both[: len(first)] == first
    assert len(both) == len(first) + 8
    table = (tmp_path / "repair.md").read_text()
    assert table.index("Controls that repair as well") < table.index("| TRACE Direct | 2 |")
