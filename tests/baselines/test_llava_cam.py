"""Multimodal models of both families: the image's tokens, and masks on the image plane."""

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from PIL import Image
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.baselines.igos import Bilateral
from whymask.explainer.case import Case
from whymask.images.imaging import load_image

from models import tiny_mllm
from models.tiny import lit, quadrants

PHOTO = load_image(f"{data_dir}/rocket.jpg")
QUESTION = "is there a dog on the sofa ?"
OPTIONS = {"question": QUESTION, "target": "Yes", "regions": "grid:4x4"}


@pytest.fixture(params=["qwen", "llava"], scope="module")
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return whymask.load(str(tiny_mllm.save(getattr(tiny_mllm, request.param)(), folder)))


@pytest.mark.parametrize("target", ["Yes", "dog.", "it is a dog ."])
def test_scores_are_the_models(model, target):
    case = Case.of(PHOTO, model, question=QUESTION, target=target, regions="grid:4x4")
    rows = np.random.default_rng(0).random((3, 16)) < 0.5
    expected = model.respond(case.inputs(rows), [case.bound] * 3).score
    with torch.no_grad():
        found = case.differentiable().score(case.inputs(rows))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)


def test_a_pixel_reaches_only_its_own_token(model):
    """Changing one pixel changes the input at its place, and the gradient comes back to that pixel."""
    case = Case.of(PHOTO, model, **OPTIONS)
    image = case.differentiable()
    mask = torch.ones(1, *image.shape)
    mask[0, 9, 14] = 0
    changed = (image.blend(mask, case.bound.fill_inputs)[0] != image.inputs).float()
    assert image.plane(changed).nonzero().tolist() == [[9, 14]]


def by_hand(model, bound, tokens):
    """relu(sum_c w_c A_ic) at the first layer, without noise."""
    count = tokens.grid[0] * tokens.grid[1]
    seen = model.see(bound.inputs[None], bound.canvas.shape[:2])
    assert seen.shape[1] == count  # all of them
    heard = []
    hook = model.module.model.language_model.layers[0].post_attention_layernorm.register_forward_hook(
        lambda part, given, output: heard.append(output.requires_grad_())
    )
    hidden, last = model._read(seen, [bound], [()])
    hook.remove()
    logits = model.module.lm_head(hidden[0, int(last[0])])
    (slope,) = torch.autograd.grad(logits[list(bound.answer.wanted[0])].logsumexp(0), heard[0])
    own = slice(len(bound.before), len(bound.before) + count)
    cells = (heard[0][0, own] @ slope[0, own].relu().mean(dim=0)).relu().view(tokens.grid)
    return tokens.place(cells).detach().numpy()


def test_equals_the_formula(model):
    highest = 0.0
    for target in ("Yes", "No", "dog"):
        options = OPTIONS | {"target": target}
        case = Case.of(PHOTO, model, **options)
        result = whymask.explain(PHOTO, model, method="llava-cam", params={"copies": 0, "layer": 0}, **options)
        expected = by_hand(model, case.bound, case.differentiable().tokens)
        highest = max(highest, expected.max())
        np.testing.assert_allclose(result.map, expected, rtol=1e-3, atol=1e-6)
        assert result.ledger.mec == 0
    assert highest > 1e-3


def test_noise_comes_from_the_seed(model):
    first, again = (
        whymask.explain(PHOTO, model, method="llava-cam", params={"copies": 3}, **OPTIONS).map for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    saving = {"copies": 3, "memory_saving": True}
    saved = whymask.explain(PHOTO, model, method="llava-cam", params=saving, **OPTIONS).map
    np.testing.assert_allclose(saved, first, rtol=1e-3, atol=1e-6 * first.max())


def test_layers_are_checked(model):
    with pytest.raises(WhymaskError, match="between 0 and 0, not 7"):
        whymask.explain(PHOTO, model, method="llava-cam", params={"layer": 7}, **OPTIONS)


def test_igos_lowers_its_objective_on_the_image_plane(model):
    image = Case.of(PHOTO, model, **OPTIONS).differentiable()
    mask = Bilateral(image, ig_steps=3, area_weight=0.1, smooth_weight=0.1)
    mask.redraw(np.random.default_rng(0))
    masks = torch.ones(2, 4, 4)
    before = mask.value(masks)
    assert mask.value(mask.step(masks)) < before
    result = whymask.explain(PHOTO, model, method="igos++", params={"iterations": 2, "ig_steps": 2}, **OPTIONS)
    assert result.map.shape == image.shape


@pytest.mark.parametrize("method", ["gradient", "integrated-gradients", "ig2", "asn", "rise", "hsic"])
def test_other_methods_take_both_families(model, method):
    if "gradient" in method:
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    quick = {"steps": 2, "masks": 10, "designs": 10}
    from whymask.methods import Recipe

    params = {name: value for name, value in quick.items() if name in Recipe(method).method.parameters}
    result = whymask.explain(PHOTO, model, method=method, params=params, **OPTIONS)
    assert result.n == 16


def test_padding_belongs_to_no_pixel(tmp_path):
    """A wide image in LLaVA's square: maps cover the canvas alone."""
    folder = tiny_mllm.save(tiny_mllm.llava(), tmp_path)
    model = whymask.load(str(folder), pad=True)
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 32, 3), dtype=np.uint8))
    image = Case.of(wide, model, **OPTIONS).differentiable()
    assert image.shape == (16, 32)
    assert image.plane(torch.ones_like(image.inputs)).unique().tolist() == [3.0]
    cells = torch.zeros(image.tokens.grid)
    cells[1] = 1  # the second of four rows of tokens: the upper half of the canvas
    assert image.tokens.place(cells)[4].min() > image.tokens.place(cells)[12].max()


@pytest.mark.parametrize("method", ["grad-cam", "grad-eclip"])
def test_classifier_methods_refuse_multimodal_models(model, method):
    with pytest.raises(WhymaskError, match="grad-"):
        whymask.explain(PHOTO, model, method=method, **OPTIONS)


def test_classifiers_are_refused():
    with pytest.raises(WhymaskError, match="'grad-cam' takes any classifier"):
        whymask.explain(lit(1), quadrants(), method="llava-cam", regions="grid:4x4")
