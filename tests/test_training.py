"""The training of the model that describes scenes, with a few scenes, for a moment."""

import json

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from training import tiny_caption as training

from whymask.images.described import NOUNS, SIZE, described, plan
from whymask.images.sentences import LONGEST, QUESTION, sentence
from whymask.models.qwen2_5_vl import load

SMALL = ["--device", "cpu", "--seconds", "0.5", "--every", "60", "--scenes", "40", "--images", "4", "--workers", "2",
         "--batch", "4", "--width", "48", "--depth", "2"]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What was trained, and where it lies."""
    out = tmp_path_factory.mktemp("training") / "tiny-caption"
    made = training.Training(training.options([*SMALL, "--out", str(out)]))
    made.run()
    return made, out


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_checkpoint_is_what_was_tested(run):
    """The shipped code says the same of a scene as the training's own, which scored it."""
    made, out = run
    report = json.loads((out / "training.json").read_text())
    assert report["test"]["scenes"] == 4
    assert report["scenes_seen"] >= 4
    again = load(str(out), compile=False)
    assert sum(w.numel() for w in again.module.parameters()) == report["parameters"]
    tables = dict(made.module.named_buffers())  # of rotations: in fp32 although the weights are saved in fp16
    assert tables
    for name, table in again.module.named_buffers():
        np.testing.assert_array_equal(table, tables[name])
    saved = training.Describer(again, "cpu")
    scenes = [described("test", number) for number in range(4)]
    pixels = torch.from_numpy(np.stack([scene.pixels for scene in scenes]))
    said = saved.describe(pixels)
    assert said == [again.answer(scene.pixels, QUESTION, tokens=LONGEST - 1) for scene in scenes]
    assert training.score(said, made.plans) == report["test"]


def test_drawn_scenes_are_those_of_their_numbers(run):
    made, _ = run
    assert made.here == 40
    for number in (0, 17, 39):
        scene = described("train", number)
        np.testing.assert_array_equal(made.pixels[number], scene.pixels)
        text = made.describer.words.decode(made.texts[number], skip_special_tokens=True)
        assert text == sentence(scene.plan)
        np.testing.assert_array_equal(made.looks[number], training.looks(scene.labels, scene.plan))


def test_a_mirrored_scene_has_a_mirrored_sentence(run):
    describer = run[0].describer
    ids = describer.ids(["a red cup left of two blue stars"])
    said = describer.words.decode(describer.mirror[ids][0], skip_special_tokens=True)
    assert said == "a red cup right of two blue stars"
    np.testing.assert_array_equal(describer.mirror[describer.mirror], np.arange(len(describer.words)))


def test_what_tokens_show():
    scene = described("train", 0)
    shown = training.looks(scene.labels, scene.plan).reshape(training.CELLS, training.CELLS, -1)
    group = scene.plan.groups[0]
    rows, columns = np.nonzero(scene.mask((0,)))
    assert shown[rows // training.PATCH, columns // training.PATCH, NOUNS.index(group.noun)].any()
    assert not shown[..., [NOUNS.index(n) for n in NOUNS if n not in {g.noun for g in scene.plan.groups}]].any()
    assert training.CELLS * training.PATCH == SIZE


def test_sentences_are_scored_by_kind():
    plans = [plan("test", number) for number in range(20)]
    true = [sentence(p) for p in plans]
    found = training.score(true, plans)
    assert found["sentences_right"] == 20
    assert all(found[kind]["accuracy"] == 1 for kind in ("noun", "colour", "count", "relation"))
    found = training.score(["nothing", *true[1:]], plans)
    assert (found["sentences_right"], found["malformed"]) == (19, 1)
