"""Multimodal models of both families: the image's tokens, and masks on the image plane."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from PIL import Image
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.baselines.igos import Bilateral
from whymask.baselines.llava_cam import cam
from whymask.explainer.case import Case
from whymask.images.imaging import load_image
from whymask.methods import Recipe
from whymask.models.differentiable import Evidence

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


def by_hand(model, bound, tokens, x):
    """relu(mean_c A_ic * mean_i relu(gradient_ic)) / max at the first layer, for one image (published code's steps)."""
    count = tokens.grid[0] * tokens.grid[1]
    seen = model.see(x[None], bound.canvas.shape[:2])
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
    pooled = slope[0, own].relu().mean(dim=0)
    heat = np.maximum((heard[0][0, own] * pooled).mean(dim=1).detach().numpy(), 0)
    return (heat / heat.max() if heat.any() else heat).reshape(tokens.grid)


@pytest.mark.parametrize("copies", [0, 1, 4])
def test_equals_the_published_method(model, copies):
    """The mean of the noisy copies' own maps, each divided by its maximum; the clean image alone without copies."""
    found = 0
    for target in ("Yes", "No", "dog"):
        options = OPTIONS | {"target": target}
        case = Case.of(PHOTO, model, **options)
        (result,) = case.search(Recipe("llava-cam", {"copies": copies, "layer": 0}))
        image, rng = case.differentiable(), case.problem(0).rng()
        x, level = image.inputs, image.level
        drawn = [torch.from_numpy(rng.standard_normal(x.shape, dtype=np.float32)) for _ in range(copies)]
        noisy = [x + 25.5 * level * noise for noise in drawn]
        maps = [by_hand(model, case.bound, image.tokens, copy) for copy in noisy or [x]]
        found += sum(heat.any() for heat in maps)
        expected = image.tokens.place(torch.from_numpy(np.mean(maps, axis=0))).numpy()
        np.testing.assert_allclose(result.map, expected, rtol=1e-3, atol=1e-4)
        assert result.ledger.mec == 0
    assert found > copies


def test_a_copy_without_a_positive_part_counts_as_zeros(model):
    """Published code divides by its maximum, which is 0, and loses the whole map."""
    case = Case.of(PHOTO, model, **OPTIONS)
    image = case.differentiable()
    silent = replace(image, read=lambda x: Evidence(*[0 * part for part in vars(image.read(x)).values()]))
    cells = cam(silent, image.tokens, 0, image.inputs)
    assert cells.shape == image.tokens.grid
    assert not cells.any()


@pytest.mark.parametrize("method", ["llava-cam", "igos++", "ig2"])
def test_one_graph_is_held_at_a_time(model, method):
    """What is held grows with every image in a batch."""
    case = Case.of(PHOTO, model, **OPTIONS)
    sizes = []
    hook = model.layers()[0].register_forward_pre_hook(
        lambda part, given: sizes.append(len(given[0])) if torch.is_grad_enabled() else None
    )
    quick = {"copies": 3, "steps": 2, "iterations": 1, "ig_steps": 2}
    params = {name: value for name, value in quick.items() if name in Recipe(method).method.parameters}
    case.search(Recipe(method, params))
    hook.remove()
    assert len(sizes) >= 3
    assert set(sizes) == {1}


def test_colours_are_found_in_any_layout(model):
    """One channel of one pixel changes: its elements, two in a film's frames, are that channel's at that place."""
    image = Case.of(PHOTO, model, **OPTIONS).differentiable()
    for channel in range(3):
        canvas = image.bound.canvas.copy()
        canvas[9, 14, channel] ^= 128
        changed = image.encode(canvas) != image.inputs
        assert image.channels(changed.float()).nonzero().tolist() == [[channel, 9, 14]]
        assert changed.sum() == image.channels(torch.ones_like(image.inputs)).max()


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
    with pytest.raises(WhymaskError, match="for classifiers, use 'grad-cam'"):
        whymask.explain(lit(1), quadrants(), method="llava-cam", regions="grid:4x4")
