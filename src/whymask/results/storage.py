"""Explanations as files: one .npz of arrays and JSON, without pickle."""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from whymask.errors import WhymaskError
from whymask.images.masking import MOST_FILLS
from whymask.results.scored import LIMITS as SETS
from whymask.utils.archive import ERRORS, DamagedError, read_arrays, require
from whymask.utils.files import atomic

SCHEMA = 3  # 1 called an ordering's initial mask seed_regions; 2 knew one fill and no verdict
PHOTO = 2048  # pixels of a photo's longer side; `viewable` makes them smaller
PIXELS = 2**24  # of a model's input
SIDE, MOST = 2**20, 2**28  # pixels of a side of the photo itself, and of all of it
RUNS = 2**21  # runs of equal labels, row by row: the label map is sent to the viewer as these
HEADER = 2**23  # characters; the curves of a thousand regions have about a hundred thousand
TEXT = 100_000  # characters of a label, a question or an answer
TOLERANCE = 1e-3  # how far a score may lie outside of [0, 1]
LIMITS = {
    "header": 4 * HEADER,
    "photo": 3 * PHOTO**2,
    "canvas": 3 * PIXELS,
    "fill": 3 * PIXELS,
    "fills": 3 * PIXELS * (MOST_FILLS - 1),
    "labels": 8 * PIXELS,
    "map": 8 * PIXELS,
    **SETS,
}
"""Bytes of every array."""


T = TypeVar("T")
Header = dict[str, Any]
Arrays = dict[str, Any]
Build = Callable[[Header, Arrays], T]
"""Makes a result from a file's header and arrays; raises one of `ERRORS` where they do not fit together."""


