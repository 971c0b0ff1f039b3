"""benchmarks/targets.py: both kinds of searches on one image, and the table."""

import numpy as np
import pytest
import torch
from benchmarks import targets
from configs.resnet50 import ResNet50
from PIL import Image
from safetensors.torch import save_file

import whymask
from whymask.models.registry import MODELS

LABELS = ["north west", "north east", "south west", "south east"]


def quarters(images):
    shown = images.reshape(len(images), 2, 32, 2, 32, 3).mean(axis=(2, 4, 5)) / 255
    return shown.reshape(len(images), 4)


def test_the_likeliest_classes_together_and_alone(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    explainer = whymask.Explainer(whymask.wrap(quarters, labels=LABELS), k=16, fill="black", regions="grid:8x8")
    row = targets.of_classes(tmp_path / "photo.png", explainer, 2)
    assert (row.image, row.model, row.setting) == ("photo.png", "function", "2 classes, k=16, black")
    order = np.argsort(-quarters(pixels[None])[0])[:2]
    assert row.own == tuple(explainer.explain(pixels, target=int(number)).score for number in order)
    assert row.regions == row.own_regions == (16, 16)
    assert row.forwards <= 2 * max(row.alone) <= 320


def test_the_words_of_a_scene_together_and_alone():
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    model = whymask.load("tiny-caption")
    row = targets.of_words(0, whymask.Explainer(model, k=8, fill="black", regions="grid:4x4", budget=30))
    assert row.setting == "words, k=8, black"
    assert len(row.scores) == len(row.own) == len(row.alone) > 2
    assert row.forwards <= 30


def test_the_table_has_means_over_images_and_answers():
    row = targets.Row("a", "net", "2 classes", 300, (150, 150), (0.5, 0.3), (0.5, 0.2), (8, 8), (8, 8))
    more = targets.Row("b", "net", "2 classes", 300, (150,), (0.1,), (0.2,), (8,), (8,))
    nothing = targets.Row("c", "net", "2 classes", 0, (), (), (), (), ())  # no word that the image supports
    line = targets.table([row, more, nothing]).splitlines()[2]
    shares = [1, 1.5, 0.5]
    kept = f"1.000 | {(1 + 1 + 0.5) / 3:.3f} | {np.percentile(shares, 10):.3f} | {0.9 / 0.9:.3f}"
    assert line == f"| net | 2 classes | 2 | 1.5 | 300 | 150 | 2.00 | {kept} |"


def test_photos_are_spread_over_all():
    assert targets.spread([*range(10)], 5) == [0, 2, 4, 6, 8]
    assert targets.spread([1, 2], 5) == [1, 2]


def test_photos_that_are_done_are_among_more_of_them():
    for files in (range(250), range(251)):
        assert {*targets.spread([*files], 25)} <= {*targets.spread([*files], 50)} <= {*targets.spread([*files], 100)}


@pytest.mark.skipif(not MODELS["efficientnet-lite0"].installed, reason="its labels are not installed: whymask[lite]")
def test_the_resnet_of_the_configurations_is_loaded_by_its_name(tmp_path, monkeypatch):
    weights = {name: tensor.half() for name, tensor in ResNet50().state_dict().items()}
    save_file(weights, tmp_path / "weights.safetensors")
    monkeypatch.setattr(targets, "WEIGHTS", tmp_path / "weights.safetensors")
    model = targets.loaded("resnet50", "cpu")
    torch.testing.assert_close(model.module.fc.weight, weights["fc.weight"].float())
    bound = model.bind(np.full((8, 8, 3), 100, dtype=np.uint8), target="tabby")
    assert 0 < model.respond(bound.inputs[None], [bound]).score[0] < 1
