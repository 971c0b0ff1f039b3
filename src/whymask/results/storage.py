"""Explanations as files: one .npz of arrays and JSON, without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whymask.errors import WhymaskError
from whymask.images.partition import Partition
from whymask.models.base import Target
from whymask.results.base import SCHEMA, ExplainedImage, Explanation
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.results.repair import Repair
from whymask.search.objective import Ledger
from whymask.utils.archive import ERRORS, DamagedError, read_arrays, require
from whymask.utils.files import atomic

KINDS: dict[str, type[EvidenceMask | Ordering]] = {kind.kind: kind for kind in (EvidenceMask, Ordering, Repair)}

PHOTO = 2048  # pixels of a photo's longer side; `viewable` makes them smaller
PIXELS = 2**24  # of a model's input
RUNS = 2**21  # of pixels of one region, row by row: what the viewer is sent
HEADER = 2**23  # characters; the curves of a thousand regions have about a hundred thousand
TEXT = 100_000  # characters of a label, a question or an answer
OTHERS = 1000  # further masks
ROUNDING = 1e-3  # how far a score may lie outside of [0, 1]
LIMITS = {
    "header": 4 * HEADER,
    "photo": 3 * PHOTO**2,
    "canvas": 3 * PIXELS,
    "fill": 3 * PIXELS,
    "labels": 8 * PIXELS,
    "map": 8 * PIXELS,
}
"""Bytes of every array."""


def write(explanation: Explanation, path: str | PathLike[str], mode: int = 0o666) -> Path:
    """Write everything into one file with these permissions; an interrupted one leaves none."""
    target = Path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    image = explanation.image
    arrays: dict[str, Any] = {
        "photo": image.photo,
        "canvas": image.canvas,
        "fill": image.fill,
        "labels": image.partition.labels,
    }
    if isinstance(explanation, Ordering) and explanation.map is not None:
        arrays["map"] = explanation.map
    header = json.dumps(explanation.as_dict())
    try:
        check(json.loads(header), arrays)
    except DamagedError as error:  # nobody could read it again
        raise WhymaskError(f"this result cannot be saved: {error}.") from None
    with atomic(target, mode) as file:
        np.savez_compressed(file, header=np.array(header), **arrays)
    return target


def read(path: str | PathLike[str]) -> EvidenceMask | Ordering:
    """What `write` wrote; the file may come from anywhere."""
    try:
        arrays = read_arrays(path, LIMITS)
        text = arrays.pop("header")
        require(text.dtype.kind == "U" and text.ndim == 0, "its header is not text")
        header = json.loads(str(text))
        schema = header["schema"]
        if schema == SCHEMA:
            if "seed_regions" in header:  # the name it had in version 0.1
                header["initial_mask"] = header.pop("seed_regions")
            check(header, arrays)
            found = _explanation(header, arrays)
            json.dumps([str(found), found.as_dict()], allow_nan=False)  # what does not fit together fails here
            return found
    except FileNotFoundError:
        raise WhymaskError(f"there is no file {path}.") from None
    except DamagedError as error:
        raise WhymaskError(f"{path} is not a saved explanation: {error}.") from None
    except ERRORS:
        raise WhymaskError(f"{path} is not a saved explanation.") from None
    raise WhymaskError(f"{path} has schema {str(schema)[:20]}; this version reads schema {SCHEMA}.")


def check(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a `DamagedError` unless the parts of a result fit together and can be shown."""
    n = _check_arrays(arrays)
    _check_texts(header)
    box, target, values = header["box"], header["target"], header["label_values"]
    fits = len(box) == 4 and all(_number(side, 0, 1) for side in box) and box[0] < box[2] and box[1] < box[3]
    require(fits, "its box does not lie on the photo")
    require(set(target) == {"index", "label"} and type(target["index"]) is int, "its target has no index")
    require(
        values is None or (len(values) == n and all(type(v) is int for v in values)),
        "its region names do not fit its regions",
    )
    for text in (target["label"], header["provenance"]["method"], header["provenance"]["regions"]):
        require(isinstance(text, str), "a text is missing")
    for text in (header["prediction"], *(header["provenance"].get(name) for name in ("question", "model"))):
        require(text is None or isinstance(text, str), "a text is missing")
    require(isinstance(header["provenance"].get("parameters", {}), dict), "its parameters have no names")
    require(isinstance(header["complete"], bool), "it does not say whether it is complete")
    for sides in header["ledger"]["stages"].values():
        for counts in sides.values():
            require(all(_whole(counts[name]) for name in ("nominal", "mec")), "its numbers of forwards are not counts")
    scores = [header["full_score"], header["blank_score"]]
    if header["kind"] == Ordering.kind:
        scores += _check_ordering(header, n)
    else:
        scores += _check_mask(header, n)
    if header["kind"] == Repair.kind:
        scores += _check_repair(header, n)
    require(all(_number(score, -ROUNDING, 1 + ROUNDING) for score in scores), "a score does not lie in [0, 1]")