def write(path: Path, header: Header, arrays: Arrays, build: Build[object], mode: int) -> Path:
    """Write everything into one file with these permissions; an interrupted write leaves none."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    text = json.dumps(header)
    try:
        build(json.loads(text), arrays)
    except DamagedError as error:  # it could not be read again
        raise WhymaskError(f"this result cannot be saved: {error}.") from None
    with atomic(path, mode) as file:
        np.savez_compressed(file, header=np.array(text), **arrays)
    return path


def read(path: str | PathLike[str], build: Build[T]) -> T:
    """What `write` wrote; the file may come from anywhere."""
    try:
        arrays = read_arrays(path, LIMITS)
        text = arrays.pop("header")
        require(text.dtype.kind == "U" and text.ndim == 0, "its header is not text")
        header = json.loads(str(text))
        schema = header["schema"]
        if type(schema) is int and 1 <= schema <= SCHEMA:
            return build(header, arrays)
    except FileNotFoundError:
        raise WhymaskError(f"there is no file {path}.") from None
    except DamagedError as error:
        raise WhymaskError(f"{path} is not a saved explanation: {error}.") from None
    except ERRORS:
        raise WhymaskError(f"{path} is not a saved explanation.") from None
    raise WhymaskError(f"{path} has schema {str(schema)[:20]}; this version reads schemas 1 to {SCHEMA}.")


def check(header: Header, arrays: Arrays, own: Callable[[Header, int], list[Any]]) -> None:
    """Raise a `DamagedError` unless the parts of a result fit together; `own` checks its kind and returns scores."""
    n = _check_arrays(arrays)
    _check_texts(header)
    _check_image(header, n)
    _check_panels(header["provenance"].get("panels", []), *arrays["canvas"].shape[:2])
    for text in (header["target"]["label"], header["provenance"]["method"], header["provenance"]["regions"]):
        require(isinstance(text, str), "a text is missing")
    for text in (header["prediction"], *(header["provenance"].get(name) for name in ("question", "model"))):
        require(text is None or isinstance(text, str), "a text is missing")
    require(isinstance(header["provenance"].get("parameters", {}), dict), "its parameters have no names")
    require(isinstance(header["complete"], bool), "it does not say whether it is complete")
    check_ledger(header["ledger"])
    scores = [header["full_score"], header["blank_score"], *own(header, n)]
    require(all(is_number(score, -TOLERANCE, 1 + TOLERANCE) for score in scores), "a score does not lie in [0, 1]")


def check_ledger(ledger: Header) -> None:
    """Raise a `DamagedError` unless a ledger has counts."""
    for sides in ledger["stages"].values():
        for counts in sides.values():
            counted = is_count(counts["nominal"]) and is_count(counts["mec"])
            require(counted, "its numbers of forwards are not counts")


def _check_image(header: Header, n: int) -> None:
    """Check what a header says of the image: its box, its answer and the names of its regions."""
    box, target, values = header["box"], header["target"], header["label_values"]
    fits = len(box) == 4 and all(is_number(side, 0, 1) for side in box) and box[0] < box[2] and box[1] < box[3]
    require(fits, "its box does not lie on the photo")
    size = header.get("photo_size")
    sized = size is None or (len(size) == 2 and all(is_count(side) and 0 < side <= SIDE for side in size))
    require(sized and (size is None or size[0] * size[1] <= MOST), "its photo has an impossible size")
    require(set(target) == {"index", "label"} and type(target["index"]) is int, "its target has no index")
    named = values is None or (len(values) == n and all(type(value) is int for value in values))
    require(named, "its region names do not fit its regions")


def _check_panels(panels: Any, height: int, width: int) -> None:
    """Raise a `DamagedError` unless images that were explained together stand side by side on the canvas."""
    start = 0
    for top, left, bottom, right in panels:
        counted = all(is_count(side) for side in (top, left, bottom, right))
        require(counted and top < bottom <= height, "its images do not lie on its canvas")
        require(left == start and left < right <= width, "its images do not stand side by side")
        start = right


def _check_arrays(arrays: Arrays) -> int:
    """Check photo, canvas, fill, regions and map; returns the number of regions."""
    photo, canvas, fill, labels = (arrays[name] for name in ("photo", "canvas", "fill", "labels"))
    for name, pixels in (("photo", photo), ("canvas", canvas), ("fill", fill)):
        picture = pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.size > 0
        require(picture, f"its {name} is not an RGB image")
    require(max(photo.shape) <= PHOTO and canvas.size <= 3 * PIXELS, "its photo or its canvas is too large")
    require(canvas.shape == fill.shape == (*labels.shape, 3), "its canvas, fill and regions have different sizes")
    require(
        labels.dtype.kind in "iu" and 0 <= labels.min() <= labels.max() < labels.size,
        "its regions are not numbered correctly",
    )
    require(bool(np.bincount(labels.ravel()).all()), "its regions are not numbered without gaps")
    require(int(np.count_nonzero(np.diff(labels.ravel()))) < RUNS, "its regions are too fragmented")
    if "fills" in arrays:
        fills = arrays["fills"]
        require(
            fills.dtype == np.uint8
            and fills.ndim == 4
            and 0 < len(fills) < MOST_FILLS
            and fills.shape[1:] == canvas.shape,
            "its fills do not fit its canvas",
        )
    if "map" in arrays:
        heat = arrays["map"]
        fits = heat.dtype.kind == "f" and heat.shape == labels.shape and bool(np.isfinite(heat).all())
        require(fits, "its map does not fit its canvas")
    return int(labels.max()) + 1


def _check_texts(value: Any) -> None:
    """Raise a `DamagedError` where a text is too long to be shown."""
    if isinstance(value, str):
        require(len(value) <= TEXT, f"a text is longer than {TEXT} characters")
    elif isinstance(value, Mapping):
        _check_texts([*value, *value.values()])
    elif isinstance(value, list):
        for entry in value:
            _check_texts(entry)


def are_regions(regions: Any, n: int) -> bool:
    """Whether these are regions 0 ... n - 1, none of them twice."""
    good = isinstance(regions, list) and all(type(region) is int and 0 <= region < n for region in regions)
    return good and len({*regions}) == len(regions)


def is_number(value: Any, least: float, most: float) -> bool:
    """Whether this is a number from `least` to `most`."""
    return type(value) in (int, float) and least <= value <= most


def is_count(value: Any) -> bool:
    """Whether this is a whole number that fits into 64 bits."""
    return type(value) is int and 0 <= value < 2**63
