import copy
import itertools

import numpy as np
import pytest
import torch

import whymask
from whymask.baselines.ig2 import BLURS, path_integral, score_and_features
from whymask.images.imaging import CentreCrop
from whymask.methods import Recipe
from whymask.models.zero_shot import ZeroShot

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
    reference = differentiable.blurred(7, reach=14)[None]
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
    references = torch.stack([differentiable.blurred(std, reach=2 * std) for std in BLURS])
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


def published(net, x, reference, target, steps, step):
    """IG2 from the paper: Eq. 3 on the path of Algorithm 1, on pixels (C, H, W) of 0 ... 255, in double precision."""
    features, head = net[:-1], net[-1]
    with torch.no_grad():
        goal = features(reference[None] / 255)
    path = [x]
    for _ in range(steps):
        here = path[-1].clone().requires_grad_()
        distance = ((features(here[None] / 255) - goal) ** 2).sum()
        (slope,) = torch.autograd.grad(distance, here)
        path.append((path[-1] - step * slope / slope.norm()).clamp(0, 255))
    total = torch.zeros_like(x)
    for here, there in itertools.pairwise(path):
        here = here.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(head(features(here[None] / 255)).softmax(dim=1)[0, target], here)
        total += gradient * (here.detach() - there)
    return total, path[-1]


def test_equals_the_published_formula():
    """The image starts at the ends of the pixels' range, and what would leave it stays there.

    Sums of 768 terms over 12 steps in single precision: 12 * 768 * 2**-24 is 6e-4.
    """
    model, image = smooth()
    image = np.where(image < 128, 0, 255).astype(np.uint8)
    differentiable = every_pixel(image, model, target=1).differentiable()
    reference = differentiable.blurred(7, reach=14)
    found = path_integral(differentiable, reference[None], 12, 200.0)[0].numpy()
    x = torch.from_numpy(image.transpose(2, 0, 1).astype(np.float64))
    net = copy.deepcopy(model.module).double()
    expected, end = published(net, x, 255 * reference.double(), 1, 12, 200.0)
    assert 0.1 < float(((end == 0) | (end == 255)).double().mean()) < 0.9
    np.testing.assert_allclose(found, expected.numpy(), rtol=0, atol=6e-4 * float(expected.abs().max()))


class AttentionPool(torch.nn.Module):
    """Pools as CLIP's ResNets do: the weights of linear layers are used, but the layers are never called."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 4, stride=4)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x):
        tokens = self.stem(x).flatten(2).permute(2, 0, 1)
        bias = torch.cat([self.q.bias, self.k.bias, self.v.bias])
        pooled, _ = torch.nn.functional.multi_head_attention_forward(
            tokens.mean(dim=0, keepdim=True), tokens, tokens, 8, 2, None, bias, None, None, False, 0.0,
            self.out.weight, self.out.bias, training=False, need_weights=False, use_separate_proj_weight=True,
            q_proj_weight=self.q.weight, k_proj_weight=self.k.weight, v_proj_weight=self.v.weight,
        )  # fmt: skip
        return pooled[0]


def test_without_a_linear_layer_the_output_is_the_feature(tmp_path, monkeypatch):
    """CLIP RN101: the image embedding."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.manual_seed(0)
    model = ZeroShot(
        AttentionPool(), lambda lines: np.random.default_rng(0).normal(size=(len(lines), 8)).astype(np.float32), 10.0,
        CentreCrop(16), ["a", "b"], ["{}"], mean=(0, 0, 0), std=(255, 255, 255), name="tiny", fingerprint="tiny",
    )  # fmt: skip
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    case = every_pixel(image, model)
    x = case.bound.inputs[None]
    _, features = score_and_features(case.differentiable(), x)
    torch.testing.assert_close(features, model.module(x))
    (result,) = case.search(Recipe("ig2", {"steps": 4}))
    assert result.map.max() > 0


def test_a_linear_layer_over_tokens_is_no_head():
    """As in open_clip's vision transformers, whose embedding is made by a parameter."""

    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.mlp = torch.nn.Conv2d(3, 8, 4, stride=4), torch.nn.Linear(8, 8)
            self.projection = torch.nn.Parameter(torch.randn(8, 3))

        def forward(self, x):
            return self.mlp(self.stem(x).flatten(2).transpose(1, 2)).mean(dim=1) @ self.projection

    torch.manual_seed(0)
    case = every_pixel(np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8),
                       whymask.wrap(Tokens(), size=16, crop=1.0))  # fmt: skip
    x = case.bound.inputs[None]
    _, features = score_and_features(case.differentiable(), x)
    torch.testing.assert_close(features, case.model.module.eval()(x))
