"""Detectors and segmenters that are torch modules: planted ones, and torchvision's with random weights."""

import re

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.models.packages import optional
from whymask.models.torch_detector import LEAST

from models.planted import LABELS, OBJECTS, boxes, photo, segments

torchvision = optional("torchvision")
needs_torchvision = pytest.mark.skipif(torchvision is None, reason="torchvision is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = {"min_size": 240, "max_size": 320}  # what images are resized to
PROPOSALS = {**SMALL, "rpn_pre_nms_top_n_test": 50, "rpn_post_nms_top_n_test": 50, "box_detections_per_img": 20}
FEW = {"topk_candidates": 50, "detections_per_img": 50}  # before and after suppression
DETECTORS = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": PROPOSALS, "maskrcnn_resnet50_fpn": PROPOSALS,
    "retinanet_resnet50_fpn": {**SMALL, **FEW}, "fcos_resnet50_fpn": {**SMALL, **FEW},
    "ssdlite320_mobilenet_v3_large": FEW,
}  # fmt: skip
SEGMENTERS = ["lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"]
LOGITS = re.compile(r".*(cls_score|cls_logits|head\.module_list\.\d\.1|classifier\.4|(low|high)_classifier)")
REGIONS = "grid:4x4"


class Planted(torch.nn.Module):
    """As torchvision's detectors: a list of images (3, H, W) in [0, 1], tensors in what it returns."""

    def __init__(self):
        super().__init__()
        self.score_thresh = 0.05
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        assert (self.training, self.score_thresh) == (False, LEAST)
        pixels = np.stack([(255 * image).permute(1, 2, 0).round().byte().numpy() for image in images])
        return [{name: torch.as_tensor(part) for name, part in one.items()} for one in boxes(pixels)]


class Segments(torch.nn.Module):
    """As torchvision's segmenters: pixels in, logits under "out"."""

    def forward(self, pixels):
        assert not self.training
        images = (255 * pixels).permute(0, 2, 3, 1).round().byte().numpy()
        return {"out": torch.from_numpy(segments(images)).clamp(min=1e-9).log().permute(0, 3, 1, 2)}


def inside(box):
    left, top, right, bottom = box
    shape = np.zeros((64, 64), dtype=bool)
    shape[top:bottom, left:right] = True
    return shape


def test_a_detector_is_explained_and_left_as_it_is():
    module = Planted().train()
    model = whymask.wrap(module, task="detection", labels=LABELS)
    evidence = whymask.explain(photo(), model, target="cat", regions="grid:8x8", k=4)
    np.testing.assert_array_equal(evidence.mask, inside(OBJECTS["cat"][1]))
    assert evidence.score == pytest.approx(0.8)
    assert evidence.provenance["device"] == "cpu"
    assert (module.training, module.score_thresh, module.weight.requires_grad) == (True, 0.05, True)
    before = model.fingerprint
    module.weight.data += 1
    assert model.fingerprint != before


def test_a_segmenter_is_explained_and_left_as_it_is():
    module = Segments().train()
    options = {"labels": ["ground", "bright", "dark"], "mean": 0, "std": 255}
    model = whymask.wrap(module, task="segmentation", **options)
    evidence = whymask.explain(photo(), model, target="bright", regions="grid:8x8", k=8)
    squares = inside(OBJECTS["dog"][1]) | inside(OBJECTS["cat"][1])
    np.testing.assert_array_equal(evidence.mask, squares)
    assert evidence.score == pytest.approx(segments(photo()[None])[0, 1, 1, 1])
    assert module.training
    with pytest.raises(WhymaskError, match=r"must return logits \(B, 2, h, w\)"):
        whymask.explain(photo(), whymask.wrap(module, task="segmentation", labels=["a", "b"], mean=0, std=255))
    with pytest.raises(WhymaskError, match="unknown option 'label'; did you mean 'labels'"):
        whymask.wrap(module, task="segmentation", label=["a"])
    with pytest.raises(WhymaskError, match="unknown task 'recognition'"):
        whymask.wrap(module, task="recognition", alphabet="ab")


