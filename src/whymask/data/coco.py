"""COCO annotations: which objects the photos in a folder show, and where.

Annotations are either COCO's own JSON (instances_*.json, in the folder or in its annotations/; photos in images/ or in
the folder), or one text file per image, each line of which begins with the number of a class: boxes/ (class x y w h)
with the class names in names.txt, and polygons/ (class x1 y1 x2 y2 ..., as shares of the size); photos in images/.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from os.path import isfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from whymask.arrays import Bools
from whymask.errors import WhymaskError
from whymask.interop.coco import from_coco_rle


def coco_objects(folder: str | Path) -> dict[str, list[str]]:
    """The objects that the images of a COCO-annotated folder show, by file name."""
    root = Path(folder)
    found = _instances(root, lambda annotation, names: [names[annotation["category_id"]]])
    if found is None:
        if not (root / "names.txt").is_file() or not (root / "boxes").is_dir():
            raise WhymaskError(f"{root} has neither instances_*.json nor names.txt and boxes/: no COCO annotations.")
        names, found = (root / "names.txt").read_text(encoding="utf-8").split("\n"), {}
        for photo, file in _texts(root / "boxes"):
            try:
                lines = file.read_text().splitlines()
                found[photo.name] = [names[int(line.split()[0])] for line in lines if line.strip()]
            except (ValueError, IndexError):
                raise WhymaskError(f"{file} must start each line with the number of a class in names.txt.") from None
    return {image: sorted({*objects}) for image, objects in found.items()}


def object_masks(folder: str | Path) -> Iterator[tuple[Path, Bools]]:
    """The photos of a COCO-annotated folder that show objects, each with the mask (H, W) of all its objects."""
    root = Path(folder)
    found = _instances(root, lambda annotation, _: _outlines(annotation["segmentation"]))
    for name, shapes in (_polygons(root) if found is None else found).items():
        photo = next((place / name for place in (root / "images", root) if isfile(place / name)), None)
        if photo is not None and shapes:
            yield photo, _drawn(shapes, _size(photo))


def _instances(root: Path, each: Callable[[Any, Any], Iterable[Any]]) -> dict[str, list[Any]] | None:
    """By file name, the results of `each` on the annotations and category names; None if there is no JSON file."""
    files = [*sorted(root.glob("instances_*.json")), *sorted(root.glob("annotations/instances_*.json"))]
    if not files:
        return None
    try:
        data = json.loads(files[0].read_text(encoding="utf-8"))
        found: dict[Any, list[Any]] = {image["id"]: [] for image in data["images"]}
        names = {category["id"]: category["name"] for category in data.get("categories", ())}
        for annotation in data["annotations"]:
            found[annotation["image_id"]].extend(each(annotation, names))
        return {Path(image["file_name"]).as_posix(): found[image["id"]] for image in data["images"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise WhymaskError(f"{files[0]} is not a COCO instances file: {type(error).__name__} {error}.") from None


def _texts(folder: Path) -> Iterator[tuple[Path, Path]]:
    """The photos in images/ next to the folder, each with its text file in the folder."""
    photos = {file.stem: file for file in sorted((folder.parent / "images").glob("*"))}
    return ((photos[file.stem], file) for file in sorted(folder.glob("*.txt")) if file.stem in photos)


def _polygons(root: Path) -> dict[str, list[Any]]:
    if not (root / "polygons").is_dir():
        raise WhymaskError(f"{root} has neither instances_*.json nor polygons/: no outlines of objects.")
    found = {}
    for photo, file in _texts(root / "polygons"):
        size = np.array(_size(photo))
        try:
            lines = [np.array(line.split()[1:], dtype=float) for line in file.read_text().splitlines()]
            found[photo.name] = [(line.reshape(-1, 2) * size).ravel().tolist() for line in lines if len(line)]
        except ValueError:
            raise WhymaskError(f"{file} must have lines with a class and then pairs x y.") from None
    return found


def _outlines(segmentation: Any) -> list[Any]:
    """Polygons [x1, y1, x2, y2, ...] in pixels, or a mask (H, W)."""
    if not isinstance(segmentation, dict):
        return [_polygon(points) for points in segmentation]
    counts, (height, width) = segmentation["counts"], segmentation["size"]
    if isinstance(counts, list):  # crowds are stored uncompressed
        return [np.repeat(np.arange(len(counts)) % 2 == 1, counts).reshape((height, width), order="F")]
    return [from_coco_rle(segmentation)]


def _polygon(points: list[float]) -> list[float]:
    pairs = np.array(points, dtype=float).reshape(-1, 2)
    if not np.isfinite(pairs).all():
        raise ValueError("a polygon with a point that is not finite")
    return [float(value) for value in pairs.ravel()]


def _size(photo: Path) -> tuple[int, int]:
    """(width, height); only the file's header is read."""
    try:
        with Image.open(photo) as image:
            return image.size
    except OSError:
        raise WhymaskError(f"{photo} cannot be read as an image.") from None


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
                raise WhymaskError(f"a mask of {outline.size} pixels belongs to a photo of {size}: sizes must agree.")
            canvas.paste(1, mask=outline)
    return np.asarray(canvas)
