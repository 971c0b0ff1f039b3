"""Segments as targets, on a planted segmenter: a cell is "bright" as far as its pixels are."""

import numpy as np
import pytest

import whymask
from whymask.errors import ImageError, WhymaskError

from models.planted import photo, segments

LABELS = ["ground", "bright", "dark"]
INSIDE = photo().mean(axis=2) > 128


@pytest.fixture
def segmenter():
    return whymask.wrap(segments, task="segmentation", labels=LABELS)


@pytest.mark.parametrize(
    ("target", "label"), [(None, "ground"), ("bright", "bright"), (1, "bright"), ("1", "bright"), ((45, 50), "bright"),
                          ((63, 63), "ground"), ("Ground", "ground")],
)  # fmt: skip
def test_a_segment_is_found_by_number_label_or_point(segmenter, target, label):
    bound = segmenter.bind(photo(), target=target)
    assert bound.target.label == label
    chance = segments(photo()[None])[0, ..., LABELS.index(label)]
    cells = INSIDE[::8, ::8] if label == "bright" else ~INSIDE[::8, ::8]
    assert segmenter.respond(bound.inputs[None], [bound]).score == pytest.approx([chance[cells].mean()])


def test_the_number_of_a_class_is_a_whole_number(segmenter):
    assert segmenter.bind(photo(), target=np.int64(1)).target.label == "bright"
    for number in (1.5, True):
        with pytest.raises(WhymaskError, match="a target must be a whole number"):
            segmenter.bind(photo(), target=number)


def test_its_evidence_is_itself(segmenter):
    evidence = whymask.explain(photo(), segmenter, target="bright", regions="grid:8x8", k=8, fill="black")
    np.testing.assert_array_equal(evidence.mask, INSIDE)
    assert evidence.removed_score == 0
    assert evidence.score == pytest.approx(evidence.image.full_score)


def test_the_segment_stays_where_it_was_on_other_pictures(segmenter):
    """Controls and fills are scored on the cells that the whole image has shown."""
    bound = segmenter.bind(photo(), target="bright")
    dark = np.zeros_like(photo())
    again = segmenter.bind(dark, target=bound.aim)
    np.testing.assert_array_equal(again.where[1], bound.where[1])
    assert segmenter.respond(again.inputs[None], [again]).score == [0]


def test_controls_are_scored_where_the_segment_was():
    """One flat colour has no stripes: their segment is not there, and scores 0 on it."""

    def stripes(images):
        cells = images.mean(axis=3).reshape(len(images), 8, 8, 8, 8).std(axis=(2, 4)) / 128
        return np.stack([1 - cells, cells], axis=-1)

    model = whymask.wrap(stripes, task="segmentation", labels=["plain", "striped"])
    image = np.zeros((64, 64, 3), np.uint8)
    image[16:32:2, 16:48] = 255
    # With forwards enough to find all cells of the segment: what matters here are the controls of its mask.
    evidence = whymask.explain(image, model, target="striped", regions="grid:8x8", k=8, params={"tries": 600})
    assert evidence.area == pytest.approx(1 / 8)
    assert evidence.score == pytest.approx(127.5 / 128)
    assert evidence.controls.flat == 0


def test_different_segments_share_a_batch(segmenter):
    bounds = [segmenter.bind(photo(), target=target) for target in ("bright", "ground", "bright")]
    together = segmenter.respond(np.stack([bound.inputs for bound in bounds]), bounds).score
    alone = [segmenter.respond(bound.inputs[None], [bound]).score[0] for bound in bounds]
    np.testing.assert_array_equal(together, alone)


def test_what_is_not_there_is_a_sentence(segmenter):
    with pytest.raises(ImageError, match="sees no 'dark' in the image; it sees ground, bright"):
        segmenter.bind(photo(), target="dark")
    with pytest.raises(WhymaskError, match="did you mean 'ground'"):
        segmenter.bind(photo(), target="grond")
    with pytest.raises(WhymaskError, match="outside the model's classes"):
        segmenter.bind(photo(), target=3)
    with pytest.raises(WhymaskError, match=r"must return probabilities \(1, h, w, 2\)"):
        whymask.wrap(segments, task="segmentation", labels=["a", "b"]).bind(photo())
