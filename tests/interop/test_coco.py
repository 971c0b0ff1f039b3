import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays

from whymask import WhymaskError
from whymask.interop.coco import from_coco_rle, to_coco_rle

MASKS = arrays(bool, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=16))


def marked(height, width, *boxes):
    mask = np.zeros((height, width), dtype=bool)
    for top, bottom, left, right in boxes:
        mask[top:bottom, left:right] = True
    return mask


# What pycocotools 2.0.11 writes.
KNOWN = [
    (np.zeros((3, 4), dtype=bool), "<"),
    (np.ones((3, 4), dtype=bool), "0<"),
    (np.eye(3, dtype=bool), "013000"),
    (marked(9, 7, (2, 5, 1, 4), (7, 8, 5, 6), (0, 1, 0, 1)), "01:2L000>NF"),
    (marked(480, 640, (100, 300, 50, 53)), "Tag0X6h8000lQc8"),
    (np.zeros((0, 4), dtype=bool), "0"),
]


@pytest.mark.parametrize(("mask", "counts"), KNOWN)
def test_known_strings(mask, counts):
    assert to_coco_rle(mask) == {"size": list(mask.shape), "counts": counts}
    for given_counts in (counts, counts.encode()):
        decoded = from_coco_rle({"size": list(mask.shape), "counts": given_counts})
        assert decoded.dtype == bool
        np.testing.assert_array_equal(decoded, mask)


@given(MASKS)
def test_survives_json(mask):
    np.testing.assert_array_equal(from_coco_rle(json.loads(json.dumps(to_coco_rle(mask)))), mask)


def test_long_runs_survive():
    mask = marked(3000, 2000, (17, 2990, 3, 1200), (0, 3000, 1500, 1990))
    np.testing.assert_array_equal(from_coco_rle(to_coco_rle(mask)), mask)


@given(MASKS)
def test_agrees_with_pycocotools(mask):
    coco = pytest.importorskip("pycocotools.mask")
    theirs = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    ours = to_coco_rle(mask)
    assert ours["counts"].encode() == theirs["counts"]
    assert ours["size"] == theirs["size"]


@pytest.mark.parametrize("mask", [np.zeros((2, 2), dtype=np.uint8), np.zeros(4, dtype=bool), np.zeros((1, 2, 2)) > 0])
def test_refuses_what_is_no_mask(mask):
    with pytest.raises(WhymaskError, match="boolean"):
        to_coco_rle(mask)


@pytest.mark.parametrize(
    ("rle", "words"),
    [
        ({"size": [3, 4], "counts": "="}, "3 x 4"),  # 13 pixels
        ({"size": [3, 4], "counts": ">N"}, "3 x 4"),  # 14 and -2
        ({"size": [3, 4], "counts": ""}, "3 x 4"),
        ({"size": [3, 4], "counts": "\\"}, "middle"),
        ({"size": [3, 4], "counts": "~"}, "does not occur"),
        ({"size": [3, 4], "counts": b"\xff"}, "does not occur"),
        ({"size": [3, 4], "counts": [12]}, "compressed"),
        ({"size": [12], "counts": "<"}, "size"),
        ({"counts": "<"}, "size"),
        ([12], "size"),
    ],
)
def test_refuses_what_is_no_encoding(rle, words):
    with pytest.raises(WhymaskError, match=words):
        from_coco_rle(rle)