@pytest.fixture
def exact(monkeypatch):
    """Convolutions of a GPU in fp32, not TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def picture():
    """Coloured rectangles on noise, larger than the grid of most detectors."""
    image = np.random.default_rng(0).integers(0, 80, (240, 320, 3)).astype(np.uint8)
    image[40:150, 30:140], image[100:220, 180:300] = (230, 40, 30), (30, 90, 240)
    return image


def made(name):
    """Random weights, with norms and logits as spread out as those of trained ones: boxes and classes then differ."""
    torch.manual_seed(0)
    module = torchvision.models.get_model(name, weights=None, weights_backbone=None, **DETECTORS.get(name, {}))
    module.eval().requires_grad_(False).to(DEVICE)
    pixels = torch.from_numpy(picture()).to(DEVICE).permute(2, 0, 1).float() / 255
    both = torch.stack([pixels, pixels.flip(2)])
    given = list(both) if name in DETECTORS else (both - 0.45) / 0.225
    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the statistics are those of the picture
        norm.train()
    module(given)
    module.eval()
    for part in [part for name, part in module.named_modules() if LOGITS.fullmatch(name)]:
        logits = []
        hook = part.register_forward_hook(lambda _, inputs, out, logits=logits: logits.append(out))
        module(given)
        hook.remove()
        part.weight *= 2 / torch.cat([one.flatten() for one in logits]).std()
        torch.nn.init.zeros_(part.bias)
    return module


def found(module, image):
    """What torchvision itself finds in an image (H, W, 3), uncertain boxes too."""
    limits = [part for part in (module, getattr(module, "roi_heads", None)) if hasattr(part, "score_thresh")]
    before, training = [part.score_thresh for part in limits], module.training
    for part in limits:
        part.score_thresh = LEAST
    with torch.no_grad():
        (own,) = module.eval()([torch.from_numpy(image).to(DEVICE).permute(2, 0, 1).float() / 255])
    for part, limit in zip(limits, before, strict=True):
        part.score_thresh = limit
    module.train(training)
    return {name: own[name].cpu().double().numpy() for name in ("boxes", "scores", "labels")}


def support(own, label, box):
    """The largest score x overlap of a class with a box in pixels."""
    best = 0.0
    for (left, top, right, bottom), score, number in zip(own["boxes"], own["scores"], own["labels"], strict=True):
        width = min(right, box[2]) - max(left, box[0])
        height = min(bottom, box[3]) - max(top, box[1])
        common = max(width, 0) * max(height, 0)
        union = (right - left) * (bottom - top) + (box[2] - box[0]) * (box[3] - box[1]) - common
        if number == label and union > 0:
            best = max(best, score * common / union)
    return best


@needs_torchvision
@pytest.mark.usefixtures("exact")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", DETECTORS)
def test_a_box_of_torchvision_is_explained_by_number_name_and_point(name):
    """By the public API; every score is that of the module itself on the masked image."""
    module, image = made(name).train(), picture()
    labels = [f"class {i}" for i in range(91)]
    model = whymask.wrap(module, task="detection", labels=labels)
    seen = model.detections(image)
    assert seen
    own = found(module, image)
    first = seen[0]
    assert first.score == pytest.approx(own["scores"].max(), abs=1e-4)
    x, y = (first.box[0] + first.box[2]) / 2, (first.box[1] + first.box[3]) / 2
    for target in (0, first.label, (x, y)):
        evidence = whymask.explain(image, model, target=target, regions=REGIONS, k=6, budget=12, fill="black")
        label, _, place = evidence.target.label.rpartition(" at ")
        box = np.array([float(side) for side in place.split(",")]) * [320, 240, 320, 240]
        if target != (x, y):  # around a point there may be a larger box that is more certain
            assert label == first.label
            np.testing.assert_allclose(box, first.box, atol=0.05)  # a name has four digits
        assert box[0] <= x <= box[2]
        assert box[1] <= y <= box[3]
        number = labels.index(label)
        masked = np.where(evidence.mask[..., None], image, 0).astype(np.uint8)
        assert evidence.full_score == pytest.approx(support(own, number, box), abs=2e-3)
        assert evidence.score == pytest.approx(support(found(module, masked), number, box), abs=2e-3)
    assert evidence.provenance["device"].startswith(DEVICE)
    assert module.training


@needs_torchvision
@pytest.mark.usefixtures("exact")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", SEGMENTERS)
def test_a_segment_of_torchvision_is_explained(name):
    module, image = made(name).train(), picture()
    labels = [f"class {i}" for i in range(21)]
    model = whymask.wrap(module, task="segmentation", labels=labels)
    mean, std = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])

    def chances(pixels):
        given = torch.from_numpy((pixels - mean) / std).float().permute(2, 0, 1)[None].to(DEVICE)
        with torch.no_grad():
            outputs = module.eval()(given)["out"].double().softmax(dim=1)[0].cpu().numpy()
        module.train()
        return outputs

    whole = chances(image)
    likeliest = whole.argmax(axis=0)
    largest = int(np.bincount(likeliest.ravel()).argmax())
    for target in (None, f"class {largest}", largest, (200, 120)):
        evidence = whymask.explain(image, model, target=target, regions=REGIONS, k=6, budget=12, fill="black")
        number = int(likeliest[120, 200]) if target == (200, 120) else largest
        assert evidence.target.label == labels[number]
        masked = np.where(evidence.mask[..., None], image, 0).astype(np.uint8)
        cells = likeliest == number
        assert evidence.full_score == pytest.approx(whole[number][cells].mean(), abs=1e-3)
        assert evidence.score == pytest.approx(chances(masked)[number][cells].mean(), abs=1e-3)
    assert module.training


@needs_torchvision
@pytest.mark.usefixtures("exact")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large"])
def test_torchvision_detectors_are_loaded_by_name(name):
    model = whymask.load(f"torchvision:{name}", pretrained=False, device=DEVICE)
    assert "person" in model.classes
    assert next(model.module.parameters()).device.type == DEVICE
    own = found(model.module, picture())
    (boxes,) = model.detect(picture()[None], [model.classes], (240, 320))
    np.testing.assert_allclose(boxes.boxes * [320, 240, 320, 240], own["boxes"], atol=1e-2)
    np.testing.assert_allclose(boxes.scores.max(axis=1, initial=0), own["scores"], atol=1e-4)


@needs_torchvision
@pytest.mark.usefixtures("exact")
@pytest.mark.filterwarnings("default")
def test_torchvision_segmenters_are_loaded_by_name():
    name = "lraspp_mobilenet_v3_large"
    model = whymask.load(f"torchvision:{name}", pretrained=False, device=DEVICE)
    preset = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    from PIL import Image

    with torch.no_grad():
        own = model.module(preset(Image.fromarray(picture()))[None].to(DEVICE))["out"].softmax(dim=1)
    view = model.view(picture())
    chances = model.probabilities(model.encode(view.canvas)[None])
    assert view.canvas.shape == (520, 693, 3)
    assert "aeroplane" in model.classes
    np.testing.assert_allclose(chances, own.permute(0, 2, 3, 1).cpu(), atol=5e-3)  # resized as bytes, not as floats
    with pytest.raises(WhymaskError, match="fp32, without compile"):
        whymask.load(f"torchvision:{name}", pretrained=False, dtype="fp16")
