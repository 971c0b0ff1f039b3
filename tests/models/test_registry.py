import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.models import FAMILIES, MODELS, find
from whymask.models.packages import optional

from models.tiny import Quadrants, lit


def test_wrap_a_module():
    model = whymask.wrap(Quadrants(), size=32, mean=(0, 0, 0), std=(255, 255, 255), crop=1.0)
    assert model.labels == ["0", "1", "2", "3"]
    assert model.bind(lit(3)).target.index == 3
    named = whymask.wrap(Quadrants(), size=32, labels=["a", "b", "c", "d"])
    assert named.bind(lit(0), target="c").target.index == 2
    changed = Quadrants()
    with torch.no_grad():
        changed.sharpness.add_(1)
    assert whymask.wrap(changed, size=32).fingerprint != named.fingerprint
    assert whymask.wrap(Quadrants(), size=32).fingerprint == named.fingerprint


def test_wrap_a_function():
    assert whymask.wrap(lambda images: np.full(len(images), 0.5)).bind(lit(0)).target.label == "the score"


def test_wrap_refuses():
    with pytest.raises(WhymaskError, match="not int"):
        whymask.wrap(3)
    with pytest.raises(WhymaskError, match="4 classes, but labels has 1"):
        whymask.wrap(Quadrants(), size=32, labels=["a"])
    with pytest.raises(WhymaskError, match="must return"):
        whymask.wrap(torch.nn.Identity(), size=32)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("efficientnet-light0", "did you mean 'efficientnet-lite0'"),
        ("no such thing", "known: "),
        ("timm", "unknown model"),
    ],
)
def test_unknown_names(name, words):
    with pytest.raises(WhymaskError, match=words):
        whymask.load(name)


@pytest.mark.parametrize("name", ["torchvision:resnet18", "timm:resnet18"])
def test_packages_that_are_not_here(name):
    if optional(name.split(":")[0]) is not None:
        pytest.skip(f"{name} can be loaded here")
    with pytest.raises(WhymaskError, match="cannot be imported here"):
        whymask.load(name)


def test_an_option_the_family_does_not_have():
    with pytest.raises(WhymaskError, match="colour"):
        whymask.load("efficientnet-lite0", colour="red")


def test_an_error_about_options_shows_no_secret():
    with pytest.raises(WhymaskError, match=r"^http://host/score: .*no_such_option") as caught:
        whymask.load("http://ann:hunter2@host/score?key=sk-123456", no_such_option=1)
    assert "hunter2" not in str(caught.value)
    assert "sk-123456" not in str(caught.value)


def test_entries_say_what_they_need():
    for entry in [*MODELS.values(), *FAMILIES.values()]:
        assert entry.summary
        assert entry.needs or entry.name == "FILE.py:FUNCTION"
        assert isinstance(entry.installed, bool)


@pytest.mark.parametrize(
    ("name", "entry", "argument"),
    [
        ("efficientnet-lite1", "efficientnet-lite1", "efficientnet-lite1"),
        ("http://127.0.0.1:9/x.onnx?a", "http://...", "http://127.0.0.1:9/x.onnx?a"),
        ("openai:some/model", "openai:NAME", "some/model"),
        ("timm:resnet18", "timm:NAME", "timm:resnet18"),
        ("clip:RN101/openai", "clip:ARCH/WEIGHTS", "clip:RN101/openai"),
    ],
)
def test_ids_belong_to_entries(name, entry, argument):
    found, given = find(name)
    assert (found.name, given) == (entry, argument)
