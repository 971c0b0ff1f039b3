import numpy as np
import pytest
import torch

from whymask.images.masking import blend

from models.tiny import lit, quadrants


@pytest.fixture
def image():
    model = quadrants()
    return model.differentiable(model.bind(lit(2), target=2, fill="black"))


def test_scores_are_the_models(image):
    model = quadrants()
    bound = model.bind(lit(2), target=2)
    assert float(image.score(image.inputs[None])) == pytest.approx(model.respond(bound.inputs[None], [bound]).score[0])
    assert float(image.logit(image.inputs[None])) == pytest.approx(6 * 220 / 255, rel=1e-5)


def test_masks_lie_on_the_image_plane(image):
    mask = torch.zeros(1, 32, 32)
    mask[0, 3, 7] = 1
    mask.requires_grad_()
    mixed = image.blend(mask, image.bound.fill_inputs)
    shown = (mixed[0] != image.bound.fill_inputs).any(dim=0)
    assert shown.nonzero().tolist() == [[3, 7]]
    (slope,) = torch.autograd.grad(image.score(mixed).sum(), mask)
    assert slope.shape == (1, 32, 32)
    assert slope[0, 20, 5] > 0 > slope[0, 5, 5]  # the bright quadrant helps, another does not


def test_elements_add_up_by_pixel(image):
    values = torch.zeros_like(image.inputs)
    values[0, 4, 5], values[2, 4, 5], values[1, 9, 9] = 1, 2, -1
    plane = image.plane(values)
    assert plane[4, 5] == 3
    assert plane[9, 9] == -1
    assert plane.count_nonzero() == 2


def test_units_and_blurs(image):
    assert image.level.unique().item() == pytest.approx(1 / 255)
    assert image.blurred(50.0).std() < image.inputs.std() / 2


def test_layouts_blend_alike():
    rng = np.random.default_rng(0)
    x, x0 = rng.integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)
    masks = rng.random((4, 6, 8)).astype(np.float32)
    pixel = np.arange(48).reshape(6, 8)
    whole = blend(masks, pixel[..., None], x, x0)
    assert whole.dtype == np.uint8
    expected = masks[..., None] * x + (1 - masks[..., None]) * x0
    np.testing.assert_array_equal(whole, np.rint(expected))
    first = [torch.from_numpy(a.transpose(2, 0, 1).astype(np.float32)) for a in (x, x0)]
    tensor = blend(masks, torch.from_numpy(pixel)[None], *first)
    np.testing.assert_allclose(tensor.numpy().transpose(0, 2, 3, 1), expected, rtol=1e-5)
