import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.methods import Recipe
from whymask.models import packages

from baselines.plain import Linear, every_pixel, linear


def test_the_gradient_of_a_linear_model_is_its_weights():
    """Simonyan et al.: the largest size over the channels of a pixel; here by grey level, of which 255 are 1."""
    pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    model, weights, image = linear()
    (result,) = every_pixel(image, model).search(Recipe("gradient"))
    expected = np.abs(weights).max(axis=0) / 255
    np.testing.assert_allclose(result.map, expected, rtol=1e-5)
    assert result.order == tuple(np.argsort(-expected.ravel(), kind="stable"))


def test_channels_count_by_grey_level():
    """A channel that the model divides by little matters more than one that it divides by much."""
    pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    _, weights, image = linear()
    std = np.array([1.0, 60.0, 255.0])
    model = whymask.wrap(Linear(torch.from_numpy(weights)), size=8, mean=(0, 0, 0), std=tuple(std), crop=1.0)
    (result,) = every_pixel(image, model).search(Recipe("gradient"))
    np.testing.assert_allclose(result.map, np.abs(weights / std[:, None, None]).max(axis=0), rtol=1e-5)


def test_its_cost_is_not_counted_in_forwards():
    pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    model, _, image = linear()
    result = whymask.explain(image, model, method="gradient", regions="grid:2x2")
    assert result.ledger.mec == 0
    assert result.provenance["needs"] == "gradients"
    assert "Cost: gradients; 0 forwards" in str(result)
    many = dict(whymask.explain_many([image, image], model, method="gradient", regions="grid:2x2", budget=0))
    assert [many[i].order for i in range(2)] == [result.order] * 2


def test_without_captum(monkeypatch):
    monkeypatch.setattr(packages, "optional", lambda name: None)
    model, _, image = linear()
    with pytest.raises(WhymaskError, match="whymask\\[gradients\\]"):
        whymask.explain(image, model, method="gradient", regions="grid:2x2")


def test_the_model_stays_as_it_was():
    pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    model, _, image = linear()
    before = whymask.explain(image, model, k=1, regions="grid:2x2").score
    whymask.explain(image, model, method="gradient", regions="grid:2x2")
    assert all(p.grad is None and p.requires_grad for p in model.module.parameters())
    assert whymask.explain(image, model, k=1, regions="grid:2x2").score == before
    assert torch.is_grad_enabled()
