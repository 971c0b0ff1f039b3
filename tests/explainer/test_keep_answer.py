"""keep="answer": the fewest regions with which the model still gives its answer."""

import re
from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError
from whymask.results.verdict import Controls, Kept, judge

from models.tiny import quadrants

SIDE, CELL = 48, 8
LABELS = ["cup", "pen", "hat", "key"]
GRID = {"regions": "grid:6x6", "k": "auto"}


def noise(seed=0):
    return np.random.default_rng(seed).integers(20, 236, (SIDE, SIDE, 3)).astype(np.uint8)


def block(row, col, high=2, wide=2):
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[row * CELL : (row + high) * CELL, col * CELL : (col + wide) * CELL] = True
    return inside


def votes(picture, first, second=None, floor=0.0):
    """Sees a cup in the first place, a pen in the second, or a key: more than half of a place must be seen."""

    def respond(images):
        same = (images == picture).all(axis=3)
        cup = same[:, first].mean(axis=1)
        pen = 0 * cup if second is None else same[:, second].mean(axis=1)
        key = floor + 0.95 * (1 - np.maximum(cup, pen))
        scores = np.stack([0.05 + 0.9 * cup, 0.02 + 0.8 * pen, 0 * cup, key], axis=1)
        return scores / scores.sum(axis=1, keepdims=True)

    return whymask.wrap(respond, labels=LABELS)


def test_the_answer_takes_fewer_regions_than_the_score():
    picture = noise()
    model = votes(picture, block(0, 0, 3, 3))
    share = whymask.explain(picture, model, keep=0.9, **GRID)
    found = whymask.explain(picture, model, keep="answer", **GRID)
    assert (len(found.regions), len(share.regions)) == (5, 9)
    assert found.controls.kept.alone
    assert found.sufficient
    assert found.goal is None
    assert found.provenance["keep"] == "answer"
    assert "keep" not in share.provenance
    assert found.score == pytest.approx(model_score(model, picture, found))  # a probability, not what the search saw
    assert min(found.frontier) == 5
    assert found.frontier[5] == pytest.approx(found.score)


def model_score(model, picture, found):
    kept = np.where(found.mask[..., None], picture, 0).astype(np.uint8)
    ((score,),), _ = whymask.Explainer(model, **GRID).case(kept, target=found.target.index).ask(np.ones((1, 36), bool))
    return score


def test_the_verdict_is_about_the_answer():
    picture = noise()
    found = whymask.explain(picture, votes(picture, block(0, 0, 3, 3)), keep="answer", **GRID)
    assert found.verdict.code == "enough"
    assert found.verdict.sentence.startswith("These regions are enough: shown only these, the model still says 'cup'")
    assert str(found).startswith(found.verdict.sentence)
    assert found.as_dict()["controls"]["kept"]["alone"] is True
    assert found.judge().code == "enough"


@pytest.mark.parametrize(
    ("kept", "code", "says"),
    [
        (Kept(True, True, True, True, True), "blank_suffices", "of a blank image too"),
        (Kept(True, True, False, False, True), "shape_only", "with shuffled pixels inside the same outline the model"),
        (Kept(False, True, False, False, False), "not_enough", "the model no longer says 'cup'"),
        (Kept(True, True, False, False, False, {"noise": False}), "one_fill", "with noise in its place the model no"),
        (Kept(True, True, False, False, False, {"noise": True}), "redundant", "so is the rest of the image"),
        (Kept(True, False, False, False, False, {"blur": True}), "enough", "still says 'cup', also with a blur in"),
        (Kept(True, False, False, False, False, {}, {"pen": True}), "not_above_chance", "for 1 of 1 other answer"),
        (Kept(True, False, False, False, False, {}, {"pen": False}), "enough", "still says 'cup'."),
    ],
)
def test_each_verdict(kept, code, says):
    controls = Controls(0.5, 0.5, dict.fromkeys(kept.fills, 0.5), kept=kept)
    for score in (0.01, 0.99):  # scores do not matter
        found = judge(full=0.9, score=score, removed=score, blank=score, controls=controls, fill="black", answer="cup")
        assert found.code == code
        assert says in found.sentence


def test_a_model_that_says_the_same_of_a_blank_image():
    picture = noise()
    found = whymask.explain(picture, votes(picture, block(0, 0), floor=9), keep="answer", **GRID)
    assert found.target.label == "key"
    assert found.verdict.code == "blank_suffices"


