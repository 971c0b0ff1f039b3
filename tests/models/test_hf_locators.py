"""Detectors and segmenters of transformers, small and random, against transformers' own processing and forward."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask.errors import WhymaskError
from whymask.images.imaging import load_image
from whymask.images.masking import compose
from whymask.models.registry import find

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from models.checkpoints import without  # noqa: E402
from models.tiny_locators import DETECTORS, NAMES, SEGMENTERS, ZERO_SHOT, sharpened  # noqa: E402

PHOTO = load_image(f"{data_dir}/rocket.jpg").resize((130, 100))


def made(make):
    torch.manual_seed(0)
    return sharpened(make())


@pytest.mark.parametrize("name", DETECTORS)
def test_boxes_and_scores_are_those_of_transformers(name):
    module, processor = made(DETECTORS[name])
    model = whymask.wrap(module, processor)
    view = model.view(PHOTO)
    (found,) = model.detect(model.encode(view.canvas)[None], [model.classes], view.canvas.shape[:2])
    with torch.no_grad():
        outputs = module(**processor(images=PHOTO, return_tensors="pt"))
    (own,) = processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=[(100, 130)])
    boxes = found.boxes * [130, 100, 130, 100]
    if outputs.logits.shape[-1] > len(NAMES):  # a softmax: every query has one class
        np.testing.assert_allclose(own["scores"], found.scores.max(axis=1), atol=1e-5)
        np.testing.assert_array_equal(own["labels"], found.scores.argmax(axis=1))
        np.testing.assert_allclose(own["boxes"], boxes, atol=1e-3)
    else:  # the best pairs of a query and a class
        for box, label, score in zip(own["boxes"], own["labels"], own["scores"], strict=True):
            same = np.abs(boxes - box.numpy()).max(axis=1) < 1e-3
            assert np.abs(found.scores[same, label] - float(score)).min() < 1e-5


@pytest.mark.parametrize("name", ["owlvit", "owlv2"])
def test_texts_are_found_as_by_transformers(name):
    """From the canvas on: these processors resize in floating point, which a canvas of bytes rounds."""
    module, pair = made(ZERO_SHOT[name])
    model = whymask.wrap(module, pair, classes=["a dog", "a cat"])
    canvas = model.view(PHOTO).canvas
    (found,) = model.detect(model.encode(canvas)[None], [model.classes], canvas.shape[:2])
    words = pair.tokenizer(["a dog", "a cat"], padding="max_length", return_tensors="pt")
    pixels = pair.image_processor(images=Image.fromarray(canvas), return_tensors="pt")
    with torch.no_grad():
        outputs = module(**pixels, **words)
    height, width = canvas.shape[:2]
    side = max(height, width) if name == "owlv2" else None  # boxes are shares of the padded square
    sizes = [(side, side)] if side else [(height, width)]
    (own,) = pair.image_processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=sizes)
    np.testing.assert_allclose(own["scores"], found.scores.max(axis=1), atol=1e-5)
    np.testing.assert_allclose(own["boxes"], found.boxes * [width, height, width, height], atol=1e-3)


def test_phrases_are_found_as_by_transformers():
    module, pair = made(ZERO_SHOT["grounding_dino"])
    model = whymask.wrap(module, pair)
    view = model.view(PHOTO)
    names = ["a dog", "traffic light"]
    (found,) = model.detect(model.encode(view.canvas)[None], [names], view.canvas.shape[:2])
    words = pair.tokenizer("a dog. traffic light.", return_tensors="pt")
    tokens = [pair.tokenizer.decode([token]) for token in words["input_ids"][0]]
    assert tokens == ["[CLS]", "a", "dog", ".", "traffic", "light", ".", "[SEP]"]
    with torch.no_grad():
        outputs = module(**pair.image_processor(images=PHOTO, return_tensors="pt"), **words)
    chances = outputs.logits[0].sigmoid()
    np.testing.assert_allclose(found.scores[:, 0], chances[:, 1:3].amax(dim=1), atol=1e-5)
    np.testing.assert_allclose(found.scores[:, 1], chances[:, 4:6].amax(dim=1), atol=1e-5)
    assert model.bind(PHOTO, target="traffic light").target.label.startswith("traffic light at ")
    with pytest.raises(WhymaskError, match="pass a target such as 'a cat', or classes"):
        model.bind(PHOTO)


@pytest.mark.parametrize("name", SEGMENTERS)
def test_probabilities_are_those_of_transformers(name):
    module, processor = made(SEGMENTERS[name])
    model = whymask.wrap(module, processor)
    found = model.probabilities(model.encode(model.view(PHOTO).canvas)[None])
    with torch.no_grad():
        outputs = module(**processor(images=PHOTO, return_tensors="pt"))
    if name == "mask2former":  # its own post-processing enlarges the masks first
        masks = outputs.masks_queries_logits.sigmoid()
        own = torch.einsum("bqc,bqhw->bchw", outputs.class_queries_logits.softmax(dim=-1)[..., :-1], masks).clamp(max=1)
    else:
        own = outputs.logits.softmax(dim=1)
    np.testing.assert_allclose(found, own.permute(0, 2, 3, 1), atol=1e-5)
    for column in range(len(NAMES)):
        one = model.probabilities(model.encode(model.view(PHOTO).canvas)[None], column)
        np.testing.assert_allclose(one, found[..., column], atol=1e-12)


@pytest.mark.parametrize("name", [*DETECTORS, *ZERO_SHOT, *SEGMENTERS])
def test_masked_inputs_are_those_of_masked_images(name):
    """Bit by bit, padding included; and a batch scores as its images alone."""
    model = whymask.wrap(*made({**DETECTORS, **ZERO_SHOT, **SEGMENTERS}[name]))
    target = "a dog" if name in ZERO_SHOT else None
    bound = model.bind(PHOTO, target=target, fill="mean")
    labels = np.arange(bound.canvas.shape[0])[:, None] // 9 + np.zeros(bound.canvas.shape[1], dtype=np.int32)
    rows = np.random.default_rng(0).random((3, labels.max() + 1)) < 0.5
    inputs = compose(rows, bound.index(labels.astype(np.int32)), bound.inputs, bound.fill_inputs)
    for row, made_of_parts in zip(rows, inputs, strict=True):
        masked = np.where(row[labels][..., None], bound.canvas, bound.fill)
        torch.testing.assert_close(made_of_parts, model.encode(masked), rtol=0, atol=0)
    scores = model.respond(inputs, [bound] * 3).score
    alone = [model.respond(one[None], [bound]).score[0] for one in inputs]
    np.testing.assert_allclose(scores, alone, atol=1e-5)


@pytest.mark.parametrize("name", ["detr", "segformer"])
def test_a_folder_is_loaded_as_what_it_is(name, tmp_path):
    module, processor = made({**DETECTORS, **SEGMENTERS}[name])
    module.save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    family, _ = find(str(tmp_path / "model"))
    assert family.name == {"detr": "NAME/OF-DETECTOR", "segformer": "NAME/OF-SEGMENTER"}[name]
    model = whymask.load(str(tmp_path / "model"))
    here = whymask.wrap(module, processor)
    view = model.view(PHOTO)
    target = here.bind(PHOTO).aim
    scores = [
        one.respond(one.encode(view.canvas)[None], [one.bind(PHOTO, target=target)]).score for one in (model, here)
    ]
    np.testing.assert_allclose(*scores, atol=1e-6)
    head = next(key for key in module.state_dict() if "classifier" in key and key.endswith("weight"))
    folder = without(tmp_path / "model", tmp_path / "headless", head)
    with pytest.raises(WhymaskError, match="are missing from the checkpoint"):
        whymask.load(str(folder))


def test_a_detector_is_explained_and_left_as_it_is(tmp_path):
    module, processor = made(DETECTORS["yolos"])
    module.train()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    model = whymask.wrap(module, processor)
    evidence = whymask.explain(PHOTO, model, target=0, regions="grid:4x4", k=4, budget=20)
    assert evidence.target.label.split(" at ")[0] in NAMES.values()
    assert module.training
    assert all(torch.equal(before[name], weight) for name, weight in module.state_dict().items())
    assert whymask.EvidenceMask.load(evidence.save(tmp_path / "x.npz")).regions == evidence.regions
    assert model.fingerprint == evidence.provenance["model_fingerprint"]
    with torch.no_grad():
        module.class_labels_classifier.layers[0].weight[0, 0] += 1
    assert model.fingerprint != evidence.provenance["model_fingerprint"]


@pytest.fixture
def exact(monkeypatch):
    """Convolutions of a GPU in fp32, not TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("name", [*DETECTORS, *ZERO_SHOT, *SEGMENTERS])
