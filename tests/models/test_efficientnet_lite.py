from copy import deepcopy

import numpy as np
import pytest
import torch
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.models import MODELS
from whymask.models.efficientnet_lite import SIZES

missing = [name for name in SIZES if not MODELS[name].installed]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"the weights of {missing} are not installed: whymask[lite]")


@pytest.mark.parametrize("name", SIZES)
def test_classifies_photos(name):
    model = whymask.load(name)
    assert len(model.labels) == len(set(model.labels)) == 1000
    coffee = model.bind(f"{data_dir}/coffee.png")
    assert coffee.target.label == "espresso"
    assert coffee.canvas.shape == (SIZES[name], SIZES[name], 3)
    assert model.respond(coffee.inputs[None], [coffee]).score[0] > 0.5


@pytest.mark.parametrize("name", SIZES)
def test_onnxruntime_and_torch_agree(name):
    """Each runtime is as near to the exact logits, those of the same module in double precision, as fp32 allows.

    A sum of n products is off by about sqrt(n) roundings of 2**-24 in whatever order it is added, and the layers'
    errors add up: the bound is their sum, relative to the largest logit. A probability moves by at most half of what
    the logits move.
    """
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
    fast, plain = whymask.load(name, runtime="onnx"), whymask.load(name, runtime="torch")
    assert type(whymask.load(name)) is type(fast)
    case = Case.of(f"{data_dir}/coffee.png", plain, regions="grid:4x4", target="espresso")
    inputs = case.inputs(np.random.default_rng(0).random((4, 16)) < 0.6)
    with torch.inference_mode():
        exact = deepcopy(plain.module).double()(inputs.double()).numpy()
    layers = [part.weight[0].numel() for part in plain.module.modules() if hasattr(part, "weight")]
    bound = np.abs(exact).max() * sum(np.sqrt(layers)) * 2**-24
    np.testing.assert_allclose(fast._run(inputs), exact, rtol=0, atol=bound)
    np.testing.assert_allclose(plain.logits(inputs), exact, rtol=0, atol=bound)
    scores = [model.respond(inputs, [case.bound] * 4).score for model in (fast, plain)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=0, atol=bound)
    with pytest.raises(WhymaskError, match="did you mean 'torch'"):
        whymask.load(name, runtime="troch")


def test_class_names():
    model = whymask.load("efficientnet-lite0")
    assert model.labels[281] == "tabby"
    for name in ("tabby", "tabby cat", "Tabby"):
        assert model.resolve(name) == 281
    assert [model.resolve(label) for label in model.labels] == list(range(1000))  # two cranes, two cardigans
    with pytest.raises(WhymaskError, match="did you mean 'construction crane' or 'crane bird'"):
        model.resolve("crane")
    with pytest.raises(WhymaskError, match=r"did you mean .*'persian cat'"):
        model.resolve("cat")
    with pytest.raises(WhymaskError, match="did you mean 'great grey owl'"):
        model.resolve("grey owl")
    with pytest.raises(WhymaskError, match="did you mean 'goldfish'"):
        model.resolve("goldfsh")


def test_inputs_are_as_the_weights_expect():
    model = whymask.load("efficientnet-lite0")
    image = np.zeros((300, 300, 3), dtype=np.uint8)
    image[..., 0], image[..., 1] = 127, 255
    inputs = model.bind(image, target=0).inputs
    np.testing.assert_array_equal(inputs[:, 0, 0].numpy(), [0.0, 1.0, np.float32(-127 / 128)])


def test_registry():
    assert all(entry.installed for entry in MODELS.values())
    with pytest.raises(WhymaskError, match="did you mean 'efficientnet-lite0'"):
        whymask.load("eficientnet-lite0")


def test_fingerprints_tell_models_apart():
    assert whymask.load("efficientnet-lite0").fingerprint != whymask.load("efficientnet-lite1").fingerprint


def test_only_the_torch_module_is_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module: module)
    assert whymask.load("efficientnet-lite0", compile=True).settings["compiled"] == "yes"
    with pytest.raises(WhymaskError, match="leave out runtime='onnx'"):
        whymask.load("efficientnet-lite0", compile=True, runtime="onnx")
