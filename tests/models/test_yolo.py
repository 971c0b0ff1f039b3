"""YOLO's outputs, from files that see the planted objects as far as their pixels are bright."""

import warnings

import numpy as np
import pytest
import torch

import whymask
from whymask.errors import WhymaskError

from models.planted import OBJECTS, photo

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
NAMES = ["dog", "cat", "horse"]
SIZE = 64


class Planted(torch.nn.Module):
    """Two boxes, scored by how bright they are, as one of three exports has them."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        corners = torch.tensor([box for _, box in OBJECTS.values()], dtype=torch.float32)
        masks = torch.zeros(2, SIZE, SIZE)
        for mask, (left, top, right, bottom) in zip(masks, corners.long().tolist(), strict=True):
            mask[top:bottom, left:right] = 1 / 256
        self.register_buffer("corners", corners)
        self.register_buffer("masks", masks)

    def forward(self, pixels):
        seen = (pixels.mean(dim=1)[:, None] * self.masks).sum(dim=(2, 3)) * (255 / 220)  # (B, 2)
        corners = self.corners + 0 * seen[..., None]  # (B, 2, 4)
        if self.kind == "suppressed":
            return torch.cat([corners, seen[..., None], (torch.arange(2.0) + 0 * seen)[..., None]], dim=2)
        centres = torch.cat([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], dim=2)
        scores = seen[..., None] * torch.eye(2, 3)
        if self.kind == "columns":
            return torch.cat([centres, scores], dim=2).transpose(1, 2)
        return torch.cat([centres, seen[..., None], torch.eye(2, 3) + 0 * scores], dim=2)


def exported(kind, path, names=NAMES, batch="batch"):
    axes = {"images": {0: batch}} if batch else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package says it is the older one
        torch.onnx.export(
            Planted(kind), (torch.zeros(1, 3, SIZE, SIZE),), str(path), dynamo=False, input_names=["images"],
            output_names=["output0"], dynamic_axes=axes,
        )  # fmt: skip
    model = onnx.load(str(path))
    if names:
        onnx.helper.set_model_props(model, {"names": str(dict(enumerate(names))), "task": "detect"})
    onnx.save(model, str(path))
    return f"yolo:{path}"


@pytest.mark.parametrize("batch", ["batch", None])
@pytest.mark.parametrize("kind", ["columns", "rows", "suppressed"])
def test_the_object_is_the_evidence(tmp_path, kind, batch):
    model = whymask.load(exported(kind, tmp_path / "yolo.onnx", batch=batch))
    assert model.classes == NAMES
    wide = np.full((128, 160, 3), 40, np.uint8)  # brought to 51 x 64, below it is grey
    small = model.view(wide).canvas
    assert small.shape == (51, 64, 3)
    evidence = whymask.explain(photo(), model, target="cat", regions="grid:8x8", k=4)
    left, top, right, bottom = OBJECTS["cat"][1]
    inside = np.zeros((64, 64), dtype=bool)
    inside[top:bottom, left:right] = True
    np.testing.assert_array_equal(evidence.mask, inside)
    assert evidence.score == pytest.approx(1, abs=1e-5)
    assert evidence.target.label == "cat at 0.625,0.625,0.875,0.875"


def test_boxes_are_shares_of_the_image_without_the_bars(tmp_path):
    model = whymask.load(exported("columns", tmp_path / "yolo.onnx"))
    wide = np.zeros((32, 64, 3), np.uint8)
    wide[8:24, 8:24] = 220
    bound = model.bind(wide, target="dog")
    assert bound.inputs.shape == (3, 64, 64)
    assert float(bound.inputs[0, 40, 3]) == pytest.approx(114 / 255)
    assert bound.target.label == "dog at 0.125,0.25,0.375,0.75"
    assert model.detections(wide)[0].box == pytest.approx((8, 8, 24, 24))


def test_what_cannot_be_read_is_a_sentence(tmp_path):
    name = exported("suppressed", tmp_path / "yolo.onnx", names=None)
    with pytest.raises(WhymaskError, match="pass labels"):
        whymask.load(name)
    assert whymask.load(name, labels=NAMES).classes == NAMES
    with pytest.raises(WhymaskError, match="a YOLO detector is loaded as yolo:"):
        whymask.load(str(tmp_path / "yolo.onnx"), size=64, mean=(0, 0, 0), std=(255, 255, 255))
    with pytest.raises(WhymaskError, match="not squares"):
        whymask.load(name, labels=NAMES, size=128)
    with pytest.raises(WhymaskError, match="there is no file"):
        whymask.load("yolo:missing.onnx")
