"""Detectors of torchvision; `wrapped` itself is tested with a planted module, without torchvision."""

import numpy as np
import pytest
import torch

import whymask
from whymask.models.packages import optional
from whymask.models.torchvision_detector import LEAST, wrapped

from models.planted import LABELS, OBJECTS, boxes, photo

torchvision = optional("torchvision")
needs_torchvision = pytest.mark.skipif(torchvision is None, reason="torchvision is not installed")


class Planted(torch.nn.Module):
    """As torchvision's detectors: a list of images (3, H, W) in [0, 1], tensors in what it returns."""

    def __init__(self):
        super().__init__()
        self.score_thresh = 0.05
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        pixels = np.stack([(255 * image).permute(1, 2, 0).round().byte().numpy() for image in images])
        return [{name: torch.as_tensor(part) for name, part in one.items()} for one in boxes(pixels)]


def test_images_and_boxes_are_as_torchvision_has_them():
    module = Planted().train()
    model = wrapped(module, LABELS, "planted", "cpu")
    assert (module.training, module.score_thresh) == (False, LEAST)
    evidence = whymask.explain(photo(), model, target="cat", regions="grid:8x8", k=4)
    left, top, right, bottom = OBJECTS["cat"][1]
    inside = np.zeros((64, 64), dtype=bool)
    inside[top:bottom, left:right] = True
    np.testing.assert_array_equal(evidence.mask, inside)
    assert evidence.score == pytest.approx(0.8)
    assert evidence.provenance["device"] == "cpu"


@needs_torchvision
@pytest.mark.parametrize(
    "name", ["fasterrcnn_mobilenet_v3_large_320_fpn", "retinanet_resnet50_fpn", "ssdlite320_mobilenet_v3_large"]
)
def test_boxes_are_those_of_torchvision(name):
    """Random weights, so that nothing is downloaded: every box is one of its own, with the same score."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = whymask.load(f"torchvision:{name}", pretrained=False, device=device)
    image = np.random.default_rng(0).integers(0, 256, (200, 320, 3)).astype(np.uint8)
    view = model.view(image)
    np.testing.assert_array_equal(view.canvas, image)
    (found,) = model.detect(view.canvas[None], [model.classes], view.canvas.shape[:2])
    (own,) = model.function(image[None])
    assert len(found.boxes) == len(own["boxes"])
    np.testing.assert_allclose(found.boxes * [320, 200, 320, 200], own["boxes"].cpu(), atol=1e-3)
    chosen = found.scores[np.arange(len(found.scores)), own["labels"].cpu()]
    np.testing.assert_allclose(chosen, own["scores"].cpu(), atol=1e-6)
    assert "person" in model.classes
