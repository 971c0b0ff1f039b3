"""What a model must offer, and what it may."""

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.explainer.answers import in_words
from whymask.explainer.case import Case
from whymask.methods import Recipe
from whymask.models.base import Answers, Generates, Target, named

from models.talker import Talker
from models.tiny import lit, quadrants


class Minimal:
    """A model that implements nothing but the protocol."""

    name, deterministic, batch_size, default_k, fingerprint = "minimal", True, 4, 2, "minimal 1"

    def __init__(self):
        self.inner, self.settings = quadrants(), {}

    def bind(self, image, *, target=None, question=None, resize="own", fill="black"):
        return self.inner.bind(image, target=target, resize=resize, fill=fill)

    def respond(self, inputs, bounds):
        return self.inner.respond(inputs, bounds)


def test_the_protocol_is_enough():
    model = Minimal()
    assert not isinstance(model, Answers | Generates)
    found = whymask.explain(lit(2), model, regions="grid:4x4", method="greedy")
    assert set(found.order[:4]) == {8, 9, 12, 13}
    assert found.image.prediction is None
    assert whymask.replay(found, model).forwards == 32
    with pytest.raises(WhymaskError, match="minimal does not provide them"):
        Case.of(lit(2), model, regions="grid:4x4").search(Recipe("gradient"))
    with pytest.raises(WhymaskError, match="minimal reports scores but not its answers"):
        in_words(model, [2], lambda rows: None, [])


def test_what_a_model_offers_besides():
    assert named(quadrants(), 3) == "bottom right"
    assert named(quadrants(), None) is None
    assert named(Minimal(), 3) is None
    assert isinstance(Talker(), Answers)
    assert isinstance(Talker(), Generates)
    assert not isinstance(quadrants(), Generates)


def test_targets_by_number_and_by_name():
    assert Target(2, "dog").name == 2
    assert Target(2, "dog").numbered
    free = Target.named("a launch")
    assert free.name == "a launch"
    assert not free.numbered
    assert not free.is_score
    assert whymask.wrap(lambda images: np.full(len(images), 0.5)).bind(lit(0)).target.is_score
