from types import SimpleNamespace

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import CentreCrop
from whymask.images.masking import blend
from whymask.methods import Recipe
from whymask.models import torch_module
from whymask.models.base import Response
from whymask.models.differentiable import Evidence, rounding
from whymask.models.llava import Llava
from whymask.models.torch_module import TorchClassifier

from models import tiny_mllm
from models.tiny import QUADRANTS, Quadrants, lit, quadrants


@pytest.fixture
def image():
    model = quadrants()
    return model.differentiable(model.bind(lit(2), target=2, fill="black"))


def test_scores_are_the_models(image):
    model = quadrants()
    bound = model.bind(lit(2), target=2)
    assert float(image.score(image.inputs[None])) == pytest.approx(model.respond(bound.inputs[None], [bound]).score[0])
    assert float(image.logit(image.inputs[None])) == pytest.approx(6 * 220 / 255, rel=1e-5)


def test_a_margin_belongs_to_no_pixel():
    """An image padded to a square: every pixel of the image has one element a channel, those of the margin none."""
    parts = tiny_mllm.llava()
    model = Llava(*parts, name="padded", pad=True)
    bound = model.bind(lit(0)[:16], target="Yes", question="is there a dog ?")
    image = model.differentiable(bound)
    assert image.inputs.numel() > 3 * image.shape[0] * image.shape[1]
    torch.testing.assert_close(image.channels(torch.ones_like(image.inputs)), torch.ones(3, *image.shape))


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
    channels = image.channels(values)
    assert channels.nonzero().tolist() == [[0, 4, 5], [1, 9, 9], [2, 4, 5]]
    plane = image.plane(values)
    assert plane[4, 5] == 3
    assert plane[9, 9] == -1
    assert plane.count_nonzero() == 2


def test_units_and_blurs(image):
    assert image.level.unique().item() == pytest.approx(1 / 255)
    assert image.blurred(50, reach=25).std() < image.inputs.std() / 2
    assert [end.unique().item() for end in image.ends] == [0.0, 1.0]


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


class Siglip(TorchClassifier):
    """Classes that do not exclude each other: the score is a sigmoid."""

    def evidence(self, outputs, targets):
        logit = outputs[torch.arange(len(outputs)), list(targets)]
        return Evidence(logit, torch.nn.functional.softplus(logit))


class OverridesScore(TorchClassifier):
    """The same family, with the sigmoid where only forward methods find it."""

    def read(self, outputs, targets):
        chances = outputs.sigmoid().double().numpy()
        return Response(chances[np.arange(len(chances)), list(targets)], chances.argmax(axis=1))


def family(kind, dtype="fp32"):
    options = {"mean": (0, 0, 0), "std": (255, 255, 255), "name": "siglip", "dtype": dtype}
    return kind(Quadrants(), CentreCrop(32), QUADRANTS, **options)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16", "fp64"])
def test_a_score_is_defined_once(dtype):
    case = Case.of(lit(2), family(Siglip, dtype), target=2, regions="grid:4x4")
    rows = np.random.default_rng(0).random((5, 16)) < 0.5
    forward = case.model.respond(case.inputs(rows), [case.bound] * 5).score
    image = case.differentiable()
    logits = image.logit(case.inputs(rows))
    # Gradients of half precision are taken in single: the forward rounds the pixel, its mean over channels, the mean
    # over the image and the product, by half a unit each, and the sigmoid's slope is a quarter at most.
    half = case.model.dtype.itemsize < 4
    atol = 4 * torch.finfo(case.model.dtype).eps / 2 * float(logits.abs().max()) / 4 if half else 1e-6
    np.testing.assert_allclose(forward, logits.sigmoid().numpy(), atol=atol)
    np.testing.assert_allclose(forward, image.score(case.inputs(rows)).numpy(), atol=atol)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_two_scores_are_an_error(dtype):
    case = Case.of(lit(2), family(OverridesScore, dtype), target=1, regions="grid:4x4")
    words = r"^siglip gives the image a score of 0\.80\d\d, and 0\.02\d\d where gradients are computed: .*\.$"
    for method in ("gradient", "integrated-gradients"):
        with pytest.raises(WhymaskError, match=words):
            case.search(Recipe(method))
    assert case.search(Recipe("trace", {"k": 4, "rounds": 1}))  # the forward methods have their score


@pytest.mark.parametrize(("kind", "launches"), [(Siglip, 1), (OverridesScore, 0)])
def test_a_score_of_a_subclass_counts_on_cuda_too(monkeypatch, kind, launches):
    """There a forward is launched, unless the subclass itself reads the score from the outputs."""
    computed = []

    def launched(compute, device):
        computed.append(compute)
        return Response(np.zeros(2), None)

    monkeypatch.setattr(torch_module, "launched", launched)
    model = family(kind)
    bounds = [model.bind(lit(2), target=1), model.bind(lit(1), target=2)]
    inputs = torch.stack([bound.inputs for bound in bounds])
    expected = model.respond(inputs, bounds)
    monkeypatch.setattr(model, "device", SimpleNamespace(type="cuda"))
    found = model.respond(inputs, bounds)
    assert len(computed) == launches
    if launches:
        scores, top = computed[0]()
        found = Response(scores.numpy(), top.numpy())
    np.testing.assert_array_equal(found.score, expected.score)
    np.testing.assert_array_equal(found.top, expected.top)


def test_scores_are_compared_once_a_case_and_not_counted():
    case = Case.of(lit(2), quadrants(), target=2, regions="grid:4x4")
    ran = []
    case.model.module.register_forward_hook(lambda *_: ran.append(1))
    case.differentiable()
    assert len(ran) == 2
    case.differentiable()
    assert len(ran) == 2
    assert case.search(Recipe("integrated-gradients", {"steps": 2}))[0].ledger.mec == 0


def test_scores_that_vary_are_not_compared():
    model = family(OverridesScore)
    model.deterministic = False
    assert Case.of(lit(2), model, target=2, regions="grid:4x4").differentiable().bound.target.index == 2


def test_what_rounding_allows():
    """Logits that are off by a unit in their last place are allowed; single precision finds small differences."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        for size in (1.0, 20.0, 500.0):
            assert torch.finfo(dtype).eps * size < rounding(torch.zeros(1, dtype=dtype), size)
        assert rounding(torch.zeros(1, dtype=dtype), 5.0) < 0.4
    assert rounding(torch.zeros(1), 20.0) < 1e-3


def test_a_module_that_is_random_is_no_disagreement():
    """Dropout that stays on during evaluation: two forwards differ, whichever way they go."""

    class Uncertain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(3 * 16, 4)

        def forward(self, x):
            pooled = torch.nn.functional.adaptive_avg_pool2d(x, 4).flatten(1)
            return 5 * self.head(torch.nn.functional.dropout(pooled, 0.5, training=True))

    torch.manual_seed(0)
    model = whymask.wrap(Uncertain(), size=16)
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    assert len(whymask.explain(image, model, method="gradient", regions="grid:2x2").order) == 4
