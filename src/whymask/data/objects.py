"""Photos whose objects are known pixel by pixel, and how much of the evidence lies on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from whymask.arrays import Bools
from whymask.data.manifest import Sample
from whymask.errors import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import load_image, see_labels
from whymask.interop.coco import from_coco_rle
from whymask.utils.files import atomic


def samples(folder: str | Path, masks: Path) -> list[Sample]:
    """The photos of a COCO-annotated folder, each with a mask of all its objects, which is written to `masks`.

    The annotations are COCO's own JSON (instances_*.json, in the folder or in its annotations/; photos in images/ or
    the folder), or one text file an image in polygons/ (class x1 y1 x2 y2 ..., as shares of the size).
    """
    made = []
    for photo, shapes in _annotated(Path(folder)):
        if shapes:
            mask, drawn = masks / f"{photo.stem}.png", _drawn(shapes, _size(photo))
            with atomic(mask) as file:
                Image.fromarray(drawn).save(file, format="PNG")
            made.append(Sample(photo.stem, str(photo), mask=str(mask)))
    if not made:
        raise WhymaskError(f"{folder} holds no photo with outlines of its objects.")
    return made


def truth(mask: str, case: Case) -> Bools:
    """The mask of a file on the grid of a case, (H, W): where the file, as large as the image, is not black."""
    drawn = np.asarray(load_image(mask).convert("L")) > 0
    width, height = case.bound.image.size
    if drawn.shape != (height, width):
        raise WhymaskError(f"the mask {mask} has shape {drawn.shape}, but its image has {(height, width)}.")
    return see_labels(drawn, case.bound.box, case.bound.canvas.shape[:2])


def overlap(case: Case, objects: Bools, regions: Sequence[int]) -> dict[str, float]:
    """How much of these regions lies on the objects (H, W), how much of the objects they cover, and their area."""
    if not objects.any():
        return {}  # all of them are outside of what the model sees
    kept = case.partition.pixels(np.isin(np.arange(case.partition.n), regions))
    both = float((kept & objects).sum())
    return {
        "on_object": both / max(1, int(kept.sum())),
        "covered": both / int(objects.sum()),
        "object": float(objects.mean()),
    }


def _annotated(folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    """Photos and the outlines of their objects: polygons [x1, y1, x2, y2, ...] in pixels, or masks (H, W)."""
    files = [*sorted(folder.glob("instances_*.json")), *sorted(folder.glob("annotations/instances_*.json"))]
    if files:
        yield from _instances(files[0], folder)
        return
    if not (folder / "polygons").is_dir():
        raise WhymaskError(f"{folder} has neither instances_*.json nor polygons/: no outlines of objects.")
    photos = {file.stem: file for file in sorted((folder / "images").glob("*"))}
    for file in sorted((folder / "polygons").glob("*.txt")):
        if file.stem in photos:
            size = np.array(_size(photos[file.stem]))
            try:
                lines = [np.array(line.split()[1:], dtype=float) for line in file.read_text().splitlines()]
                shapes = [(line.reshape(-1, 2) * size).ravel().tolist() for line in lines if len(line)]
            except ValueError:
                raise WhymaskError(f"{file} must hold lines of a class and pairs x y.") from None
            yield photos[file.stem], shapes


def _instances(file: Path, folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        shapes: dict[Any, list[Any]] = {image["id"]: [] for image in data["images"]}
        for annotation in data["annotations"]:
            outline = annotation["segmentation"]
            drawn = [_decoded(outline)] if isinstance(outline, dict) else map(_polygon, outline)
            shapes[annotation["image_id"]].extend(drawn)
        names = {image["id"]: Path(image["file_name"]) for image in data["images"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WhymaskError(f"{file} is not COCO's instances file: {type(error).__name__} {error}.") from None
    for number, name in names.items():
        photo = next((place / name for place in (folder / "images", folder) if isfile(place / name)), None)
        if photo is not None:
            yield photo, shapes[number]


def _size(photo: Path) -> tuple[int, int]:
    """(width, height); only the file's header is read."""
    try:
        with Image.open(photo) as image:
            return image.size
    except OSError:
        raise WhymaskError(f"{photo} cannot be read as an image.") from None


def _decoded(rle: dict[str, Any]) -> Bools:
    counts, (height, width) = rle["counts"], rle["size"]
    if isinstance(counts, list):  # crowds are not compressed
        return np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape((height, width), order="F")
    return from_coco_rle(rle)


def _polygon(points: list[float]) -> list[float]:
    pairs = np.array(points, dtype=float).reshape(-1, 2)
    if not np.isfinite(pairs).all():
        raise ValueError("a polygon with a point that is not finite")
    return [float(value) for value in pairs.ravel()]


def _drawn(shapes: list[Any], size: tuple[int, int]) -> Bools:
    """All shapes on a canvas of (width, height), as (height, width)."""
    canvas = Image.new("1", size)
    for shape in shapes:
        if isinstance(shape, list):
            if len(shape) >= 6:
                ImageDraw.Draw(canvas).polygon(shape, fill=1)
        else:
            outline = Image.fromarray(shape)
            if outline.size != size:
                raise WhymaskError(f"a mask of {outline.size} pixels outlines an object of a photo of {size}.")
            canvas.paste(1, mask=outline)
    return np.asarray(canvas)
