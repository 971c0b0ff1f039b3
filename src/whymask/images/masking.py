"""What masked regions are filled with, and composing x_S in batches (Eq. 1)."""

import hashlib
import re
from collections.abc import Sequence
from numbers import Integral, Number
from os import PathLike
from os.path import isfile
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageColor, ImageFilter

from whymask.arrays import Bools, Masks, on_device
from whymask.errors import WhymaskError, unknown
from whymask.images.imaging import Canvas, ImageSource, load_image, resized, rounded

Fill: TypeAlias = str | tuple[int, int, int] | ImageSource
"""A name in FILLS, a colour ("#80b0ff", "red", (r, g, b)) or an image."""

Fills: TypeAlias = Fill | list[Fill] | tuple[Fill, ...]
"""One fill, several of them (also as one text, "black,blur"); "several" stands for SEVERAL."""

FILLS = ("black", "mean", "blur", "dark_defocus", "noise")
SEVERAL = ("black", "blur", "noise")  # masks that hold on these hold on others (docs/fills.md)
MOST_FILLS = 8


def fills_of(fill: Fills) -> tuple[Fill, ...]:
    """The fills that a user means. In a list, "several" stands for those of SEVERAL that are not named beside it.

    >>> fills_of("several,mean"), fills_of("blur,several"), fills_of((255, 0, 0))
    (('black', 'blur', 'noise', 'mean'), ('blur', 'black', 'noise'), ((255, 0, 0),))
    """
    fills: tuple[Any, ...] = (fill,)
    if isinstance(fill, str):
        named = fill_names(fill)
        if len(named) > 1 and not isfile(fill):
            fills = named
    elif isinstance(fill, list | tuple):
        colour = fill and all(isinstance(part, Number) for part in fill)
        fills = (tuple(fill),) if colour else tuple(fill)
    names = [one for one in fills if isinstance(one, str)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise WhymaskError(f"the fill {twice!r} is named twice.")
    more = [name for name in SEVERAL if name not in names]
    fills = tuple(one for part in fills for one in (more if isinstance(part, str) and part == "several" else [part]))
    if not 1 <= len(fills) <= MOST_FILLS:
        raise WhymaskError(f"a search uses 1 to {MOST_FILLS} fills, not {len(fills)}.")
    return fills


def fill_canvas(fill: Fill, canvas: Canvas) -> Canvas:
    """x_0 of Eq. 1: what shows where `canvas` (H, W, 3) is masked, in the same shape.

    The blurs have a standard deviation of 1/16 of the shorter side. dark_defocus is our reading of a name the paper
    leaves undefined. The noise has the mean and the standard deviation of each channel of the image; the image is its
    seed.
    """
    if isinstance(fill, tuple):
        return _colour(fill, canvas)
    if not isinstance(fill, str):
        return resized(load_image(fill), canvas.shape[1::-1])
    if fill == "mean":
        return _flat(np.rint(canvas.mean(axis=(0, 1))), canvas)
    if fill == "noise":
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(canvas.tobytes()).digest()[:8]))
        return rounded(rng.normal(canvas.mean(axis=(0, 1)), canvas.std(axis=(0, 1)), canvas.shape))
    if fill in ("blur", "dark_defocus"):
        blur = ImageFilter.GaussianBlur(min(canvas.shape[:2]) / 16)
        blurred = np.asarray(Image.fromarray(canvas).filter(blur))
        return blurred if fill == "blur" else (blurred // 3)
    try:
        return _colour(ImageColor.getrgb(fill)[:3], canvas)
    except ValueError as error:
        if isinstance(error, WhymaskError):
            raise
    if "/" in fill or "." in fill:
        return resized(load_image(fill), canvas.shape[1::-1])
    raise unknown("fill", fill, FILLS)


def fill_name(fill: Fill) -> str:
    """How a result's provenance names a fill."""
    return str(fill) if isinstance(fill, str | tuple | PathLike) else "image"


def fill_names(text: str) -> tuple[str, ...]:
    """The fills in a text such as "black,rgb(9, 9, 9)", which `fills_name` writes."""
    return tuple(part.strip() for part in re.split(r",(?![^()]*\))", text))


def fills_name(fills: Sequence[Fill]) -> str:
    """How a result's provenance names one fill or several."""
    return ",".join(fill_name(fill) for fill in fills)


def _colour(colour: tuple[Any, ...], canvas: Canvas) -> Canvas:
    if len(colour) != 3 or not all(isinstance(v, Integral) and 0 <= int(v) <= 255 for v in colour):
        raise WhymaskError(f"a fill colour is three whole numbers from 0 to 255, not {colour}.")
    return _flat(colour, canvas)


def _flat(colour: Any, canvas: Canvas) -> Canvas:
    return np.broadcast_to(np.asarray(colour, dtype=np.uint8), canvas.shape).copy()


def compose(rows: Bools, index: Any, x: Any, x0: Any, room: Any = None) -> Any:
    """The masked inputs x_S of a batch of kept sets, on the device where `x` lives.

    Args:
        rows: (B, n) kept regions.
        index: region of every element of `x`, broadcastable to it.
        x: the image in the model's own input layout, an array or a tensor.
        x0: the fill, of the same shape.
        room: an earlier result that is no longer needed; tensors are composed in its memory where it is large enough.

    Returns:
        (B, *x.shape): x where its region is kept, else x0. Preprocessing that works on each element by itself
        commutes with this choice, so the result is bit-identical to masking the pixels first.
    """
    if isinstance(x, np.ndarray):
        return np.where(rows[:, index], x, x0)
    import torch

    if room is not None and len(room) < len(rows):
        room = None
    out = None if room is None else room[: len(rows)]
    if x.device.type != "cpu":
        kept = on_device(rows, x.device).index_select(1, index.flatten())
        return torch.where(kept.view(len(rows), *index.shape), x, x0, out=out)
    # torch.where is not vectorised on CPUs: choose by bits instead, x0 ^ (kept & (x ^ x0)), four times as fast.
    word = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    kept = torch.from_numpy(np.take(rows, index.numpy(), axis=1)).to(word).neg_()  # all bits set, or none
    x, x0, kind = x.view(word), x0.view(word), x.dtype
    composed = torch.bitwise_and(kept, x ^ x0, out=None if out is None else out.view(word))
    return composed.bitwise_xor_(x0).view(kind)


def blend(masks: Masks | Any, pixel: Any, x: Any, x0: Any) -> Any:
    """The inputs m x + (1 - m) x0 of a batch of soft pixel masks, on the device where `x` lives.

    Args:
        masks: (B, H, W) in [0, 1], an array or a tensor (through which gradients flow).
        pixel: row * W + column of every element of `x`, broadcastable to it.
        x, x0: the image and the fill, as for `compose`.

    Returns:
        (B, *x.shape); where masks are 0 or 1 the same bits as `compose`. Whole numbers are rounded, not cut off.
    """
    if isinstance(x, np.ndarray):
        kept = masks.reshape(len(masks), -1)[:, pixel]
        mixed = kept * x + (1 - kept) * x0
        return (np.rint(mixed) if x.dtype.kind in "iu" else mixed).astype(x.dtype)
    import torch

    flat = on_device(masks, x.device).flatten(1)
    kept = flat.index_select(1, pixel.flatten()).view(len(flat), *pixel.shape)
    if not x.is_floating_point():
        mixed = torch.lerp(x0.float(), x.float(), kept.float())
        return mixed.round_().to(x.dtype)
    return torch.lerp(x0, x, kept.to(x.dtype))


def stack(batches: Sequence[Any]) -> Any:
    """Composed inputs of several images as one batch."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], np.ndarray):
        return np.concatenate(batches)
    import torch

    return torch.cat(list(batches))
