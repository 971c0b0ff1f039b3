"""Reads images from any source as RGB pixels, and brings them to a model's input grid."""

import hashlib
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from whymask.errors import ImageError, WhymaskError, whole
from whymask.images.encoded import TooMuchWorkError, open_image
from whymask.utils.digest import digest

Canvas: TypeAlias = NDArray[np.uint8]
"""RGB pixels (H, W, 3)."""

ImageSource: TypeAlias = str | PathLike[str] | bytes | Image.Image | NDArray[Any] | list[Any]
"""A path, bytes, a PIL image or an array; a list of them are the images of one question."""
Resize = Literal["own", "squash", "none"]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom as shares of the image's width and height."""
WHOLE: Box = (0.0, 0.0, 1.0, 1.0)

MAX_PIXELS = 64_000_000
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "HEIF")
"""AVIF where Pillow decodes it (from 11.3), HEIF (HEIC) where pillow-heif is installed."""
DRAWN = ("scene:", "described:")
"""Prefixes of the names of images that are drawn instead of read."""


def load_image(source: ImageSource, *, formats: tuple[str, ...] = FORMATS, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """An RGB image from a path, bytes, a PIL image, an array (H, W), (H, W, 3) or (H, W, 4), or "scene:12" (DRAWN).

    Rotates by EXIF, shows transparency on white and scales 16-bit values to 8. A file that has more than `max_pixels`
    or takes more than a few seconds to decode raises an error before it is decoded.
    """
    name = "the image"
    try:
        if isinstance(source, Image.Image):
            return _rgb(source)
        if isinstance(source, np.ndarray):
            return _rgb(_from_array(source))
        if isinstance(source, str | PathLike):
            name = str(source)
            if name.startswith(DRAWN):
                from whymask.images import described, scenes

                drawn = scenes.named(name) if name.startswith("scene:") else described.named(name)
                return Image.fromarray(drawn.pixels)
            source = read_file(source)
        if not isinstance(source, bytes):
            hint = "; several of one question are a list" if isinstance(source, tuple) else ""
            kind = type(source).__name__
            raise WhymaskError(f"an image is a path, bytes, a PIL image or an array, not {kind}{hint}.")
        if not source:
            raise ImageError(f"{name} is empty.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own bomb warning: the cap below is ours
            image, turn = open_image(source, formats)
            if image.width * image.height <= max_pixels:
                return _rgb(image) if turn is None else _rgb(image.transpose(turn))
    except WhymaskError:
        raise
    except Image.DecompressionBombError:
        pass
    except TooMuchWorkError as error:
        raise ImageError(f"{name} takes too much work to decode ({error}); save it again as a PNG.") from None
    except UnidentifiedImageError:
        needed = _missing_decoder(source, formats)
        reason = f" without {needed}" if needed else ""
        raise ImageError(f"{name} is not an image that can be read{reason} ({', '.join(formats)}).") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ImageError(f"{name} is broken and cannot be decoded: {reason}.") from None
    raise ImageError(f"{name} has more than {max_pixels / 1e6:.0f} megapixels; reduce it first.")


def read_file(name: str | PathLike[str]) -> bytes:
    """The content of an image file."""
    path = Path(name)
    if re.match("(https?|ftp|data|s3):", str(name), re.IGNORECASE):
        raise ImageError(f"{name!s:.100} is an address, not a file: download the image and pass its path.")
    try:
        if path.is_dir():
            raise ImageError(f"{path} is a directory, not an image.")
        return path.read_bytes()
    except FileNotFoundError:
        raise ImageError(f"there is no file {path}.") from None
    except OSError as error:
        raise ImageError(f"{path} cannot be read: {error.strerror}.") from None


def _missing_decoder(content: Any, formats: tuple[str, ...]) -> str | None:
    """The package that decodes this file, where that is what is missing."""
    brand = content[8:12] if content[4:8] == b"ftyp" else b""
    if brand in (b"avif", b"avis") and "AVIF" in formats and "AVIF" not in Image.OPEN:
        return "Pillow 11.3 or later"
    return "pillow-heif" if brand in (b"heic", b"heix", b"mif1") and "HEIF" in formats else None


def _rgb(image: Image.Image) -> Image.Image:
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image)
        if image.mode == "F":
            image = _from_array(values)
        elif values.min() >= 0 and values.max() <= 65535:
            image = _from_array(values.astype(np.uint16 if image.mode != "I" or values.max() > 255 else np.uint8))
        else:
            raise ImageError("a 32-bit image must hold values from 0 to 65535.")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise WhymaskError(f"an image array has shape (H, W), (H, W, 3) or (H, W, 4), not {array.shape}.")
    if array.dtype == np.uint16:
        array = np.rint(array / 257).astype(np.uint8)
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise ImageError("a floating-point image array must hold values in [0, 1].")
        array = np.rint(array * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise WhymaskError(f"an image array must be uint8, uint16 or floating point, not {array.dtype}.")
    return Image.fromarray(array)


class Geometry(ABC):
    """How a model's preprocessing brings an image to its input grid."""

    def place(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        """The image on the grid (H, W, 3), and which part of it the model sees.

        "own" is the model's preprocessing, "squash" brings the whole image to the grid, "none" expects an image that is
        on the grid already.
        """
        if resize not in get_args(Resize):
            raise WhymaskError(f"resize is 'own', 'squash' or 'none', not {resize!r}.")
        return self._placed(image, resize)

    @abstractmethod
    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        """The implementation of `place`, for a valid `resize`."""

    @property
    def fingerprint(self) -> str:
        """Identifies a geometry: its kind and its settings, which are plain values and other geometries."""
        settings = {
            name: value.fingerprint if isinstance(value, Geometry) else value for name, value in vars(self).items()
        }
        return f"{type(self).__name__} {digest(settings)}"


def rounded(values: Any) -> Canvas:
    """Values of pixels as whole numbers 0 ... 255, in the same shape."""
    return np.asarray(np.clip(np.rint(values), 0, 255), dtype=np.uint8)


def resized(image: Image.Image, size: tuple[int, int]) -> Canvas:
    """The pixels of an image brought to (width, height)."""
    return np.asarray(image.resize(size, Image.Resampling.BICUBIC))


def capped(image: Image.Image, max_side: int) -> Image.Image:
    """The image, reduced to at most `max_side` pixels on its longer side."""
    shrink = max_side / max(image.size)
    if shrink >= 1:
        return image
    return Image.fromarray(resized(image, (max(1, round(image.width * shrink)), max(1, round(image.height * shrink)))))


def sides(size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width) of a size that is one number of pixels or both; anything else raises an error."""
    pixels = [whole("size", side, 1) for side in np.array(size, dtype=object).ravel()]
    if len(pixels) not in (1, 2):
        raise WhymaskError(f"size is a number of pixels or (height, width), not {size!r}.")
    return pixels[0], pixels[-1]


@dataclass(frozen=True)
class WholeImage(Geometry):
    """For models that take pictures of any size: the whole image, its longer side at most `max_side`.

    "own" and "squash" are the same here.
    """

    max_side: int | None = 512  # None: as large as it is
    size: int | tuple[int, int] | None = None  # a side of a square, or (height, width), where a model needs one size
    enlarge: bool = False  # whether smaller images are enlarged to it

    def __post_init__(self) -> None:
        if self.max_side is not None:
            whole("max_side", self.max_side, 1)
        if self.size is not None:
            object.__setattr__(self, "size", sides(self.size))

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        if resize == "none":
            return np.asarray(image), WHOLE
        if self.size is not None:
            height, width = sides(self.size)
            return resized(image, (width, height)), WHOLE
        scale = 1.0 if self.max_side is None else self.max_side / max(image.size)
        scale = scale if self.enlarge else min(1.0, scale)
        return resized(image, (max(1, round(image.width * scale)), max(1, round(image.height * scale)))), WHOLE


@dataclass(frozen=True)
class CentreCrop(Geometry):
    """The central part of the image that has the grid's proportions, `share` of the largest, brought to the grid.

    For a square grid that is a square, `share` of the shorter side.
    """

    size: int | tuple[int, int]  # of the grid: a side of a square, or (height, width)
    share: float = 1.0

    def __post_init__(self) -> None:
        sides(self.size)

    @property
    def shape(self) -> tuple[int, int]:
        """(H, W) of the grid."""
        return sides(self.size)

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        width, height = image.size
        rows, columns = self.shape
        box = WHOLE
        if resize == "own":
            x = self.share * min(width, height * (columns / rows)) / width / 2
            y = self.share * min(height, width * (rows / columns)) / height / 2
            box = (0.5 - x, 0.5 - y, 0.5 + x, 0.5 + y)
        elif resize == "none" and image.size != (columns, rows):
            raise WhymaskError(f"this model's grid is {columns} x {rows} pixels, not {width} x {height}.")
        if resize == "none":
            return np.asarray(image), box
        pixels = (box[0] * width, box[1] * height, box[2] * width, box[3] * height)
        return np.asarray(image.resize((columns, rows), Image.Resampling.BICUBIC, box=pixels)), box


def see_labels(labels: NDArray[Any], box: Box, shape: tuple[int, int]) -> NDArray[Any]:
    """A label map over the whole image as it falls on a grid of `shape` that shows `box` of it."""
    height, width = labels.shape
    y = (box[1] + (np.arange(shape[0]) + 0.5) / shape[0] * (box[3] - box[1])) * height
    x = (box[0] + (np.arange(shape[1]) + 0.5) / shape[1] * (box[2] - box[0])) * width
    rows, cols = np.clip(y.astype(int), 0, height - 1), np.clip(x.astype(int), 0, width - 1)
    return labels[np.ix_(rows, cols)]


def on_image(values: NDArray[Any], box: Box, shape: tuple[int, int], outside: float = 0) -> NDArray[Any]:
    """Values of a grid (H, W) that shows `box` of an image, on the image's own pixels: the inverse of `see_labels`.

    Args:
        values: (H, W), booleans or numbers.
        box: the part of the image that the grid shows.
        shape: (h, w) of the image. Each of its pixels gets the value of the grid pixel that its centre lies in.
        outside: the value of pixels that the grid does not show.
    """
    ends = ((box[1], box[3]), (box[0], box[2]))
    inside, places = [], []
    for pixels, grid, (first, last) in zip(shape, values.shape, ends, strict=True):
        # A centre on the border of two grid pixels belongs to the second, however its place was rounded.
        place = np.floor(((np.arange(pixels) + 0.5) / pixels - first) / (last - first) * grid + 1e-9).astype(int)
        inside.append((place >= 0) & (place < grid))
        places.append(place[inside[-1]])
    painted = np.full(shape, outside, dtype=values.dtype)
    painted[np.ix_(*inside)] = values[np.ix_(*places)]
    return painted


@dataclass(frozen=True)
class Preprocessed(Geometry):
    """A library's own preprocessing: steps that resize and crop an image to pixels (H, W, 3), one after the other.

    Which part of the image that keeps is measured by sending a ramp through them, so any library's steps will do.
    """

    steps: Sequence[Callable[[Any], Any]]

    @property
    def fingerprint(self) -> str:
        """Measured too: the pixels that the steps make of a wide, an upright and a small test image."""
        pixels = hashlib.sha256()
        for width, height in ((1200, 800), (427, 640), (100, 75)):
            x, y = np.arange(width), np.arange(height)[:, None]
            pattern = np.stack([x * y, x * x + y, x + y * y], axis=-1) % 251  # detail at all scales
            canvas = self._run(Image.fromarray(pattern.astype(np.uint8)))
            pixels.update(f"{canvas.shape}".encode() + canvas.tobytes())
        return pixels.hexdigest()[:16]

    def _placed(self, image: Image.Image, resize: Resize) -> tuple[Canvas, Box]:
        if resize == "none":
            return np.asarray(image), WHOLE
        canvas = self._run(image)
        if resize == "own":
            return canvas, self._seen(image.size)
        return resized(image, (canvas.shape[1], canvas.shape[0])), WHOLE

    def _run(self, image: Any) -> Canvas:
        for step in self.steps:
            image = step(image)
        return np.asarray(image)

    def _seen(self, size: tuple[int, int]) -> Box:
        """Red rises from left to right and green from top to bottom: what is left of them gives the box."""
        width, height = size
        ramp = np.zeros((height, width, 3), dtype=np.uint8)
        ramp[..., 0] = np.rint((np.arange(width) + 0.5) / width * 255)
        ramp[..., 1] = np.rint((np.arange(height) + 0.5) / height * 255)[:, None]
        seen = self._run(Image.fromarray(ramp)).astype(float) / 255
        left, right = _ends(seen[..., 0].mean(axis=0), width)
        top, bottom = _ends(seen[..., 1].mean(axis=1), height)
        return (left, top, right, bottom)


def _ends(profile: NDArray[np.float64], pixels: int) -> tuple[float, float]:
    """Where the straight line through a ramp's values begins and ends."""
    if pixels < 8 or len(profile) < 3:
        return 0.0, 1.0
    inner = slice(len(profile) // 10, len(profile) - len(profile) // 10)  # filters bend the ramp at its ends
    slope, start = np.polyfit(((np.arange(len(profile)) + 0.5) / len(profile))[inner], profile[inner], 1)
    return max(0.0, float(start)), min(1.0, float(start + slope))


def viewable(image: Image.Image) -> Canvas:
    """The photo at a size for viewing: small enough to travel with a result, large enough for outlines."""
    longest = max(image.size)
    scale = 256 / longest if longest < 256 else min(1.0, 768 / longest)
    size = (max(2, round(image.width * scale)), max(2, round(image.height * scale)))
    kind = Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST
    return np.asarray(image.resize(size, kind))
