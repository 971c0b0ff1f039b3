"""SigLIP and SigLIP 2 built small in process, against transformers' own processor and model."""

import json
from copy import deepcopy

import numpy as np
import pytest
import torch
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import load_image
from whymask.models import FAMILIES
from whymask.models.registry import find

from models.checkpoints import edited, without

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
from models import tiny_clip, tiny_siglip  # noqa: E402

PHOTO = load_image(f"{data_dir}/rocket.jpg").crop((100, 0, 500, 300))
CLASSES = ["rocket", "tower", "dog", "cup of tea"]
TEMPLATE = "This is a photo of {}."


@pytest.fixture(params=["siglip", "siglip2"])
def checkpoint(request, tmp_path, monkeypatch):
    """A folder, its model and its processor."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return str(tmp_path / "siglip"), *tiny_siglip.save(tmp_path / "siglip", naflex=request.param == "siglip2")


def tokens_of(processor, texts):
    return processor.tokenizer(texts, padding="max_length", max_length=64, return_tensors="pt")


def library(checkpoint, texts, images=(PHOTO,)):
    """transformers' own probabilities (images, texts)."""
    _, model, processor = checkpoint
    inputs = {**processor.image_processor(images=list(images), return_tensors="pt"), **tokens_of(processor, texts)}
    with torch.inference_mode():
        output = model(**inputs)
    return output.logits_per_image.sigmoid().numpy()


def score(model, target):
    bound = model.bind(PHOTO, target=target)
    return model.respond(bound.inputs[None], [bound]).score[0]


