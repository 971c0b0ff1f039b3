import numpy as np
import pytest

from whymask.baselines.integrated_gradients import contributions, integrated_gradients
from whymask.methods import Recipe

from baselines.plain import every_pixel, linear, planted
from search.functions import problem

pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")


def test_a_linear_model():
    """Along a straight path the gradient of sigmoid(w . x) keeps its direction: shares go by w (x - fill)."""
    model, weights, image = linear()
    (result,) = every_pixel(image, model).search(Recipe("integrated-gradients"))
    shares = (weights * image.transpose(2, 0, 1) / 255).sum(axis=0)
    full, blank = result.image.full_score, result.image.blank_score
    np.testing.assert_allclose(result.map, np.abs(shares / shares.sum() * (full - blank)), atol=1e-4)


def test_it_adds_up_whatever_the_fill():
    model, image = planted()
    case = every_pixel(image, model, target=1, fill="mean")
    (result,) = case.search(Recipe("integrated-gradients"))
    found = contributions(case.differentiable(), steps=200)
    gain = result.image.full_score - result.image.blank_score
    assert float(found.sum()) == pytest.approx(gain, abs=0.01)  # a kink on the way


def test_no_forwards_are_asked_for():
    model, _, image = linear()
    case = every_pixel(image, model)
    search = integrated_gradients(problem(64, labels=case.partition.labels, differentiable=case.differentiable))
    with pytest.raises(StopIteration):
        next(search)
