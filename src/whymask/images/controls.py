"""Pictures in which a mask's evidence is changed on purpose: other fills around it, other content inside it."""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from whymask.arrays import Bools
from whymask.images.imaging import Canvas
from whymask.images.inpaint import inpainted
from whymask.images.masking import fill_canvas

CANDIDATES = ("noise", "blur", "inpaint", "mean", "black", "dark_defocus")  # to check a mask on, the best ones first
UNUSED = 2  # fills that the search did not use


def unused_fills(canvas: Canvas, used: Sequence[Canvas], inside: Bools) -> dict[str, Canvas]:
    """The first candidates that look different from all fills (H, W, 3) of a search, by name.

    In-painting continues the pixels `inside` (H, W). Since it depends on the mask, no search uses it.
    """
    fills = (
        (name, inpainted(canvas, inside) if name == "inpaint" else fill_canvas(name, canvas)) for name in CANDIDATES
    )
    others = ((name, fill) for name, fill in fills if not any(np.array_equal(fill, one) for one in used))
    return dict(islice(others, UNUSED))


def control_pictures(canvas: Canvas, fills: Sequence[Canvas], inside: Bools) -> dict[str, list[Canvas]]:
    """The controls of the pixels `inside` (H, W) as pictures (H, W, 3), by name.

    "flat" and "shuffled" have other content inside the same outline, a picture on each of the search's fills (H, W, 3);
    the others show the same content on fills that the search did not use, by their names. A mask without pixels has
    none.
    """
    if not inside.any():
        return {}
    kept = inside[..., None]
    contents = {"flat": flat(canvas, inside), "shuffled": shuffled(canvas, inside)}
    pictures = {name: [np.where(kept, content, fill) for fill in fills] for name, content in contents.items()}
    unused = unused_fills(canvas, fills, inside)
    return pictures | {name: [np.where(kept, canvas, fill)] for name, fill in unused.items()}


def flat(canvas: Canvas, inside: Bools) -> Canvas:
    """The canvas (H, W, 3) with one colour, the mean of what was there, on the pixels `inside` (H, W)."""
    changed = canvas.copy()
    changed[inside] = np.rint(canvas[inside].mean(axis=0)).astype(np.uint8)
    return changed


def shuffled(canvas: Canvas, inside: Bools) -> Canvas:
    """The canvas (H, W, 3) with the pixels `inside` (H, W) in an order that is random but the same every time."""
    changed = canvas.copy()
    changed[inside] = np.random.default_rng(0).permutation(canvas[inside], axis=0)
    return changed