@pytest.fixture
def published(tmp_path):
    """A checkpoint of SigLIP 1 with a tokenizer as the published ones have: a sentencepiece model."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed: whymask[hf]")
    tiny_siglip.save(tmp_path)
    for file in tmp_path.glob("tokenizer*"):
        file.unlink()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEMPLATE.format(name).lower() for name in CLASSES] * 20), vocab_size=25, minloglevel=2,
        model_type="char", hard_vocab_limit=False, model_prefix=str(tmp_path / "spiece"),
    )  # fmt: skip
    settings = {"tokenizer_class": "SiglipTokenizer", "model_input_names": ["input_ids"], "pad_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


def test_a_sentencepiece_tokenizer_equals_the_librarys_own(published):
    parts = (transformers.AutoModel, transformers.AutoImageProcessor, transformers.AutoTokenizer)
    model, images, tokenizer = (part.from_pretrained(published) for part in parts)
    processor = transformers.SiglipProcessor(images, tokenizer)
    (expected,) = library((str(published), model, processor), [TEMPLATE.format(name) for name in CLASSES])
    assert np.ptp(expected) > 0.01
    ours = whymask.load(str(published), classes=CLASSES)
    np.testing.assert_allclose([score(ours, name) for name in CLASSES], expected, atol=1e-5)


@pytest.mark.parametrize("package", ["sentencepiece", "protobuf"])
def test_a_missing_tokenizer_library_is_named(published, monkeypatch, package):
    backends = transformers.utils.import_utils.BACKENDS_MAPPING
    monkeypatch.setitem(backends, package, (lambda: False, backends[package][1]))
    with pytest.raises(WhymaskError, match=rf"it needs {package}, .*: pip install 'whymask\[hf\]'\.$"):
        whymask.load(str(published), classes=CLASSES)


def test_equals_the_library_on_the_unmasked_image(checkpoint):
    (expected,) = library(checkpoint, [TEMPLATE.format(name) for name in CLASSES])
    assert np.ptp(expected) > 0.01
    model = whymask.load(checkpoint[0], classes=CLASSES)
    np.testing.assert_allclose([score(model, name) for name in CLASSES], expected, atol=1e-5)
    assert model.bind(PHOTO).target.label == CLASSES[expected.argmax()]


def test_masked_images_equal_the_librarys_whatever_the_batch(checkpoint):
    """Each is masked on the canvas, an image that the processor leaves as it is."""
    model = whymask.load(checkpoint[0], classes=CLASSES)
    case = Case.of(PHOTO, model, target="dog", regions="grid:4x4")
    rows = np.random.default_rng(0).random((8, 16)) < 0.5
    images = [np.where(row[case.partition.labels][..., None], case.bound.canvas, 0).astype(np.uint8) for row in rows]
    expected = library(checkpoint, [TEMPLATE.format(name) for name in CLASSES], [Image.fromarray(i) for i in images])
    assert np.ptp(expected[:, 2]) > 1e-3
    inputs = torch.stack([model.encode(image) for image in images])
    for size in (1, 3, 8):
        parts = [model.respond(part, [case.bound] * len(part)) for part in inputs.split(size)]
        np.testing.assert_allclose(np.concatenate([part.score for part in parts]), expected[:, 2], atol=1e-5)
        np.testing.assert_array_equal(np.concatenate([part.top for part in parts]), expected.argmax(axis=1))


def test_a_naflex_image_keeps_its_shape(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tiny_siglip.save(tmp_path / "naflex", naflex=True)
    model = whymask.load(str(tmp_path / "naflex"), classes=CLASSES)
    shapes = [model.bind(Image.new("RGB", size)).canvas.shape for size in ((400, 300), (300, 400), (100, 900))]
    assert shapes == [(40, 56, 3), (56, 40, 3), (144, 16, 3)]  # at most 40 patches of 8 x 8


def test_a_text_is_scored_whatever_the_classes_are(checkpoint):
    (expected,) = library(checkpoint, [TEMPLATE.format("dog"), "a launch at dawn"])[0:1]
    for classes in (["dog"], CLASSES):
        model = whymask.load(checkpoint[0], classes=classes)
        assert score(model, "dog") == pytest.approx(expected[0], abs=1e-5)
        assert score(model, "a launch at dawn") == pytest.approx(expected[1], abs=1e-5)
        assert score(model, "A Launch at DAWN") == score(model, "a launch at dawn")  # the tokenizer's lower case


def test_templates_are_averaged_as_unit_vectors(checkpoint):
    folder, siglip, processor = checkpoint
    model = whymask.load(folder, classes=CLASSES, templates=["a {}.", "art of the {}."])
    tokens = processor.tokenizer(
        ["a dog.", "art of the dog."], padding="max_length", max_length=64, return_tensors="pt"
    )
    with torch.inference_mode():
        text = torch.nn.functional.normalize(siglip.text_model(**tokens).pooler_output, dim=-1).mean(dim=0)
        image = siglip.vision_model(**processor.image_processor(images=PHOTO, return_tensors="pt")).pooler_output[0]
        logit = siglip.logit_scale.exp() * torch.cosine_similarity(image, text, dim=0) + siglip.logit_bias
    assert score(model, "dog") == pytest.approx(float(logit.sigmoid()), abs=1e-5)


def test_a_long_text_is_cut_at_the_models_length(checkpoint):
    model = whymask.load(checkpoint[0], classes=CLASSES)
    assert score(model, "a" * 64) == score(model, "a" * 80) != score(model, "a" * 63)


def test_gradients_are_those_of_the_library(checkpoint):
    """By pixel, summed over colours: the processor of SigLIP 2 cuts the image into patches."""
    folder, siglip, processor = checkpoint
    model = whymask.load(folder, classes=CLASSES)
    image = model.differentiable(model.bind(PHOTO, target="tower"))
    inputs = image.inputs[None].clone().requires_grad_()
    (ours,) = torch.autograd.grad(image.score(inputs).sum(), inputs)
    given = dict(processor.image_processor(images=Image.fromarray(image.bound.canvas), return_tensors="pt"))
    given["pixel_values"].requires_grad_()
    probability = siglip(**given, **tokens_of(processor, [TEMPLATE.format("tower")])).logits_per_image.sigmoid().sum()
    (theirs,) = torch.autograd.grad(probability, given["pixel_values"])
    if "spatial_shapes" in given:
        rows, columns = given["spatial_shapes"][0]
        patches = theirs[0, : rows * columns].view(rows, columns, 8, 8, 3)
        theirs = patches.permute(4, 0, 2, 1, 3).reshape(1, 3, rows * 8, columns * 8)
    assert ours.abs().max() > 1e-5
    np.testing.assert_allclose(ours.sum(dim=1), theirs.sum(dim=1), atol=1e-4 * float(ours.abs().max()))


@pytest.mark.parametrize("method", ["grad-cam", "gradient", "igos++", "trace", "discs+swap"])
def test_methods_explain_it(method, checkpoint):
    if method == "gradient":
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    model = whymask.load(checkpoint[0], classes=CLASSES)
    small = {"trace": {"rounds": 2, "k": 3}, "igos++": {"iterations": 1, "ig_steps": 2}, "discs+swap": {"k": 3}}
    options = {"regions": "grid:4x4", "method": method, "params": small.get(method, {})}
    for target in ("rocket", "a launch at dawn"):
        found = whymask.explain(PHOTO, model, target=target, **options)
        assert found.target.label == target
        assert found.n == 16


def test_grad_eclip_is_for_clip(checkpoint):
    model = whymask.load(checkpoint[0], classes=CLASSES)
    with pytest.raises(WhymaskError, match="grad-eclip"):
        whymask.explain(PHOTO, model, method="grad-eclip", regions="grid:4x4")


def test_bias_texts_and_weights_are_part_of_the_fingerprint(checkpoint, tmp_path):
    def load(folder=checkpoint[0], **options):
        return whymask.load(str(folder), **{"classes": CLASSES, **options}).fingerprint

    others = [
        edited(checkpoint[0], tmp_path / name, lambda n, t, name=name: t + 1 if n == name else t)
        for name in ("logit_bias", "logit_scale", "text_model.head.weight")
    ]
    different = [*map(load, others), load(classes=CLASSES[:3]), load(templates=["a {}"])]
    assert len({load(), *different}) == 6
    assert load() == load()


def test_an_incomplete_checkpoint_is_one_sentence(checkpoint, tmp_path):
    half = without(checkpoint[0], tmp_path / "half", "logit_bias")
    with pytest.raises(WhymaskError, match=r"is incomplete: the weights logit_bias are missing"):
        whymask.load(str(half), classes=CLASSES)


def test_the_registry_knows_it_by_its_configuration(checkpoint, tmp_path):
    family = find(checkpoint[0])[0]
    kind = checkpoint[1].config.model_type
    assert family is FAMILIES[{"siglip": "NAME/OF-SIGLIP", "siglip2": "NAME/OF-SIGLIP2-NAFLEX"}[kind]]
    assert set(family.can) == {"gradients", "class"}
    config = deepcopy(checkpoint[1].config)
    config.architectures = [f"{type(checkpoint[1]).__name__.removesuffix('Model')}ForImageClassification"]
    config.save_pretrained(tmp_path / "head")
    assert find(str(tmp_path / "head"))[0].name == "hf:NAME"


@pytest.fixture(params=["clip", "siglip", "siglip2"])
def ready(request, tmp_path, monkeypatch):
    """A folder, and the model and the processor that a user has loaded from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if request.param == "clip":
        tiny_clip.save(tmp_path / "model")
    else:
        tiny_siglip.save(tmp_path / "model", naflex=request.param == "siglip2")
    loaded = transformers.AutoModel.from_pretrained(tmp_path / "model")
    images = transformers.AutoImageProcessor.from_pretrained(tmp_path / "model")
    kind = getattr(transformers, type(loaded).__name__.replace("Model", "Processor"))
    return str(tmp_path / "model"), loaded, kind(images, transformers.AutoTokenizer.from_pretrained(tmp_path / "model"))


def test_a_ready_module_scores_as_its_checkpoint_and_is_left_as_it_is(ready):
    folder, module, processor = ready
    module.train()
    before = deepcopy(module.state_dict())
    ours = whymask.wrap(module, processor, classes=CLASSES)
    loaded = whymask.load(folder, classes=CLASSES)
    for target in (*CLASSES, "a launch at dawn"):
        assert score(ours, target) == pytest.approx(score(loaded, target), abs=1e-6)
    assert all(part.training for part in module.modules())
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())


def test_a_ready_module_is_seen_with_its_current_weights(ready):
    _, module, processor = ready
    model = whymask.wrap(module, processor, classes=CLASSES)
    first, identity = score(model, "dog"), model.fingerprint
    with torch.no_grad():
        module.vision_model.post_layernorm.weight.mul_(torch.linspace(0.5, 1.5, 32))
    assert score(model, "dog") != first
    changed = model.fingerprint
    with torch.no_grad():
        next(module.text_model.parameters()).add_(1)
    assert score(model, "dog") == score(model, "dog")
    again = whymask.wrap(module, processor, classes=CLASSES)
    assert len({identity, changed, again.fingerprint}) == 3
