import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.baselines.rise import smooth_masks

from models.tiny import lit, quadrants

FEW = {"masks": 120, "grid": 4}


def test_masks():
    rng = np.random.default_rng(0)
    masks = smooth_masks(400, 4, 0.3, (30, 42), rng)
    assert masks.shape == (400, 30, 42)
    assert masks.dtype == np.float32
    assert masks.min() >= 0
    assert masks.max() <= 1 + 1e-6
    assert masks.mean() == pytest.approx(0.3, abs=0.02)
    np.testing.assert_allclose(masks.mean(axis=0), 0.3, atol=0.12)  # no pixel is favoured
    assert np.abs(np.diff(masks, axis=1)).max() < 0.2  # smooth: a step of one pixel in cells of ten


def test_a_bright_quadrant_comes_first():
    result = whymask.explain(lit(2), quadrants(), method="rise", regions="grid:2x2", params=FEW)
    assert result.top(1) == (2,)
    assert result.ledger.mec == result.ledger.nominal == 120  # complements are not sent
    assert result.map.shape == (32, 32)
    assert result.map[20, 5] > result.map[5, 5]


def test_the_map_is_the_weighted_mean_of_the_masks():
    model, image = quadrants(), lit(1)
    result = whymask.explain(image, model, method="rise", regions="grid:2x2", params=FEW)
    from whymask.explainer.case import Case

    case = Case.of(image, model, regions="grid:2x2")
    rng = case.problem(0).rng()
    masks = np.concatenate([smooth_masks(count, 4, 0.5, (32, 32), rng) for count in (50, 50, 20)])
    pixels = (image * masks[..., None] / 255).transpose(0, 3, 1, 2).astype(np.float32)
    import torch

    logits = model.module(torch.from_numpy(pixels)).numpy()
    scores = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(result.map, np.tensordot(scores, masks, 1) / 60, rtol=1e-4)


def test_a_function_over_whole_pixels_gets_rounded_ones():
    seen = []

    def bright(images):
        seen.append(images)
        return images[:, :16, :16].mean(axis=(1, 2, 3)) / 255

    result = whymask.explain(lit(0), whymask.wrap(bright), method="rise", regions="grid:2x2", params=FEW)
    assert result.top(1) == (0,)
    assert {images.dtype for images in seen} == {np.dtype(np.uint8)}


@pytest.mark.parametrize("method", ["rise", "hsic"])
def test_a_function_sees_the_fill_where_pixels_are_hidden(method):
    seen = []

    def bright(images):
        seen.append(images)
        return images.mean(axis=(1, 2, 3)) / 255

    image, fill = lit(0), (130, 140, 250)
    params = FEW if method == "rise" else {"designs": 64, "grid": 4}
    whymask.explain(image, whymask.wrap(bright), method=method, regions="grid:2x2", fill=fill, params=params)
    images = np.concatenate(seen)
    low, high = np.minimum(image, fill), np.maximum(image, fill)
    assert ((images >= low) & (images <= high)).all()
    np.testing.assert_allclose(images.mean(axis=0), (image.astype(float) + fill) / 2, atol=30)  # half of each


def test_many_images_together_equal_one_by_one():
    images = [lit(q) for q in (3, 0, 1)]
    options = {"method": "rise", "regions": "grid:4x4", "params": FEW, "batch_size": 33}
    many = dict(whymask.explain_many(images, quadrants(), **options))
    for number, image in enumerate(images):
        alone = whymask.explain(image, quadrants(), **options)
        assert many[number].order == alone.order
        assert many[number].ledger == alone.ledger


def test_a_budget_ends_it():
    options = {"method": "rise", "regions": "grid:2x2", "params": FEW}
    result = whymask.explain(lit(2), quadrants(), budget=110, **options)
    assert not result.complete
    assert result.ledger.mec == 110
    assert result.top(1) == (2,)


def test_parameters_are_checked():
    with pytest.raises(WhymaskError, match="keep"):
        whymask.explain(lit(0), quadrants(), method="rise", regions="grid:2x2", params={"keep": 1.0})


def test_the_map_is_saved(tmp_path):
    result = whymask.explain(lit(2), quadrants(), method="rise", regions="grid:2x2", params=FEW)
    again = whymask.Ordering.load(result.save(tmp_path / "rise"))
    np.testing.assert_array_equal(again.map, result.map)