def test_explained_on_a_gpu_with_the_scores_of_a_cpu(name):
    """By number, name and point; those of the CPU are compared with transformers' own above."""
    makers = {**DETECTORS, **ZERO_SHOT, **SEGMENTERS}
    classes = {"classes": ["a dog", "a cat"]} if name in ZERO_SHOT else {}
    reference = whymask.wrap(*made(makers[name]), **classes)
    module, processor = made(makers[name])
    model = whymask.wrap(module.cuda(), processor, **classes)
    if name in SEGMENTERS:
        targets = [None, (65, 50)]
    else:
        first = model.detections(PHOTO)[0]
        left, top, right, bottom = np.clip(first.box, 0, [130, 100, 130, 100])
        targets = [0, first.label, ((left + right) / 2, (top + bottom) / 2)]
    for target in targets:
        evidence = whymask.explain(PHOTO, model, target=target, regions="grid:4x4", k=6, budget=20, fill="black")
        assert evidence.provenance["device"] == "cuda:0"
        bound = reference.bind(PHOTO, target=evidence.target.label)
        for mask, score in ((evidence.mask, evidence.score), (np.ones_like(evidence.mask), evidence.full_score)):
            inputs = reference.encode(np.where(mask[..., None], bound.canvas, 0).astype(np.uint8))
            assert reference.respond(inputs[None], [bound]).score[0] == pytest.approx(score, abs=1e-3)
