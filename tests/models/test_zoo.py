"""torchvision and timm against their own preprocessing, where they can be imported."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from skimage.data import data_dir

from whymask import WhymaskError
from whymask.images.imaging import load_image
from whymask.models import zoo
from whymask.models.packages import optional

PHOTO = load_image(f"{data_dir}/rocket.jpg")


@pytest.mark.parametrize("name", ["timm:resnet18", "timm:vit_tiny_patch16_224", "torchvision:resnet18"])
def test_equals_the_library_on_the_unmasked_image(name):
    family, architecture = name.split(":")
    package = optional(family)
    if package is None:
        pytest.skip(f"{family} cannot be imported here")
    torch.manual_seed(0)
    ours = zoo.load(name, pretrained=False)
    if family == "timm":
        config = package.data.resolve_model_data_config(ours.module)
        pixels = package.data.create_transform(**config, is_training=False)(PHOTO)[None]
    else:
        pixels = package.models.get_model_weights(architecture).DEFAULT.transforms()(PHOTO)[None]
    with torch.inference_mode():
        expected = ours.module(pixels).softmax(dim=1)[0].numpy()
    bound = ours.bind(PHOTO)
    response = ours.respond(bound.inputs[None], [bound])
    assert bound.target.index == expected.argmax()
    assert response.score[0] == pytest.approx(expected.max(), abs=1e-4)
    width, height = PHOTO.size
    assert bound.box[0] == pytest.approx(0.5 - (bound.box[3] - bound.box[1]) * height / width / 2, abs=0.01)
    assert np.isfinite(response.score).all()


@pytest.mark.parametrize(
    ("source", "classes", "words"),
    [({}, 1000, "no pretrained weights"), ({"url": "", "hf_hub_id": None}, 1000, "no pretrained weights"),
     ({"hf_hub_id": "timm/backbone"}, 0, "no classification head")],
)  # fmt: skip
def test_random_weights_and_bare_features_are_refused(source, classes, words, monkeypatch):
    """What timm only warns of, as of its versions that do."""
    module = SimpleNamespace(pretrained_cfg=source, num_classes=classes)
    timm = SimpleNamespace(create_model=lambda name, pretrained: module)
    monkeypatch.setattr(zoo, "required", lambda name, message: timm)
    with pytest.raises(WhymaskError, match=f"timm cannot build 'some_net': .*{words}"):
        zoo.load("timm:some_net")