def _check_arrays(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Photo, canvas, fill, regions and map; returns the number of regions."""
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
    if "map" in arrays:
        heat = arrays["map"]
        fits = heat.dtype.kind == "f" and heat.shape == labels.shape and bool(np.isfinite(heat).all())
        require(fits, "its map does not fit its canvas")
    return int(labels.max()) + 1


def _check_texts(value: Any) -> None:
    """No text anywhere that is too long to be shown."""
    if isinstance(value, str):
        require(len(value) <= TEXT, f"a text is longer than {TEXT} characters")
    elif isinstance(value, Mapping):
        for name, entry in value.items():
            _check_texts(name)
            _check_texts(entry)
    elif isinstance(value, list):
        for entry in value:
            _check_texts(entry)


def _check_mask(header: dict[str, Any], n: int) -> list[Any]:
    """Regions, frontier and alternatives; returns the scores."""
    others = header.get("alternatives", [])
    require(len(others) <= OTHERS, "it has too many alternatives")
    for one in (header, *others):
        require(_distinct(one["regions"], n), "its mask names a region twice, or one that is not there")
    frontier, goal = header.get("frontier", {}), header.get("goal")
    require(all(0 <= int(size) <= n for size in frontier), "its frontier has sizes that no mask has")
    require(goal is None or _number(goal, -ROUNDING, 1 + ROUNDING), "its goal is not a score")
    require(
        isinstance(header["ordered"], bool) and isinstance(header.get("local_optimum", False), bool),
        "a flag is neither true nor false",
    )
    return [*frontier.values(), *(one[name] for one in (header, *others) for name in ("score", "removed_score"))]


def _check_ordering(header: dict[str, Any], n: int) -> list[Any]:
    """The order, the regions it grew from and its curves; returns the scores."""
    require(_distinct(header["order"], n) and len(header["order"]) == n, "its order does not name every region once")
    require(_distinct(header["initial_mask"], n), "its initial mask names a region twice, or one that is not there")
    require(_whole(header["kept"]) and header["kept"] <= n, "it keeps more regions than there are")
    curves = header.get("curves")
    if curves is None:
        return []
    areas, insertion, deletion = (curves[name] for name in ("areas", "insertion", "deletion"))
    require(len(areas) == len(insertion) == len(deletion) == n, "its curves have another length than its order")
    rising = all(_number(area, 0, 1 + ROUNDING) for area in areas) and sorted(areas) == areas
    require(rising and _whole(curves["forwards"]), "its curves are not over the area")
    return [*insertion, *deletion]


def _check_repair(header: dict[str, Any], n: int) -> list[Any]:
    """The answers, and the prefixes of a full search; returns the scores."""
    order, scores, right = (header[name] for name in ("order", "scores", "right"))
    require(_distinct(order, n) and len(order) in (0, n), "its order does not name every region once")
    require(len(scores) == len(right) == len(order), "its scores have another length than its order")
    require(all(isinstance(flag, bool) for flag in [header["repaired"], *right]), "a flag is neither true nor false")
    require(all(isinstance(header[name], str) for name in ("given", "answer")), "an answer is missing")
    return [header["given_score"], *scores]


def _distinct(regions: Any, n: int) -> bool:
    """Whether these are regions 0 ... n - 1, none of them twice."""
    good = isinstance(regions, list) and all(type(region) is int and 0 <= region < n for region in regions)
    return good and len({*regions}) == len(regions)


def _number(value: Any, least: float, most: float) -> bool:
    return type(value) in (int, float) and least <= value <= most


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _explanation(header: dict[str, Any], arrays: dict[str, Any]) -> EvidenceMask | Ordering:
    """The result that a file's header and arrays describe."""
    values = header["label_values"]
    image = ExplainedImage(
        photo=arrays["photo"],
        canvas=arrays["canvas"],
        fill=arrays["fill"],
        box=tuple(header["box"]),
        partition=Partition(
            arrays["labels"].astype(np.int32),
            header["provenance"]["regions"],
            None if values is None else tuple(values),
        ),
        target=Target(**header["target"]),
        prediction=header["prediction"],
        full_score=header["full_score"],
        blank_score=header["blank_score"],
    )
    common = {
        "image": image,
        "ledger": Ledger.from_dict(header["ledger"]),
        "provenance": header["provenance"],
        "complete": header["complete"],
    }
    kind = KINDS[header["kind"]]
    if kind is Ordering and "map" in arrays:
        common["map"] = arrays["map"].astype(np.float64)
    return kind.restore(header, common)
