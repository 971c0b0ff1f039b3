"""docs/families.md says what the records say."""

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from scripts.families import HALF, PAGE, RECORDS, TOLERANCE, cell, page


def test_the_page_is_what_the_records_say():
    assert PAGE.read_text() == page()


def test_working_families_agree_with_their_own_code():
    for file in sorted(Path(RECORDS).glob("*.json")):
        for name, found in json.loads(file.read_text())["families"].items():
            if found["works"]:
                assert max(found["difference"], found["between_batches"]) <= TOLERANCE, name
                assert found["spread"] > 0, name  # the answer depends on the image
            else:
                assert found["reason"], name


def test_bf16_differs_by_its_rounding_only():
    runs = [json.loads(file.read_text())["families"] for file in sorted(Path(RECORDS).glob("*.json"))]
    half = [found["bf16"] for run in runs for found in run.values() if isinstance(found.get("bf16"), float)]
    assert sum(difference <= HALF for difference in half) >= 10
    assert sum(difference <= HALF for difference in half) >= 0.9 * len(half)


def test_cells():
    plain = {"works": True, "composition": "exact", "answers": "one forward", "batches": "together"}
    assert cell(plain) == "exact"
    assert cell(plain | {"composition": "masked pixels", "batches": "one by one"}) == "pixels; one image a forward"
    assert cell({"works": False, "reason": "it has no vision tower"}) == "no: it has no vision tower"
    assert cell(None) == ""
