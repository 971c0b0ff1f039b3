"""Several images in one question: one mask over the regions of all of them."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import transformers

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import load_image
from whymask.images.panels import cut, partition_panels, side_by_side
from whymask.models.image_text import load

from models.families import FAMILIES, load_processor

FIRST = load_image(f"{data_dir}/rocket.jpg").resize((160, 107))
SECOND = load_image(f"{data_dir}/coffee.png").resize((90, 120))
QUESTION = "Is there a dog in the image ?"


@pytest.fixture(scope="module", params=["qwen3_vl", "llava_onevision"])
def checkpoint(request, tmp_path_factory):
    folder = FAMILIES[request.param].save(tmp_path_factory.mktemp(request.param))
    return folder, load(str(folder))


def stock(folder, images):
    """Probabilities of the first token by the family's own processor and forward."""
    module = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    content = [*({"type": "image", "image": Image.fromarray(image)} for image in images)]
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": QUESTION}]}]
    inputs = load_processor(folder).apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    with torch.inference_mode():
        return module(**inputs).logits[0, -1].softmax(dim=-1)


def test_images_stand_side_by_side():
    canvas, panels = side_by_side([np.full((4, 3, 3), 1, np.uint8), np.full((2, 5, 3), 2, np.uint8)])
    assert panels == ((0, 0, 4, 3), (0, 3, 2, 8))
    assert canvas.shape == (4, 8, 3)
    assert (canvas[:, :3] == 1).all()
    assert (canvas[:2, 3:] == 2).all()
    assert (canvas[2:, 3:] == 255).all()
    assert [part.shape for part in cut(canvas, panels)] == [(4, 3, 3), (2, 5, 3)]


@pytest.mark.parametrize("regions", ["grid:2x2", "grid:2x2/4"])
def test_no_region_lies_in_two_images(regions):
    canvas, panels = side_by_side([np.zeros((8, 8, 3), np.uint8), np.zeros((4, 12, 3), np.uint8)])
    parts = partition_panels(canvas, regions, panels)
    left, right = (set(np.unique(part)) for part in cut(parts.labels, panels))
    assert not left & right
    assert left | right == set(range(parts.n))
    assert parts.n == (8 if regions == "grid:2x2" else 32)
    if parts.parents is not None:
        assert sorted(set(parts.parents)) == list(range(8))
        assert not {parts.parents[i] for i in left} & {parts.parents[i] for i in right}
    np.testing.assert_array_equal(parts.labels[4:, 8:], np.tile(parts.labels[3, 8:], (4, 1)))


def test_scores_equal_the_familys_own_code(checkpoint):
    folder, model = checkpoint
    case = Case.of([FIRST, SECOND], model, target="Yes", question=QUESTION, regions="grid:2x3", fill="mean")
    assert case.partition.n == 12
    rows = np.concatenate([np.random.default_rng(0).random((5, 12)) < 0.5, np.ones((1, 12), bool)])
    scores = model.respond(case.inputs(rows), [case.bound] * len(rows)).score
    (forms,) = case.bound.answer.wanted
    for row, score in zip(rows, scores, strict=True):
        shown = np.where(row[case.partition.labels][..., None], case.bound.canvas, case.bound.fill)
        expected = stock(folder, cut(shown, case.bound.panels))[list(forms)].sum()
        assert score == pytest.approx(float(expected), abs=1e-5)
    assert np.ptp(scores) > 1e-4 * scores.max()
    again = case.again(fill="black").again(fill="mean")
    np.testing.assert_array_equal(again.bound.canvas, case.bound.canvas)
    np.testing.assert_array_equal(again.bound.fill, case.bound.fill)
    np.testing.assert_allclose(model.respond(again.inputs(rows), [again.bound] * len(rows)).score, scores, rtol=1e-5)


def test_explained_saved_and_replayed(checkpoint, tmp_path):
    _, model = checkpoint
    images = [FIRST, SECOND]
    found = whymask.explain(images, model, question=QUESTION, regions="grid:2x2", k=2, fill="several")
    assert len(found.regions) == 2
    assert found.verdict.code
    ordering = whymask.explain(images, model, question=QUESTION, method="greedy", regions="grid:2x2", fill="mean")
    curves = whymask.replay(whymask.Ordering.load(ordering.save(tmp_path / "saved.npz")), model)
    assert curves.insertion[-1] == pytest.approx(ordering.image.full_score, abs=1e-5)
    assert curves.deletion[-1] == pytest.approx(ordering.image.blank_score, abs=1e-5)
    found.savefig(tmp_path / "figure.png")


def test_models_of_one_image_say_so(tmp_path):
    with pytest.raises(WhymaskError, match="not list; only multimodal models take several"):
        whymask.explain([FIRST, SECOND], whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255))
    plain = load(str(FAMILIES["git"].save(tmp_path)))
    with pytest.raises(WhymaskError, match="takes one image"):
        plain.bind([FIRST, SECOND], question=QUESTION)
