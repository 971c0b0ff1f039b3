import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import whymask
from whymask import Repair, WhymaskError
from whymask.cli import main
from whymask.data.base import Place
from whymask.data.questions import Questions, answer_all
from whymask.explainer.answers import mistake
from whymask.images import scenes
from whymask.models.tiny import CHECKPOINTS

IMAGES = 25


def asked(images):
    return Questions(scenes=images).read(Place(CHECKPOINTS))


@pytest.fixture(scope="module", params=["tiny-qwen", "tiny-llava"])
def answered(request):
    """(model, what training told of it, a sample of the questions it was tested on and its answers)."""
    model, samples = whymask.load(request.param), asked(IMAGES)
    trained = json.loads((CHECKPOINTS / request.param / "training.json").read_text())
    return model, trained, list(zip(samples, answer_all(model, samples), strict=True))


def test_ships_as_plain_tensors_of_a_few_megabytes(answered):
    files = list((CHECKPOINTS / answered[0].name).iterdir())
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".jinja"}
    assert sum(file.stat().st_size for file in files) < 12e6


def test_is_as_good_and_as_bad_as_it_should_be(answered):
    """At least 90% where nothing misleads it, and enough of both mistakes where company does."""
    _, trained, _ = answered
    assert trained["test"]["random"]["accuracy"] >= 0.9
    adversarial = trained["test"]["adversarial"]
    assert adversarial["false_yes"] + adversarial["false_no"] >= 100
    assert min(adversarial["false_yes"], adversarial["false_no"]) > 0


def test_the_accuracy_told_is_the_accuracy_found(answered):
    _, trained, answers = answered
    told = trained["test"]["adversarial"]["accuracy"]
    found = np.mean([answer == sample.target for sample, answer in answers])
    assert abs(found - told) < 3 * math.sqrt(told * (1 - told) / len(answers))


def test_a_hallucination_is_repaired_on_the_command_line(answered, tmp_path, monkeypatch, capsys):
    model, _, answers = answered
    sample, answer = next((sample, answer) for sample, answer in answers if mistake(answer, sample.target))
    number, want = int(sample.image.removeprefix("scene:")), sample.target
    arguments = ["repair", sample.image, "--model", model.name, "--question", sample.question, "--want", want]
    monkeypatch.setattr(sys, "argv", ["whymask", *arguments, "--out", str(tmp_path), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    report = json.loads(capsys.readouterr().out)
    assert report["given"] == answer
    assert report["repaired"] == (report["answer"] == want)
    assert len(report["regions"]) == 10
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"scene-{number}-repair.{s}" for s in ("npz", "png")]
    saved = Repair.load(report["files"]["result"])
    assert saved.provenance["model"] == model.name
    assert saved.image.canvas.shape == (scenes.SIZE, scenes.SIZE, 3)  # the scene as it was drawn
    np.testing.assert_array_equal(saved.image.canvas, scenes.scene("test", number).pixels)


def test_what_the_vocabulary_lacks_is_named():
    model = whymask.load("tiny-qwen")
    with pytest.raises(WhymaskError, match="no token for 'Perhaps' in tiny-qwen"):
        whymask.repair("scene:0", model, question="Is there a cup in the image?", want="Perhaps")
    with pytest.raises(WhymaskError, match="no token for 'dog' in tiny-qwen"):
        whymask.repair("scene:0", model, question="Is there a dog in the image?", want="No")
    with pytest.raises(WhymaskError, match="no token for 'This' in tiny-qwen"):  # as in a longer prompt
        next(answer_all(model, [replace(asked(1)[0], question="This is a cup?")]))


@pytest.mark.parametrize("shown", [True, False])
def test_loading_is_silent_and_leaves_the_bars_as_they_were(capfd, shown):
    from transformers.utils import logging

    (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
    try:
        whymask.load("tiny-llava")
        assert capfd.readouterr().err == ""
        assert logging.is_progress_bar_enabled() is shown
    finally:
        logging.enable_progress_bar()
