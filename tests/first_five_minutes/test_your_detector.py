"""Your own detector, segmenter or reader: one box, segment, character or word, by number, name or a point on the photo.

What they see is planted. Models of transformers and torchvision and YOLO files are compared with their own code in
tests/models.
"""

import numpy as np
import pytest

import whymask
from whymask import WhymaskError

from models.planted import ALPHABET, LABELS, OBJECTS, boxes, characters, line, photo, segments

QUICK = {"regions": "grid:8x8", "k": 4}


def placed(*names):
    """The boxes of these objects as a mask."""
    mask = np.zeros((64, 64), dtype=bool)
    for name in names:
        left, top, right, bottom = OBJECTS[name][1]
        mask[top:bottom, left:right] = True
    return mask


def detector():
    return whymask.wrap(boxes, task="detection", labels=LABELS)


@pytest.mark.parametrize(("target", "name"), [(None, "dog"), (1, "cat"), ("cat", "cat"), ((45, 50), "cat")])
def test_one_box(target, name):
    """Its score times its overlap: the other object adds nothing."""
    found = whymask.explain(photo(), detector(), target=target, **QUICK)
    np.testing.assert_array_equal(found.mask, placed(name))
    assert found.score == found.full_score == pytest.approx(OBJECTS[name][0])
    assert found.target.label.startswith(f"{name} at ")


def test_points_and_boxes_are_on_the_photo_s_own_pixels():
    """640 pixels a side, of which the model sees 320."""
    large = photo().repeat(10, axis=0).repeat(10, axis=1)

    def enlarged(images):
        assert images.shape[1:] == (320, 320, 3)
        return [one | {"boxes": one["boxes"] * 5} for one in boxes(images[:, ::5, ::5])]

    model = whymask.wrap(enlarged, task="detection", labels=LABELS, max_side=320)
    found = whymask.explain(large, model, target=(450, 500), **QUICK)
    np.testing.assert_array_equal(found.photo_mask(), placed("cat").repeat(10, axis=0).repeat(10, axis=1))
    for one, (_, box) in zip(model.detections(large), OBJECTS.values(), strict=True):
        assert one.box == pytest.approx([10 * side for side in box])
    with pytest.raises(WhymaskError, match="outside of what the model sees"):
        whymask.explain(large, model, target=(650, 50), **QUICK)


@pytest.mark.parametrize("target", ["bright", 1, (10, 10)])
def test_one_segment(target):
    """Its mean probability on the pixels where it is the likeliest."""
    model = whymask.wrap(segments, task="segmentation", labels=["ground", "bright", "dark"])
    found = whymask.explain(photo(), model, target=target, regions="grid:8x8", k=8)
    np.testing.assert_array_equal(found.mask, placed("dog", "cat"))
    assert found.score == pytest.approx(segments(photo()[None])[0][placed("dog", "cat")[::8, ::8], 1].mean())


@pytest.mark.parametrize(("target", "columns"), [(0, {0, 1}), ("b", {3}), ("cc", {5, 7})])
def test_one_character_or_word(target, columns):
    """The line reads "ab cc"; of two columns that both read "a", one is enough."""
    model = whymask.wrap(characters, task="recognition", alphabet=list(ALPHABET), blank=0)
    found = whymask.explain(line(), model, target=target, regions="grid:1x8", k="auto")
    assert found.score == found.full_score
    assert set(found.regions) <= columns
    assert len(found.regions) == len(found.target.label)


def test_what_is_not_there_is_one_line():
    for target, words in ((7, "sees 2 objects, so there is no object 7"), ("hors", "unknown target 'hors'"),
                          ((1, 1), "sees nothing at that point; it sees dog, cat")):  # fmt: skip
        with pytest.raises(WhymaskError, match=words) as error:
            whymask.explain(photo(), detector(), target=target, **QUICK)
        assert "\n" not in str(error.value)


PHOTO = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
FEW = {"regions": "grid:2x2", "k": 2, "method": "trace", "params": {"rounds": 2}}


@pytest.fixture
def transformers():
    """The library, with what makes small random models of it."""
    import torch

    torch.manual_seed(0)
    return pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")


@pytest.mark.parametrize(("name", "task"), [("detr", "object-detection"), ("segformer", "image-segmentation")])
def test_a_pipeline_or_a_module_with_its_processor(transformers, name, task):
    from models.tiny_locators import DETECTORS, SEGMENTERS, sharpened

    module, processor = sharpened({**DETECTORS, **SEGMENTERS}[name]())
    pipeline = transformers.pipeline(task, model=module, image_processor=processor)
    found = [whymask.explain(PHOTO, model, **FEW) for model in (pipeline, (module, processor))]
    assert found[0].as_dict()["target"] == found[1].as_dict()["target"]
    assert (found[0].regions, found[0].score) == (found[1].regions, found[1].score)
    if name == "detr":
        first = whymask.wrap(pipeline).detections(PHOTO)[0]
        assert found[0].target.label.startswith(f"{first.label} at ")
        assert found[0].full_score == pytest.approx(first.score, abs=1e-3)
    with pytest.raises(WhymaskError, match="with its processor needs no task"):
        whymask.wrap(module, processor, task="detection")
    with pytest.raises(WhymaskError, match=r"whymask.wrap\(model, AutoProcessor.from_pretrained"):
        whymask.wrap(module, task="detection", labels=LABELS)


def test_a_pipeline_that_looks_for_what_a_text_names(transformers):
    from models.tiny_locators import ZERO_SHOT

    module, parts = ZERO_SHOT["owlvit"]()
    pipeline = transformers.pipeline(
        "zero-shot-object-detection", model=module, image_processor=parts.image_processor, tokenizer=parts.tokenizer
    )
    found = [whymask.explain(PHOTO, model, target="a dog", **FEW) for model in (pipeline, (module, parts))]
    assert found[0].target.label == found[1].target.label
    assert found[0].target.label.startswith("a dog at ")
    assert found[0].full_score == found[1].full_score


def test_a_module_of_torchvision_without_its_task_is_one_line():
    import torch

    for task in ("detection", "segmentation"):
        kind = type("Net", (torch.nn.Module,), {"__module__": f"torchvision.models.{task}.net"})
        with pytest.raises(WhymaskError) as error:
            whymask.explain(PHOTO, kind())
        line = str(error.value).partition(": ")[2].partition(", the names")[0]
        assert line == f"whymask.wrap(model, task='{task}', labels=NAMES)"
        assert eval(line, {"whymask": whymask, "model": kind(), "NAMES": LABELS}).classes == LABELS
