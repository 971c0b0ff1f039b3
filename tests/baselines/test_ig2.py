import numpy as np
import pytest
import torch

from whymask import WhymaskError
from whymask.baselines.ig2 import BLURS, path_integral
from whymask.methods import Recipe

from baselines.plain import every_pixel, linear, planted, smooth


def test_a_linear_model():
    """Its features are the pixels, so the path is straight; the gradient of a nearly linear score is its weights."""
    model, weights, image = linear(scale=1e-3)
    differentiable = every_pixel(image, model).differentiable()
    reference = torch.zeros(1, 3, 8, 8)
    steps, step = 10, 20.0
    x = image.transpose(2, 0, 1).astype(np.float32)
    moved = steps * step * x / np.linalg.norm(x) / 255  # towards black, in units of the inputs
    found = path_integral(differentiable, reference, steps, step)[0].numpy()
    np.testing.assert_allclose(found, 0.25 * weights * moved, rtol=1e-2, atol=1e-6)  # sigmoid' is 1/4 near 0


def test_it_adds_up_along_the_path():
    model, image = planted()
    differentiable = every_pixel(image, model, target=1).differentiable()
    reference = differentiable.blurred(7.0)[None]
    found = path_integral(differentiable, reference, steps=200, step=10.0)
    assert float(found.sum()) > 0.01  # the bright patch fades on the way
    few = path_integral(differentiable, reference, steps=400, step=5.0)
    assert float(few.sum()) == pytest.approx(float(found.sum()), rel=0.02)  # the same path, finer


def test_sizes_are_taken_channel_by_channel():
    """One channel's gain does not hide another's loss, but references are averaged with their signs."""
    model, _, image = linear()
    case = every_pixel(image, model)
    (result,) = case.search(Recipe("ig2", {"steps": 4}))
    differentiable = case.differentiable()
    references = torch.stack([differentiable.blurred(radius) for radius in BLURS])
    paths = path_integral(differentiable, references, 4, 8.0)
    np.testing.assert_allclose(result.map, paths.mean(dim=0).abs().sum(dim=0).numpy(), rtol=1e-5)


def test_a_recipe():
    model, image = planted()
    (result,) = every_pixel(image, model).search(Recipe("ig2", {"steps": 4}))
    assert result.map.shape == (32, 32)
    assert result.ledger.mec == 0


def test_saving_memory_does_not_change_the_map():
    """Both paths compute the same sums in another order, so their maps differ by rounding, on the scale of the map.

    Small values are differences of large ones and have no relative precision of their own. The longest sum has
    3 * 16 * 16 terms, and a path adds four steps of them: 4 * 768 * 2**-24 is 2e-4. The network is smooth: where
    it has a kink (a ReLU) or a tie (max-pooling a flat patch), rounding alone decides which way a gradient goes.
    """
    model, image = smooth()
    maps = []
    for memory_saving in (False, True):
        (result,) = every_pixel(image, model).search(Recipe("ig2", {"steps": 4, "memory_saving": memory_saving}))
        maps.append(result.map)
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=2e-4 * maps[0].max())


def test_a_model_without_features_is_refused():
    import whymask

    pooled = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = whymask.wrap(pooled, size=8)
    with pytest.raises(WhymaskError, match="linear layer"):
        whymask.explain(np.zeros((8, 8, 3), np.uint8), model, method="ig2", regions="grid:2x2")
