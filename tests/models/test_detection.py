"""Boxes as targets, on planted detectors: an object is seen as far as the pixels of its box are."""

import numpy as np
import pytest

import whymask
from whymask.errors import ImageError, WhymaskError
from whymask.models.detection import overlap

from models.planted import LABELS, OBJECTS, boxes, photo


@pytest.fixture
def detector():
    return whymask.wrap(boxes, task="detection", labels=LABELS)


def test_overlap():
    found = overlap(np.array([[0, 0, 2, 2], [1, 1, 3, 3], [2, 2, 4, 4], [5, 5, 5, 5]]), (0, 0, 2, 2))
    np.testing.assert_allclose(found, [1, 1 / 7, 0, 0])


@pytest.mark.parametrize(
    ("target", "name"),
    [(None, "dog"), (0, "dog"), (1, "cat"), ("1", "cat"), ("cat", "cat"), ("Dog", "dog"), ((48, 41), "cat"),
     ((9, 23), "dog"), ("cat at 0.625,0.625,0.875,0.875", "cat")],
)  # fmt: skip
def test_a_box_is_found_by_number_label_or_point(detector, target, name):
    score, (left, top, right, bottom) = OBJECTS[name]
    bound = detector.bind(photo(), target=target)
    assert bound.target.label == f"{name} at {left / 64:g},{top / 64:g},{right / 64:g},{bottom / 64:g}"
    assert detector.respond(bound.inputs[None], [bound]).score == pytest.approx([score])
    assert detector.bind(photo(), target=bound.target.name).target == bound.target


def test_the_score_is_that_of_the_box_times_its_overlap():
    """A detector whose box grows with what is shown: one half of it overlaps by one half."""

    def grows(images):
        wide = [8 * max(1, int((image.mean(axis=(0, 2)) > 100).sum() // 8)) for image in images]
        return [{"boxes": [[0, 0, width, 64]], "scores": [0.5], "labels": ["dog"]} for width in wide]

    model = whymask.wrap(grows, task="detection", labels=["dog"])
    image = np.full((64, 64, 3), 200, np.uint8)
    bound = model.bind(image)
    half = image.copy()
    half[:, 32:] = 0
    np.testing.assert_allclose(model.respond(np.stack([image, half]), [bound, bound]).score, [0.5, 0.25])


@pytest.mark.parametrize("name", ["dog", "cat"])
def test_the_evidence_of_a_box_is_its_object(detector, name):
    """And nothing of the other object."""
    score, (left, top, right, bottom) = OBJECTS[name]
    evidence = whymask.explain(photo(), detector, target=name, regions="grid:8x8", k=4, fill="black")
    inside = np.zeros((64, 64), dtype=bool)
    inside[top:bottom, left:right] = True
    np.testing.assert_array_equal(evidence.mask, inside)
    assert evidence.score == pytest.approx(score)
    assert evidence.image.full_score == pytest.approx(score)
    assert evidence.removed_score == 0


def test_an_ordering_is_replayed_and_saved(detector, tmp_path):
    ordering = whymask.explain(photo(), detector, target="cat", regions="grid:8x8", method="greedy")
    again = whymask.Ordering.load(ordering.save(tmp_path / "cat.npz"))
    curves = whymask.replay(again, detector)
    assert curves.insertion[3:] == pytest.approx([0.8] * 61)
    assert curves.deletion[3:] == pytest.approx([0] * 61)


def test_the_number_of_a_box_is_a_whole_number(detector):
    first, second = (detector.bind(photo(), target=number).target for number in (0, 1))
    assert first != second
    assert detector.bind(photo(), target=np.int64(1)).target == second
    for number in (1.5, True):
        with pytest.raises(WhymaskError, match="a target must be a whole number"):
            detector.bind(photo(), target=number)


def test_what_is_not_there_is_a_sentence(detector):
    for target, words in (
        ((60, 5), "sees nothing at that point; it sees dog, cat"),
        ((70, 5), "lies outside of what the model sees of the image, which has 64 x 64 pixels"),
        (2, "sees 2 objects, so there is no object 2"),
    ):
        with pytest.raises(ImageError, match=words):
            detector.bind(photo(), target=target)
    only_cat = photo()
    only_cat[:32, :32] = 40
    with pytest.raises(ImageError, match="sees no 'dog' in the image; it sees cat"):
        detector.bind(only_cat, target="dog")
    with pytest.raises(WhymaskError, match="unknown target 'horse'"):
        detector.bind(photo(), target="horse")
    with pytest.raises(WhymaskError, match="takes a target, not a question"):
        detector.bind(photo(), question="Is there a dog?")


def test_an_image_without_the_object_costs_only_itself(detector):
    images = [photo(), np.full((64, 64, 3), 40, np.uint8), photo()]
    with pytest.warns(UserWarning, match="image 1 is left out: function sees no 'dog'"):
        found = dict(whymask.explain_many(images, detector, targets=["dog"] * 3, regions="grid:8x8", k=4))
    assert found.keys() == {0, 2}


@pytest.mark.parametrize("label", ["bird", 2, -1])
def test_a_label_that_does_not_exist_is_an_error(label):
    def boxes(images):
        return [{"boxes": [[0, 0, 8, 8]], "scores": [0.9], "labels": [label]} for _ in images]

    with pytest.raises(WhymaskError, match=f"returned the label {label!r}, which is none of the 2 labels"):
        whymask.wrap(boxes, task="detection", labels=["dog", "cat"]).bind(photo())


def test_a_classifier_takes_no_point():
    model = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)
    with pytest.raises(WhymaskError, match="does not accept a point"):
        whymask.explain(photo(), model, target=(3, 4))


def test_detections_are_listed_in_pixels_of_the_photo(detector):
    photo_twice = np.repeat(np.repeat(photo(), 2, axis=0), 2, axis=1)
    small = whymask.wrap(boxes, task="detection", labels=LABELS, max_side=64)
    found = small.detections(photo_twice)
    assert [(one.label, one.box) for one in found] == [
        (name, pytest.approx(np.multiply(box, 2), abs=1e-9)) for name, (_, box) in OBJECTS.items()
    ]


def test_what_a_function_must_return():
    with pytest.raises(WhymaskError, match="must return a dictionary with boxes"):
        whymask.wrap(lambda images: [{"boxes": []}], task="detection", labels=["a"]).bind(photo())
    with pytest.raises(WhymaskError, match="did you mean 'detection'"):
        whymask.wrap(boxes, task="detections", labels=LABELS)
