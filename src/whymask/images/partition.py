"""From an image to the regions a search chooses among."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from os import PathLike
from os.path import isfile
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import WHOLE, Box, Canvas, see_labels

Regions: TypeAlias = str | PathLike[str] | NDArray[Any]
"""How to divide the image: "slico:64", "grid:8x8", a label-map file, a label map (H, W) or masks (m, H, W)."""


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Disjoint regions that cover the grid: `labels` (H, W) holds 0 ... n - 1, every number at least once."""

    labels: NDArray[np.int32]
    name: str
    values: tuple[int, ...] | None = None  # the numbers a user's own label map has for the regions
    parents: NDArray[np.intp] | None = None  # (n,) the coarse region that each lies in, where they are nested

    def __repr__(self) -> str:
        return f"<Partition {self.name}: {self.n} regions>"

    @cached_property
    def n(self) -> int:
        """Number of regions."""
        return int(self.labels.max()) + 1

    @cached_property
    def areas(self) -> Floats:
        """(n,) share of the grid each region covers."""
        return np.bincount(self.labels.ravel()) / self.labels.size

    @cached_property
    def centroids(self) -> Floats:
        """(n, 2) mean position of each region as (x / W, y / H)."""
        height, width = self.labels.shape
        y, x = np.indices(self.labels.shape).reshape(2, -1) + 0.5
        count = np.bincount(self.labels.ravel())
        sums = [np.bincount(self.labels.ravel(), weights=w) for w in (x / width, y / height)]
        return np.stack(sums, axis=1) / count[:, None]

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the partition: a hash of its label map."""
        return hashlib.sha256(self.labels.tobytes() + str(self.labels.shape).encode()).hexdigest()[:16]

    def pixels(self, chosen: Bools) -> Bools:
        """The grid's pixels (H, W) that lie in the chosen regions (n,)."""
        return chosen[self.labels]


def partition(
    canvas: Canvas, regions: Regions = "slico:64", *, image_shape: tuple[int, int] | None = None, box: Box = WHOLE
) -> Partition:
    """Divide what the model sees into regions.

    Args:
        canvas: (H, W, 3) the image on the model's grid.
        regions: "slico:N" (SLICO superpixels, about N), "grid:N" or "grid:RxC", each region of them cut into M as
            "slico:N/M" or "grid:N/M" (nested regions, which methods with a split stage need), the path of a label map
            (an 8- or 16-bit PNG or a .npy file), a label map, or boolean masks (m, H, W). Where masks overlap the
            smaller one wins; what they leave uncovered is one more region. Label maps and masks are drawn on the
            whole image, or on the model's grid.
        image_shape: (height, width) of the whole image, where that is not the canvas.
        box: the part of the image on the canvas.
    """
    grid = (canvas.shape[0], canvas.shape[1])
    image_shape = image_shape or grid
    if isinstance(regions, PathLike):
        regions = str(regions)
    if not isinstance(regions, str):
        return _given(np.asarray(regions), grid, image_shape, box, "given")
    check_regions(regions)
    if nested := re.fullmatch(r"((?:slico|grid).*)/(\d+)", regions):
        return split_regions(partition(canvas, nested[1]), int(nested[2]))
    kind, _, size = regions.partition(":")
    if kind == "slico":
        from skimage.segmentation import slic

        labels = slic(canvas, n_segments=int(size or 64), compactness=20, slic_zero=True, start_label=0)
        return Partition(numbered(labels), regions)
    if kind == "grid":
        return Partition(numbered(_grid(grid, size or "64")), regions)
    return _given(_read_labels(Path(regions)), grid, image_shape, box, Path(regions).name)


def split_regions(coarse: Partition, parts: int) -> Partition:
    """Nested regions: each coarse one in at most `parts` of equal area, cut across the longer side again and again."""
    labels = np.empty_like(coarse.labels)
    parents: list[int] = []
    for region in range(coarse.n):
        pieces = [np.argwhere(coarse.labels == region)]  # (pixels, 2)
        while len(pieces) < parts and len(pieces[0]) > 1:
            piece = pieces.pop(0)
            along = piece[np.argsort(piece[:, np.argmax(np.ptp(piece, axis=0))], kind="stable")]
            pieces = sorted([*pieces, *np.array_split(along, 2)], key=len, reverse=True)
        for piece in pieces:
            labels[tuple(piece.T)] = len(parents)
            parents.append(region)
    return Partition(labels, f"{coarse.name}/{parts}", parents=np.array(parents))


def check_regions(regions: str) -> None:
    """Raise an error for a text that does not say how to divide an image; this needs no image."""
    if not re.fullmatch(r"(slico(:[1-9]\d*)?|grid(:[1-9]\d*(x[1-9]\d*)?)?)(/[1-9]\d*)?", regions) and not isfile(
        regions
    ):
        raise WhymaskError(f"regions is 'slico:64', 'grid:8x8' or the path of a label map, not {regions!r}.")


def _grid(shape: tuple[int, int], size: str) -> NDArray[Any]:
    height, width = shape
    if "x" in size:
        rows, cols = map(int, size.split("x"))
    else:
        rows = max(1, round(sqrt(int(size) * height / width)))
        cols = ceil(int(size) / rows)
    y, x = np.arange(height) * rows // height, np.arange(width) * cols // width
    return y[:, None] * cols + x


def _read_labels(path: Path) -> NDArray[Any]:
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        return np.asarray(Image.open(path, formats=("PNG",)))
    except (OSError, ValueError, EOFError, SyntaxError, TokenError, Image.DecompressionBombError):
        raise WhymaskError(f"{path} is not a label map: use an 8- or 16-bit PNG or a .npy file.") from None


def _given(
    regions: NDArray[Any], grid: tuple[int, int], image_shape: tuple[int, int], box: Box, name: str
) -> Partition:
    labels: NDArray[Any]
    if regions.ndim == 3 and regions.dtype == bool:
        labels = np.full(regions.shape[1:], len(regions))
        for number in np.argsort(-regions.sum(axis=(1, 2)), kind="stable"):
            labels[regions[number]] = number
    elif regions.ndim == 2 and regions.dtype.kind in "iub":
        labels = regions
    else:
        raise WhymaskError(
            "regions are whole numbers (H, W) or boolean masks (m, H, W), "
            f"not {regions.dtype} of shape {regions.shape}."
        )
    if labels.shape == image_shape:
        labels = see_labels(labels, box, grid)
    if labels.shape == grid:
        return Partition(numbered(labels), name, tuple(np.unique(labels).tolist()))
    raise WhymaskError(
        f"the label map has shape {labels.shape}, but the image has {image_shape} and the model's grid {grid}."
    )


def numbered(labels: NDArray[Any]) -> NDArray[np.int32]:
    """The same regions numbered 0 ... n - 1 without gaps."""
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int32)
