"""CLIP built small in process, against transformers' own processor and model."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.images.imaging import load_image
from whymask.models import clip
from whymask.models.clip import cached_text_matrix

from models.checkpoints import without

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
PHOTO = load_image(f"{data_dir}/rocket.jpg")
CLASSES = ["rocket", "tower", "dog", "cup of tea"]


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A CLIP whose texts and images point in different directions, with a tokenizer of single letters."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.manual_seed(0)
    letters = [*"abcdefghijklmnopqrstuvwxyz.,'"]
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder = tmp_path / "clip"
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    text = {**small, "vocab_size": len(vocabulary), "max_position_embeddings": 40, "eos_token_id": len(vocabulary) - 1,
            "bos_token_id": len(vocabulary) - 2, "pad_token_id": len(vocabulary) - 1}  # fmt: skip
    config = transformers.CLIPConfig(
        text_config=text, vision_config={**small, "image_size": 64, "patch_size": 16}, projection_dim=16,
        logit_scale_init_value=1.0,
    )  # fmt: skip
    model = transformers.CLIPModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    processor = transformers.CLIPImageProcessorPil(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    for part in (model, tokenizer, processor):
        part.save_pretrained(folder)
    # As a user loads it: where torchvision is installed, its resizing differs from Pillow's by a grey level.
    return str(folder), model, transformers.AutoImageProcessor.from_pretrained(folder), tokenizer


def library(checkpoint, texts):
    """transformers' own zero-shot probabilities."""
    _, model, processor, tokenizer = checkpoint
    inputs = dict(processor(images=PHOTO, return_tensors="pt"))
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        output = model(**inputs, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
    return output.logits_per_image.softmax(dim=-1)[0].numpy()


def score(model, target):
    bound = model.bind(PHOTO, target=target)
    return model.respond(bound.inputs[None], [bound]).score[0]


def test_equals_the_library_on_the_unmasked_image(checkpoint):
    expected = library(checkpoint, [f"a photo of a {name}." for name in CLASSES])
    assert expected.max() < 0.999
    model = whymask.load(checkpoint[0], classes=CLASSES)
    for index, name in enumerate(CLASSES):
        assert score(model, name) == pytest.approx(expected[index], abs=1e-4)
    assert model.bind(PHOTO).target.label == CLASSES[expected.argmax()]


def test_templates_are_averaged_as_unit_vectors(checkpoint, tmp_path):
    (tmp_path / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    (tmp_path / "templates.txt").write_text("a photo of a {}.\nart of the {}.\n")
    model = whymask.load(checkpoint[0], classes=tmp_path / "classes.txt", templates=str(tmp_path / "templates.txt"))
    _, clip, processor, tokenizer = checkpoint
    with torch.inference_mode():
        image = clip.visual_projection(clip.vision_model(**processor(images=PHOTO, return_tensors="pt")).pooler_output)
        rows = []
        for name in CLASSES:
            tokens = tokenizer([f"a photo of a {name}.", f"art of the {name}."], padding=True, return_tensors="pt")
            text = clip.text_projection(clip.text_model(tokens["input_ids"], tokens["attention_mask"]).pooler_output)
            mean = torch.nn.functional.normalize(text, dim=-1).mean(dim=0)
            rows.append(torch.nn.functional.normalize(mean, dim=-1))
        logits = clip.logit_scale.exp() * torch.nn.functional.normalize(image, dim=-1) @ torch.stack(rows).T
    expected = logits.softmax(dim=-1)[0].numpy()
    for index, name in enumerate(CLASSES):
        assert score(model, name) == pytest.approx(expected[index], abs=1e-4)


def test_free_text_is_one_more_class_for_those_who_ask(checkpoint):
    texts = [f"a photo of a {name}." for name in CLASSES]
    model = whymask.load(checkpoint[0], classes=CLASSES)
    before = score(model, "rocket")
    free = score(model, "a launch at dawn")
    assert free == pytest.approx(library(checkpoint, [*texts, "a launch at dawn"])[-1], abs=1e-4)
    score(model, "something else")
    assert score(model, "a launch at dawn") == free  # whatever else was asked meanwhile
    assert score(model, "rocket") == before
    both = [model.bind(PHOTO, target=t) for t in ("rocket", "a launch at dawn")]
    together = model.respond(torch.stack([b.inputs for b in both]), both)
    np.testing.assert_allclose(together.score, [before, free], atol=1e-6)


def test_explains_a_free_text(checkpoint):
    model = whymask.load(checkpoint[0], classes=CLASSES)
    found = whymask.explain(
        PHOTO, model, target="a launch", regions="grid:4x4", k=3, method="trace", params={"rounds": 2}
    )
    assert found.target.label == "a launch"


def test_the_only_class_is_no_target(checkpoint):
    model = whymask.load(checkpoint[0], classes=["rocket"])
    for target in (None, 0, "rocket"):
        with pytest.raises(WhymaskError, match="scores 1 on every image: pass more classes"):
            model.bind(PHOTO, target=target)
    assert 0 < score(model, "a launch") < 1


def test_the_text_matrix_is_computed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def embed(texts):
        calls.append(texts)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    first = cached_text_matrix(embed, ["a", "bb"], ["{}", "my {}"], "model")
    again = cached_text_matrix(embed, ["a", "bb"], ["{}", "my {}"], "model")
    np.testing.assert_array_equal(first, again)
    assert calls == [["a", "my a"], ["bb", "my bb"]]
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, atol=1e-6)
    cached_text_matrix(embed, ["a", "bb"], ["{}", "my {}"], "another model")
    assert len(calls) == 4


def test_open_clip_without_weights_is_refused(monkeypatch):
    built = []
    library = SimpleNamespace(create_model_and_transforms=lambda *_, **options: built.append(options))
    monkeypatch.setattr(clip, "optional", lambda name: library)
    for name in ("clip:RN101", "clip:RN101/"):
        with pytest.raises(WhymaskError, match="names no weights: pass 'clip:ARCH/WEIGHTS'"):
            whymask.load(name, classes=CLASSES, templates=["{}"])
    assert built == []


def test_bad_lists_are_one_clear_sentence(checkpoint, tmp_path):
    (tmp_path / "empty.txt").touch()
    for options, words in (
        ({"classes": tmp_path / "missing.txt"}, "there is no file"),
        ({"classes": tmp_path / "empty.txt"}, "is empty"),
        ({"classes": CLASSES, "templates": ["a photo"]}, "every template needs"),
    ):
        with pytest.raises(WhymaskError, match=words):
            whymask.load(checkpoint[0], **options)
    with pytest.raises(WhymaskError, match=r"is incomplete: the weights visual_projection\.weight are missing"):
        whymask.load(str(without(checkpoint[0], tmp_path / "half", "visual_projection.weight")), classes=CLASSES)
    with pytest.raises(WhymaskError, match="needs open_clip"):
        whymask.load("clip:RN101/openai", classes=CLASSES)
