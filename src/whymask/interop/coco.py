"""Masks as COCO's compressed run-length encoding, the one its JSON files and pycocotools use.

Runs of 0 and 1 alternate down the columns, 0 first. From the fourth run on the difference to the run two before is
written. Each number is cut into groups of five bits, low ones first; a character is 48 plus such a group, plus 32 where
more follow. The number's sign is the highest bit of its last group.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

import numpy as np

from whymask.arrays import Bools
from whymask.errors import WhymaskError


class CocoRLE(TypedDict):
    """A mask (H, W) as COCO writes it."""

    size: list[int]  # [H, W]
    counts: str


def to_coco_rle(mask: Bools) -> CocoRLE:
    """Encode a mask (H, W).

    >>> to_coco_rle(np.array([[False, True], [True, True]]))
    {'size': [2, 2], 'counts': '13'}
    """
    mask = np.asarray(mask)
    if mask.ndim != 2 or mask.dtype != bool:
        raise WhymaskError(f"a COCO mask is boolean and (H, W), not {mask.dtype} of shape {mask.shape}.")
    pixels = mask.ravel(order="F")
    changes = np.flatnonzero(np.diff(pixels, prepend=False))
    runs = np.diff(changes, prepend=0, append=pixels.size)
    steps = runs.copy()
    steps[3:] -= runs[1:-2]
    return {"size": list(mask.shape), "counts": "".join(_characters(steps.tolist()))}


def from_coco_rle(rle: Mapping[str, Any]) -> Bools:
    """Decode a mask (H, W) that `to_coco_rle` or pycocotools wrote; counts may be str or bytes.

    >>> from_coco_rle({"size": [2, 2], "counts": "13"}).astype(int).tolist()
    [[0, 1], [1, 1]]
    """
    try:
        counts, (height, width) = rle["counts"], rle["size"]
    except (KeyError, TypeError, ValueError):
        raise WhymaskError("a COCO mask is {'size': [H, W], 'counts': '...'}.") from None
    if isinstance(counts, bytes):
        counts = counts.decode("latin-1")
    if not isinstance(counts, str):
        raise WhymaskError("counts must be a compressed string, not a list of runs.")
    runs: list[int] = []
    for step in _numbers(counts):
        runs.append(step + (runs[-2] if len(runs) > 2 else 0))
    if min(runs, default=0) < 0 or sum(runs) != height * width:
        raise WhymaskError(f"counts do not describe a mask of {height} x {width} pixels.")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape((height, width), order="F")


def _characters(numbers: Iterable[int]) -> Iterator[str]:
    for number in numbers:
        more = True
        while more:
            group, number = number & 31, number >> 5
            more = number != (-1 if group & 16 else 0)
            yield chr(48 + group + 32 * more)


def _numbers(counts: str) -> Iterator[int]:
    number = shift = 0
    for character in counts:
        code = ord(character) - 48
        if not 0 <= code < 64:
            raise WhymaskError(f"{character!r} does not occur in COCO's compressed counts.")
        number |= (code & 31) << shift
        shift += 5
        if not code & 32:
            yield number - (1 << shift if code & 16 else 0)
            number = shift = 0
    if shift:
        raise WhymaskError("counts end in the middle of a number.")
