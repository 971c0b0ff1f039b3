import copy

import numpy as np
import pytest
import torch

import whymask
from whymask.baselines.igos import UNIT, Bilateral, kernel
from whymask.methods import Recipe

from baselines.plain import every_pixel, planted

QUICK = {"iterations": 6, "ig_steps": 5, "size": 8}


def objective(**weights):
    model, image = planted()
    case = every_pixel(image, model, target=1)
    options = {"ig_steps": 5, "area_weight": 1.0, "smooth_weight": 1.0} | weights
    return Bilateral(case.differentiable(), **options)


def test_the_objective_falls_with_every_step():
    mask = objective()
    rng = np.random.default_rng(0)
    masks = torch.ones(2, 8, 8)
    values = []
    for _ in range(5):
        mask.redraw(rng)
        before = mask.value(masks)
        masks = mask.step(masks)
        values.append((before, mask.value(masks)))
        assert 0 <= masks.min() <= masks.max() <= 1
    assert all(after <= before for before, after in values)
    assert values[0][1] < values[0][0] - 0.01


def test_deletion_and_insertion_pull_apart():
    """Full masks: deletion sees the way to the image, insertion the way back to the blurred one."""
    mask = objective(area_weight=0.0, smooth_weight=0.0)
    with torch.no_grad():
        deletion, insertion, both_deletion, both_insertion, rest = (float(t) for t in mask.terms(torch.ones(2, 8, 8)))
        score = mask.image.score
        shares = torch.arange(1, 6) / 5
        way = torch.stack([torch.lerp(mask.blurred, mask.image.inputs, share) for share in shares])
        back = torch.stack([torch.lerp(mask.image.inputs, mask.blurred, share) for share in shares])
        assert np.isclose(deletion, float(score(way).mean()) / 2, atol=1e-6)
        assert np.isclose(insertion, -float(score(back).mean()) / 2, atol=1e-6)
    assert (both_deletion, both_insertion, rest) == (deletion, insertion, 0.0)
    assert deletion != -insertion


def test_the_regularisation():
    mask = objective(area_weight=3.0, smooth_weight=0.0)
    half = torch.full((8, 8), 0.5)
    assert np.isclose(float(mask.regularisation(half)), 1.5)
    mask = objective(area_weight=0.0, smooth_weight=2.0)
    assert float(mask.regularisation(half)) < 1e-12
    assert float(mask.regularisation(torch.eye(8))) > 0.3


def cv2_blur(image, width, std):
    """A Gaussian kernel of this width, the border reflected without its last row, as OpenCV does."""
    reach = width // 2
    taps = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * std**2))
    padded = np.pad(image.astype(float), ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (width, width), axis=(0, 1))
    return np.rint(np.einsum("hwcij,i,j->hwc", windows, taps / taps.sum(), taps / taps.sum()))


def linear_upsampling(mask, size):
    """Between the cells of a mask, the first and the last of which lie on the first and the last pixel."""
    place = torch.linspace(0, len(mask) - 1, size, dtype=mask.dtype)
    weights = (1 - (place[:, None] - torch.arange(len(mask))).abs()).clamp(min=0)  # (size, cells)
    return weights @ mask @ weights.T


def published(net, x, blurred, target, masks, ig_steps):
    """Both parts of IGOS++'s objective, without noise: integrals for both masks and their product, and regularisation.

    x and blurred are normalised (C, H, W); the four integrals are halved, as the authors' code halves their gradients.
    """

    def integral(image, base, plane):
        shares = torch.linspace(1 / ig_steps, 1, ig_steps, dtype=x.dtype)
        way = torch.stack([image * share * plane + base * (1 - share * plane) for share in shares])
        return net(way).softmax(dim=1)[:, target].sum() / ig_steps

    deletion, insertion = (linear_upsampling(mask, x.shape[1]) for mask in masks)
    both, product = deletion * insertion, masks[0] * masks[1]
    loss = integral(x, blurred, deletion) - integral(blurred, x, insertion)
    loss = (loss + integral(x, blurred, both) - integral(blurred, x, both)) / 2
    stretched, grey = linear_upsampling(product, x.shape[1]), x.mean(dim=0)
    smooth = 0
    for axis in (0, 1):
        flat = torch.exp(-(grey.diff(dim=axis) ** 2) / 0.01)
        smooth = smooth + (product.diff(dim=axis) ** 2).mean() + (flat * stretched.diff(dim=axis) ** 2).mean()
    return loss, (1 - product).abs().mean() + 20 * smooth / 2


