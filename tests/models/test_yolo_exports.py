"""YOLO files whose heads are those of the published models, against plain decoding of what the files return.

Weights are random; what matters is how a box is written: YOLOv5's anchors and objectness, (B, n, 5 + C); YOLOv8's
distances, (B, 4 + C, n); YOLOv10's best boxes without suppression, (B, k, 6).
"""

import warnings

import numpy as np
import pytest
import torch

import whymask

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
NAMES = ["dog", "cat", "horse", "traffic light"]
SIZE, STRIDES = 64, (8, 16)
LAYOUTS = ["v5", "v8", "v10"]
PHOTO = np.random.default_rng(0).integers(0, 256, (12, 24, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)


class Head(torch.nn.Module):
    """Boxes at every cell of two grids, as a family's export decodes them."""

    def __init__(self, layout, classes=4):
        super().__init__()
        torch.manual_seed(3)
        self.layout, self.classes = layout, classes
        channels = 3 * (5 + classes) if layout == "v5" else 4 * 16 + classes
        self.convolutions = torch.nn.ModuleList(torch.nn.Conv2d(3, channels, stride, stride) for stride in STRIDES)
        for convolution in self.convolutions:
            torch.nn.init.normal_(convolution.weight, std=1.5 / convolution.weight[0].numel() ** 0.5)
        self.register_buffer(
            "anchors", torch.tensor([[[10.0, 13], [16, 30], [33, 23]], [[30, 61], [62, 45], [59, 60]]])
        )

    def forward(self, images):
        levels = [self.level(i, convolution(images)) for i, convolution in enumerate(self.convolutions)]
        if self.layout == "v5":
            return torch.cat(levels, dim=1)  # (B, n, 5 + C)
        found = torch.cat(levels, dim=2)  # (B, 4 + C, n)
        return found if self.layout == "v8" else self.best(found)

    def level(self, i, raw):
        side, stride = SIZE // STRIDES[i], STRIDES[i]
        y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        if self.layout == "v5":
            raw = raw.reshape(-1, 3, 5 + self.classes, side, side).permute(0, 1, 3, 4, 2).sigmoid()
            centres = (raw[..., :2] * 2 - 0.5 + torch.stack([x, y], dim=-1)) * stride
            sizes = (raw[..., 2:4] * 2) ** 2 * self.anchors[i][:, None, None]
            return torch.cat([centres, sizes, raw[..., 4:]], dim=-1).reshape(-1, 3 * side * side, 5 + self.classes)
        raw = raw.reshape(-1, 4 * 16 + self.classes, side * side)
        distances = raw[:, :64].reshape(-1, 4, 16, side * side).softmax(dim=2)  # a distribution over 0 ... 15
        left, top, right, bottom = (distances * torch.arange(16.0)[:, None]).sum(dim=2).unbind(dim=1)
        x, y = x.reshape(-1) + 0.5, y.reshape(-1) + 0.5
        corners = [x - left, y - top, x + right, y + bottom]
        if self.layout == "v8":
            corners = [x + (right - left) / 2, y + (bottom - top) / 2, left + right, top + bottom]
        return torch.cat([torch.stack(corners, dim=1) * stride, raw[:, 64:].sigmoid()], dim=1)

    def best(self, found, kept=20):
        """Corners, score and class of the best pairs of a box and a class."""
        corners, scores = found[:, :4].transpose(1, 2), found[:, 4:].transpose(1, 2)
        _, rows = scores.amax(dim=2).topk(kept, dim=1)
        corners = corners.gather(1, rows[..., None].expand(-1, -1, 4))
        scores = scores.gather(1, rows[..., None].expand(-1, -1, self.classes))
        score, number = scores.flatten(1).topk(kept, dim=1)
        corners = corners.gather(1, (number // self.classes)[..., None].expand(-1, -1, 4))
        return torch.cat([corners, score[..., None], (number % self.classes)[..., None].float()], dim=2)


def exported(module, file, *, names=NAMES, batch=None, **about):
    """As the families' own scripts write it: a batch of one by default, names among the metadata."""
    example = torch.zeros(1, 3, SIZE, SIZE, dtype=next(module.parameters()).dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package says it is the older one
        torch.onnx.export(
            module, (example,), str(file), dynamo=False, input_names=["images"], output_names=["output0"],
            dynamic_axes={"images": {0: "batch"}} if batch else None,
        )  # fmt: skip
    model = onnx.load(str(file))
    onnx.helper.set_model_props(model, {"names": str(dict(enumerate(names))), "task": "detect", **about})
    onnx.save(model, str(file))
    return f"yolo:{file}"


def decoded(layout, file, image):
    """(class, score, box in pixels of the input) of all boxes in an image (h, w, 3), padded with grey to a square."""
    square = np.full((SIZE, SIZE, 3), 114, np.uint8)
    square[: image.shape[0], : image.shape[1]] = image
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (rows,) = session.run(None, {"images": (square.transpose(2, 0, 1)[None] / 255).astype(np.float32)})[0]
    found = []
    for row in rows.T if layout == "v8" else rows:
        if layout == "v10":
            found.append((int(row[5]), row[4], tuple(row[:4])))
            continue
        x, y, width, height = row[:4]
        box = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        scores = row[4:] if layout == "v8" else row[4] * row[5:]
        found += [(number, score, box) for number, score in enumerate(scores)]
    return found


def overlap(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def suppressed(layout, found):
    """The best class of each box, without those that overlap a better one of their class by more than a half."""
    if layout != "v10":  # which has one class a row
        best = {}
        for one in found:
            best[one[2]] = max(best.get(one[2], one), one, key=lambda one: one[1])
        found = list(best.values())
    kept = []
    for number, score, box in sorted(found, key=lambda one: -one[1]):
        if score >= 0.05 and all(other != number or overlap(box, own) <= 0.5 for other, _, own in kept):
            kept.append((number, score, box))
    return kept


@pytest.mark.parametrize("batch", [None, "batch"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_boxes_and_scores_are_those_of_plain_decoding(tmp_path, layout, batch):
    name = exported(Head(layout), tmp_path / "yolo.onnx", batch=batch)
    model = whymask.load(name)
    canvas = model.view(PHOTO).canvas
    assert canvas.shape == (32, 64, 3)
    expected = suppressed(layout, decoded(layout, tmp_path / "yolo.onnx", canvas))
    seen = model.detections(PHOTO)
    assert len({number for number, *_ in expected[:20]}) > 1
    assert len(seen) == len(expected)
    for one, (number, score, box) in zip(seen[:20], expected, strict=False):
        assert one.label == NAMES[number]
        assert one.score == pytest.approx(score, abs=1e-5)
        assert one.box == pytest.approx(np.multiply(box, 3), abs=1e-2)  # the photo is three times as wide

    evidence = whymask.explain(PHOTO, model, target=1, regions="grid:2x4", k=3, method="trace", fill="mean")
    number, score, box = expected[1]
    assert evidence.target.label.startswith(f"{NAMES[number]} at ")
    left, top, right, bottom = box
    rounding = float(1e-4 * (64 / (right - left) + 32 / (bottom - top)))  # a name gives sides in four digits
    assert evidence.full_score == pytest.approx(score, abs=rounding)
    for mask, own_score in ((evidence.mask, evidence.score), (~evidence.mask, evidence.removed_score)):
        masked = np.where(mask[..., None], canvas, evidence.image.fill).astype(np.uint8)
        found = decoded(layout, tmp_path / "yolo.onnx", masked)
        support = max(score * overlap(own, box) for other, score, own in found if other == number)
        assert own_score == pytest.approx(support, abs=rounding)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_class(tmp_path, layout):
    """(B, n, 6) is then YOLOv5's too; it has more boxes than are left after suppression."""
    name = exported(Head(layout, classes=1), tmp_path / "yolo.onnx", names=["dog"])
    model = whymask.load(name)
    canvas = model.view(PHOTO).canvas
    (found,) = model.detect(model.encode(canvas)[None], [["dog"]], canvas.shape[:2])
    expected = decoded(layout, tmp_path / "yolo.onnx", canvas)
    np.testing.assert_allclose(found.scores[:, 0], [score for _, score, _ in expected], atol=1e-6)
    sides = np.array([canvas.shape[1], canvas.shape[0]] * 2)
    np.testing.assert_allclose(found.boxes * sides, [box for *_, box in expected], atol=1e-3)


def test_files_in_half_precision(tmp_path):
    name = exported(Head("v8"), tmp_path / "single.onnx")
    half = exported(Head("v8").half(), tmp_path / "half.onnx")
    single, rounded = (whymask.load(one).detections(PHOTO)[0] for one in (name, half))
    assert rounded.label == single.label
    assert rounded.score == pytest.approx(single.score, abs=0.01)
    assert whymask.load(half).settings["dtype"] == "fp16"


def test_further_outputs_are_ignored(tmp_path):
    """Older scripts write the raw grids beside the boxes, those of segmenters their masks."""

    class More(Head):
        def forward(self, images):
            return super().forward(images), self.convolutions[0](images)

    names = [exported(kind("v5"), tmp_path / f"{kind.__name__}.onnx") for kind in (Head, More)]
    one, more = (whymask.load(name).detections(PHOTO) for name in names)
    assert one == more