def test_on_several_fills_the_answer_is_kept_on_all():
    picture = noise()

    def respond(images):
        """The first object is a cup on black; on other grounds only the second one is."""
        same = (images == picture).all(axis=3)
        dark = (images == 0).all(axis=3).any(axis=(1, 2))
        cup = np.where(dark, same[:, block(0, 0)].all(axis=1), same[:, block(4, 4)].all(axis=1))
        return np.stack([cup, 1 - cup, 0 * cup, 0 * cup], axis=1) * 0.6 + 0.1

    model = whymask.wrap(respond, labels=LABELS)
    first = whymask.explain(picture, model, keep="answer", fill="black", **GRID)
    assert first.controls.kept.alone
    assert first.verdict.code == "one_fill"
    several = whymask.explain(picture, model, keep="answer", fill="several", **GRID)
    assert several.controls.kept.alone
    assert (several.mask >= (block(0, 0) | block(4, 4))).all()
    assert several.verdict.code == "enough"


def test_other_answers_are_searched_in_the_same_way():
    picture = noise()
    model = votes(picture, block(0, 0), block(4, 4))
    found = whymask.explain(picture, model, keep="answer", null=["pen", "hat"], **GRID)
    assert found.controls.kept.null == {"hat": False, "pen": True}  # nothing shows a hat
    assert found.verdict.code == "not_above_chance"


def test_files_keep_it(tmp_path):
    picture = noise()
    found = whymask.explain(picture, votes(picture, block(0, 0)), keep="answer", null=["pen"], **GRID)
    again = whymask.EvidenceMask.load(found.save(tmp_path / "x"))
    assert again.controls == found.controls
    assert again.verdict == found.verdict
    assert str(again) == str(found)


def test_other_searches_prefer_sets_that_keep_the_answer():
    """The two regions of highest score give another answer."""
    picture = noise()

    def respond(images):
        same = (images == picture).all(axis=3)
        high, low = same[:, block(0, 0, 1, 2)].mean(axis=1), same[:, block(5, 4, 1, 2)].mean(axis=1)
        cup, pen = 0.45 * high + 0.2 * low, 0.5 * high
        return np.stack([cup, pen, 0.01 + 0 * cup, 1 - cup - pen - 0.01], axis=1) * [[1, 1, 1, 0.15]]

    model = whymask.wrap(respond, labels=LABELS)
    settings = {"regions": "grid:6x6", "k": 2, "params": {"tries": 400}, "target": "cup"}
    assert whymask.explain(picture, model, **settings).controls.kept is None
    found = whymask.explain(picture, model, keep="answer", **settings)
    assert found.controls.kept.alone


def test_a_repair_keeps_as_little_as_the_wanted_answer_takes():
    picture = noise()
    model = votes(picture, block(0, 0), block(4, 4))
    found = whymask.repair(picture, model, want="pen", method="smallest", keep="answer", regions="grid:6x6")
    assert found.repaired
    assert len(found.regions) < 4
    assert found.verdict.code == "enough"


def test_a_word_of_a_multimodal_model_may_have_several_forms():
    model = whymask.load("tiny-qwen")
    found = whymask.explain(
        "scene:3", model, question="Is there a ball in the image?", target="Yes", keep="answer", k="auto"
    )
    assert found.controls.kept.alone in (True, False)
    assert found.sufficient is found.controls.kept.alone


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": "answers"}, "keep is a share of the score, such as 0.9, or 'answer'"),
        ({"keep": 0.8, "k": 4}, "keep is for k='auto'"),
        ({"keep": 1.5, "k": "auto"}, "keep must be in (0, 1], a share of the score, not 1.5"),
        ({"keep": 0.0, "method": "smallest"}, "keep must be in (0, 1], a share of the score, not 0.0"),
        ({"keep": "answer", "method": "trace+greedy"}, "keep='answer' is for searches for a mask"),
        ({"keep": "answer", "method": "grad-cam"}, "keep='answer' is for searches for a mask"),
    ],
)
def test_what_does_not_fit_is_an_error_before_a_model_is_loaded(settings, message):
    with pytest.raises(WhymaskError, match=re.escape(message)):
        whymask.Settings(**settings)


def test_models_that_do_not_report_their_answers():
    model = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)
    with pytest.raises(WhymaskError, match="a function that returns one number has no answers"):
        whymask.explain(noise(), model, keep="answer", **GRID)
    silent = quadrants(size=48)
    respond = silent.respond
    silent.respond = lambda inputs, bounds: replace(respond(inputs, bounds), top=None)
    with pytest.raises(WhymaskError, match="reports scores but not its answers"):
        whymask.explain(noise(), silent, target=0, keep="answer", **GRID)


def test_a_text_has_no_single_first_choice():
    with pytest.raises(WhymaskError, match="for classes and words of one token, not 'No No'"):
        whymask.explain("scene:3", "tiny-qwen", question="Is there a ball?", target="No No", keep="answer", k="auto")
