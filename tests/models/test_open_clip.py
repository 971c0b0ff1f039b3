"""open_clip itself, random weights in a file: the adapter against open_clip's own forward, and every method on it.

Runs where open_clip can be imported (pip install 'whymask[clip]'): on CUDA with two of the paper's architectures, on a
CPU with small ones of the same kinds.
"""

import json
import warnings

import numpy as np
import pytest
import torch
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.images.imaging import load_image
from whymask.methods import Recipe, methods
from whymask.models import FAMILIES
from whymask.models.clip import CLASSES as CLASS_FILE
from whymask.models.clip import TEMPLATES as TEMPLATE_FILE
from whymask.models.packages import optional

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what other packages deprecate is not ours
    open_clip = optional("open_clip")
if open_clip is None:
    pytest.skip("open_clip cannot be imported here: whymask[clip]", allow_module_level=True)

PHOTO = load_image(f"{data_dir}/rocket.jpg")
CLASSES = ["rocket", "tower", "dog", "cup of tea", "fire engine"]
TEMPLATES = ["a photo of a {}.", "art of the {}."]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 4, "layers": 2}
TINY = {
    "tiny-RN": {"image_size": 96, "layers": [1, 1, 1, 1], "width": 8, "head_width": 32, "patch_size": None},
    "tiny-ViT": {"image_size": 96, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
}
ARCHITECTURES = ["RN101", "ViT-L-14"] if DEVICE == "cuda" else list(TINY)
SMALL = {
    "k": 3, "rounds": 2, "samples": 24, "coarse_min": 2, "masks": 8, "designs": 8, "iterations": 1, "ig_steps": 2,
    "steps": 3, "tries": 8, "k_max": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Small architectures that open_clip knows, with a tag each."""
    folder = tmp_path_factory.mktemp("architectures")
    for name, vision in TINY.items():
        config = {"embed_dim": 24, "vision_cfg": vision, "text_cfg": TEXT}
        (folder / f"{name}.json").write_text(json.dumps(config))
        (folder / f"{name}-quickgelu.json").write_text(json.dumps({**config, "quick_gelu": True}))
    open_clip.add_model_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in TINY:
            tags = {"openai": open_clip.get_pretrained_cfg("RN101", "openai")}
            patch.setitem(open_clip.pretrained._PRETRAINED, name, tags)
        yield


@pytest.fixture(scope="module", params=ARCHITECTURES)
def built(request, tiny, tmp_path_factory):
    """(architecture, file of weights, model, preprocessing), as open_clip builds them with QuickGELU."""
    torch.manual_seed(0)
    architecture = f"{request.param}-quickgelu"
    model, _, transform = open_clip.create_model_and_transforms(architecture)
    file = tmp_path_factory.mktemp("weights") / "weights.pt"
    torch.save(model.state_dict(), file)
    return request.param, file, model.eval(), transform


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where texts are kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def model(built, cache):
    architecture, file, *_ = built
    return whymask.load(f"clip:{architecture}-quickgelu/{file}", classes=CLASSES, templates=TEMPLATES, device=DEVICE)


def library(built, free=()):
    """open_clip's own zero-shot probabilities, and the error that single precision may make in them."""
    architecture, _, model, transform = built
    tokenizer = open_clip.get_tokenizer(architecture)

    def embed(texts):
        return torch.nn.functional.normalize(model.encode_text(tokenizer(texts)), dim=-1)

    with torch.inference_mode():
        rows = [embed([template.format(name) for template in TEMPLATES]).mean(dim=0) for name in CLASSES]
        rows += [embed([text])[0] for text in free]
        features = model.encode_image(transform(PHOTO)[None], normalize=True)
        scale = model.logit_scale.exp()
        logits = scale * features @ torch.nn.functional.normalize(torch.stack(rows), dim=-1).T
    layers = sum(1 for _ in model.visual.modules())
    return logits.softmax(dim=-1)[0].numpy(), float(scale) * torch.finfo(torch.float32).eps * layers


def score(model, target):
    bound = model.bind(PHOTO, target=target)
    return model.respond(bound.inputs[None], [bound]).score[0]


def test_equals_open_clip_on_the_unmasked_image(built, cache):
    architecture, file, *_ = built
    ours = whymask.load(f"clip:{architecture}-quickgelu/{file}", classes=CLASSES, templates=TEMPLATES)  # CUDA has TF32
    expected, error = library(built)
    assert expected.max() - expected.min() > 10 * error
    np.testing.assert_allclose([score(ours, name) for name in CLASSES], expected, atol=error)
    assert ours.bind(PHOTO).target.label == CLASSES[expected.argmax()]
    free, _ = library(built, ["a launch at dawn"])
    assert score(ours, "a launch at dawn") == pytest.approx(free[-1], abs=error)


def test_the_module_gives_the_image_embedding(built, model):
    _, _, theirs, _ = built
    bound = model.bind(PHOTO, target=0)
    assert model.module(bound.inputs[None]).shape == (1, theirs.visual.output_dim)


def activations(model):
    return {type(part).__name__ for part in model.modules() if "GELU" in type(part).__name__}


@pytest.mark.filterwarnings("ignore")  # the error is not pytest's
def test_the_activation_is_that_of_the_weights(built, cache, monkeypatch):
    """A tag says it; of a file, the name of the architecture does."""
    architecture, file, *_ = built
    texts, made = {"classes": CLASSES, "templates": TEMPLATES}, []
    build = open_clip.create_model_from_pretrained

    def watched(*args, **options):
        made.append(build(*args, **options))
        return made[-1]

    monkeypatch.setattr(open_clip, "create_model_from_pretrained", watched)
    monkeypatch.setattr(open_clip.factory, "download_pretrained", lambda *_, **__: str(file))
    names = [f"{architecture}/openai", f"{architecture}-quickgelu/{file}", f"{architecture}/{file}"]
    models = [whymask.load(f"clip:{name}", **texts) for name in names]
    assert [activations(each) for each, _ in made] == [{"QuickGELU"}, {"QuickGELU"}, {"GELU"}]
    assert models[0].fingerprint == models[1].fingerprint != models[2].fingerprint
    assert score(models[0], 0) == score(models[1], 0) != score(models[2], 0)
    monkeypatch.setattr(open_clip, "get_pretrained_cfg", lambda *_: {})  # as if nobody had asked the tag
    with pytest.raises(WhymaskError, match="QuickGELU mismatch"):
        whymask.load(f"clip:{architecture}/openai", **texts)


@pytest.mark.parametrize("name", ["RN101/nothing", "RN101/none.pt", "none/openai", "local-dir:/none"])
def test_what_it_cannot_load_is_one_sentence(name, cache):
    with pytest.raises(WhymaskError, match=f"^open_clip cannot load '{name}': .+"):
        whymask.load(f"clip:{name}", classes=CLASSES)


def test_the_usual_texts_are_open_clips():
    assert CLASS_FILE.read_text(encoding="utf-8").splitlines() == list(open_clip.IMAGENET_CLASSNAMES)
    templates = [template("{}") for template in open_clip.OPENAI_IMAGENET_TEMPLATES]
    assert TEMPLATE_FILE.read_text(encoding="utf-8").splitlines() == templates


CAN = set(FAMILIES["clip:ARCH/WEIGHTS"].can)
NAMES = [method.name for method in methods() if "+" not in method.name.strip("+") and method.abilities <= CAN]


@pytest.mark.parametrize("method", [*NAMES, "trace+greedy", "trace+phasewin", "copair+greedy", "discs+swap"])
@pytest.mark.parametrize("target", ["rocket", "a launch at dawn"])
def test_every_method_explains_it(method, target, model):
    if "gradient" in method:
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    known = Recipe(method).method.parameters
    params = {name: value for name, value in SMALL.items() if name in known}
    found = whymask.explain(PHOTO, model, method=method, target=target, regions="grid:3x3", params=params)
    assert found.n == 9


def test_grad_eclip_explains_a_vision_transformer_or_says_why_not(model):
    try:
        found = whymask.explain(PHOTO, model, method="grad-eclip", target="rocket", regions="grid:3x3")
    except WhymaskError as error:
        assert "grad-eclip" in str(error)  # noqa: PT017
    else:
        assert found.n == 9