def test_the_gradient_is_the_published_one():
    """Sums of 32 * 32 pixels over 20 steps in single precision: 20 * 1024 * 2**-24 is 1.2e-3."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 5, stride=2), torch.nn.Tanh(), torch.nn.Conv2d(4, 8, 5, stride=2), torch.nn.Tanh(),
        torch.nn.Flatten(), torch.nn.Linear(200, 3),
    )  # fmt: skip
    model = whymask.wrap(net, size=32, mean=(120, 110, 100), std=(UNIT,) * 3, crop=1.0)
    # Strong edges, weak ones and flat places: all regimes of the edge term.
    rng = np.random.default_rng(0)
    image = rng.integers(0, 9, (32, 32, 3)) + 60 * np.add.outer(np.arange(32) // 8, np.arange(32) // 16)[..., None]
    image = image.astype(np.uint8)
    ours = Bilateral(every_pixel(image, model, target=1).differentiable(), 20, 1.0, 20.0)
    masks = torch.from_numpy(rng.random((2, 7, 7), dtype=np.float32)).requires_grad_()

    def normalised(pixels):
        return torch.from_numpy(((pixels - np.array([120, 110, 100])) / UNIT).transpose(2, 0, 1))

    exact = masks.detach().double().requires_grad_()
    blurred = normalised(cv2_blur(image, 51, 50))
    same = np.isclose(ours.blurred.numpy(), blurred.numpy(), atol=1e-5)
    assert same.mean() > 0.99  # but for values that are rounded the other way
    *integrals, smooth = ours.terms(masks)
    # Each part on its own, or the larger one would hide mistakes in the smaller.
    parts = published(copy.deepcopy(net).double(), normalised(image.astype(float)), blurred, 1, exact, 20)
    for ours_is, part in zip((sum(integrals), smooth), parts, strict=True):
        (found,) = torch.autograd.grad(ours_is, masks, retain_graph=True)
        (expected,) = torch.autograd.grad(part, exact, retain_graph=True)
        np.testing.assert_allclose(ours_is.item(), part.item(), rtol=1.2e-3)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1.2e-3 * float(expected.abs().max()))
    np.testing.assert_allclose(ours.value(masks), sum(part.item() for part in parts), rtol=1.2e-3)


@pytest.mark.parametrize(("size", "width"), [(224, 51), (499, 51), (500, 151), (799, 151), (800, 201)])
def test_larger_images_are_blurred_more(size, width):
    assert kernel((size, 32)) == kernel((32, size)) == width


def test_the_map_is_stretched_like_the_masks():
    model, image = planted()
    case = every_pixel(image, model, target=1)
    (result,) = case.search(Recipe("igos++", QUICK))
    corners = result.map[[0, 0, -1, -1], [0, -1, 0, -1]]
    mask = Bilateral(case.differentiable(), 5, 1.0, 20.0)
    rng = case.problem(0).rng()
    masks = torch.ones(2, 8, 8)
    for _ in range(QUICK["iterations"]):
        mask.redraw(rng)
        masks = mask.step(masks)
    cells = (1 - masks.prod(dim=0)).numpy()
    np.testing.assert_allclose(corners, cells[[0, 0, -1, -1], [0, -1, 0, -1]], atol=1e-6)


def test_a_planted_patch_comes_first():
    model, image = planted()
    result = whymask.explain(
        image, model, method="igos++", target=1, regions="grid:4x4", params=QUICK | {"area_weight": 1.0}
    )
    assert result.top(1) == (6,)
    assert result.ledger.mec == 0
    again = whymask.explain(
        image, model, method="igos++", target=1, regions="grid:4x4", params=QUICK | {"area_weight": 1.0}
    )
    np.testing.assert_array_equal(again.map, result.map)  # its noise comes from the seed
