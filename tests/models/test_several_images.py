"""Several images in one question: one mask over the regions of all of them."""

import json
from dataclasses import replace
from pathlib import Path

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
from whymask.models.multimodal import load

from cli.command import whymask_command
from models.families import FAMILIES, load_processor
from models.tiny import quadrants

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
    first = [len(part) for part in ordering.by_image(ordering.order[: ordering.prefix])]
    assert sum(first) == ordering.prefix
    assert f"Of the first {ordering.prefix}, image 1 has " in str(ordering)
    curves = whymask.replay(whymask.Ordering.load(ordering.save(tmp_path / "saved.npz")), model)
    assert curves.insertion[-1] == pytest.approx(ordering.image.full_score, abs=1e-5)
    assert curves.deletion[-1] == pytest.approx(ordering.image.blank_score, abs=1e-5)
    found.savefig(tmp_path / "figure.png")


def found_in(regions):
    """A mask of these of eight regions, four of each of two images."""
    canvas, panels = side_by_side([np.zeros((32, 40, 3), np.uint8), np.zeros((16, 24, 3), np.uint8)])
    parts = partition_panels(canvas, "grid:2x2", panels)
    whole = whymask.explain(canvas, quadrants(), regions=parts.labels, k=1, resize="squash", fill="black")
    image = replace(whole.image, photo=canvas, canvas=canvas, fill=canvas, partition=parts)
    provenance = {**whole.provenance, "panels": [list(panel) for panel in panels]}
    return replace(whole, image=image, provenance=provenance, regions=regions)


@pytest.mark.parametrize(
    ("regions", "expected", "sentence"),
    [
        ((1, 6, 3), [[1, 3], [6]], "Image 1 has regions 1, 3; image 2 has region 6."),
        ((7,), [[], [7]], "Image 1 has none of them; image 2 has region 7."),
    ],
)
def test_the_image_of_every_region_is_reported(regions, expected, sentence, tmp_path):
    found = whymask.EvidenceMask.load(found_in(regions).save(tmp_path / "saved.npz"))
    assert found.by_image(regions) == found.as_dict()["by_image"] == expected
    assert sentence in str(found)
    assert sentence in found.remarks  # which the page shows
    alone = replace(found, provenance={**found.provenance, "panels": []})
    assert alone.by_image(regions) == [list(regions)]
    assert "Image 1" not in str(alone)


def test_figures_divide_the_images():
    for axes in found_in((1,)).figure().axes:
        (line,) = axes.get_lines()
        width = axes.get_images()[0].get_size()[1]
        assert list(line.get_xdata()) == [40 / 64 * width - 0.5] * 2


@pytest.mark.parametrize(
    "panels",
    [[[0, 0, 32, 40], [0, 40, 16, 65]], [[0, 0, 33, 40]], [[0, 1, 32, 40]], [[0, 0, 32, 40]] * 2, [[0, 0, "a", 40]], 7],
)
def test_files_whose_images_do_not_fit_the_canvas_are_errors(panels, tmp_path):
    saved = found_in((1,)).save(tmp_path / "saved.npz")
    with np.load(saved) as arrays:
        parts = dict(arrays)
    header = json.loads(str(parts.pop("header")))
    header["provenance"]["panels"] = panels
    np.savez(saved, header=np.array(json.dumps(header)), **parts)
    with pytest.raises(WhymaskError, match="is not a saved explanation"):
        whymask.EvidenceMask.load(saved)


def test_several_images_on_the_command_line(checkpoint, tmp_path):
    folder, _ = checkpoint
    for name, image in [("a", FIRST), ("b", SECOND)]:
        image.save(tmp_path / f"{name}.png")
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    options = ["--model", folder, "--question", QUESTION, "--regions", "grid:2x2", "--k", 2, "--out", tmp_path / "out"]
    done = whymask_command("explain", *files, "--together", *options, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["n"] == 8
    assert sorted([*report["by_image"][0], *report["by_image"][1]]) == sorted(report["regions"])
    assert Path(report["files"]["picture"]) == tmp_path / "out" / "a+b-discs+swap.png"
    expected = whymask.explain(list(map(str, files)), str(folder), question=QUESTION, regions="grid:2x2", k=2)
    assert report["regions"] == list(expected.regions)
    alone = whymask_command("explain", files[0], "--together", *options)
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "pass at least two" in alone.stderr


def test_fast_paths_take_one_image_and_can_be_left(tmp_path):
    folder = str(FAMILIES["qwen2_5_vl"].save(tmp_path))
    fast, generic = whymask.load(folder), whymask.load(folder, fast=False)
    assert type(fast).__name__ == "Qwen25VL"
    assert fast.fingerprint != generic.fingerprint
    with pytest.raises(WhymaskError, match="load it with fast=False for several"):
        fast.bind([FIRST, SECOND], question=QUESTION)
    bound = generic.bind([FIRST, SECOND], target="Yes", question=QUESTION)
    score = generic.respond(bound.inputs[None], [bound]).score[0]
    expected = stock(folder, cut(bound.canvas, bound.panels))[list(bound.answer.wanted[0])].sum()
    assert score == pytest.approx(float(expected), abs=1e-5)
    with pytest.raises(WhymaskError, match="there is no image in this list"):
        generic.bind([], question=QUESTION)
    with pytest.raises(WhymaskError, match="unknown option 'fast'"):
        whymask.load(str(FAMILIES["qwen3_vl"].save(tmp_path / "other")), fast=False)


def test_models_of_one_image_say_so(tmp_path):
    with pytest.raises(WhymaskError, match="takes a single image"):
        whymask.explain([FIRST, SECOND], whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255))
    with pytest.raises(WhymaskError, match="not tuple; several of one question are a list"):
        whymask.explain((FIRST, SECOND))
    plain = load(str(FAMILIES["git"].save(tmp_path)))
    with pytest.raises(WhymaskError, match="takes a single image"):
        plain.bind([FIRST, SECOND], question=QUESTION)
