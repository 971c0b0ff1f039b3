"""benchmarks/words_speed.py on a small model."""

import pytest

from whymask.images.described import described
from whymask.search.joint import DISCS


@pytest.fixture
def script(monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    monkeypatch.syspath_prepend("benchmarks")
    import words_speed

    return words_speed


def test_both_searches_score_as_many_images(script):
    import whymask

    model, scene = whymask.load("tiny-caption"), described("test", 0).pixels
    text = "two red cups left of a white plate"
    found = script.measure(model, scene, "Describe the image.", text, tries=8, batch=8, repeats=1)
    one, words = found[script.ONE], found[script.ALL]
    assert (one["masks"], words["masks"]) == (1, 6)  # without "of" and "a"
    controls = 16  # of a mask, at most
    for row in (one, words):
        assert 0 <= row["forwards"] - (DISCS + 8) <= controls * row["masks"]
        assert row["ms"] == pytest.approx(1000 * row["seconds"] / row["forwards"])
    assert len(script.ANSWER.split()) == 40
