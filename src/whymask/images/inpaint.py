"""In-painting: what is hidden, continued from what is shown (ROAD's noisy linear imputation, Rong et al., 2022)."""

import hashlib

import numpy as np
from PIL import Image
from scipy import sparse
from scipy.sparse.linalg import splu

from whymask.arrays import Bools, Floats
from whymask.images.imaging import Canvas, rounded

DIRECT, DIAGONAL = 1 / 6, 1 / 12  # weights of the neighbours of a pixel
NOISE = 0.01 * 255  # standard deviation of what is added, since a picture is never that smooth
LONGEST = 128  # side of the grid that is solved: what is filled in is smooth, so a large picture needs no finer one


def inpainted(canvas: Canvas, inside: Bools) -> Canvas:
    """The canvas (H, W, 3) where it is shown, `inside` (H, W), and a continuation of that elsewhere.

    Every hidden pixel is the weighted mean of its neighbours plus some noise, drawn with the picture as its seed. In a
    larger picture, blocks of pixels take the place of pixels.
    """
    if inside.all() or not inside.any():
        return canvas.copy()
    height, width = inside.shape
    step = -(-max(height, width) // LONGEST)
    known, values = blocks(canvas, inside, step)
    filled = np.stack(
        [_enlarged(channel, step, height, width) for channel in np.moveaxis(imputed(values, known), 2, 0)]
    )
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(canvas.tobytes()).digest()[:8]))
    noisy = np.moveaxis(filled, 0, 2) + rng.normal(0, NOISE, canvas.shape)
    return np.where(inside[..., None], canvas, rounded(noisy))


def imputed(values: Floats, known: Bools) -> Floats:
    """The picture (H, W, C) whose pixels that are not `known` (H, W) equal the weighted means of their neighbours.

    At the border the weights of the neighbours that exist are scaled to a sum of 1.
    """
    height, width = known.shape
    rows, columns = (_line(length) for length in (height, width))
    weights = DIRECT * (sparse.kron(sparse.eye_array(height), columns) + sparse.kron(rows, sparse.eye_array(width)))
    weights = (weights + DIAGONAL * sparse.kron(rows, columns)).tocsr()
    hidden, colours = ~known.ravel(), values.reshape(height * width, -1)
    to_hidden = weights[hidden]
    system = sparse.diags_array(to_hidden.sum(axis=1)) - to_hidden[:, hidden]
    # Symmetric and positive definite: a factorisation that uses this fills in far less.
    factors = splu(system.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0, options={"SymmetricMode": True})
    found = colours.astype(np.float64)
    found[hidden] = factors.solve(to_hidden[:, ~hidden] @ found[~hidden])
    return found.reshape(values.shape)


def blocks(canvas: Canvas, inside: Bools, step: int) -> tuple[Bools, Floats]:
    """Which blocks of `step` x `step` pixels show anything, (h, w), and the means of what they show, (h, w, 3)."""
    height, width = inside.shape
    padding = (0, -height % step), (0, -width % step)
    shown = np.pad(inside, padding)
    values = np.pad(canvas * inside[..., None], (*padding, (0, 0))).astype(np.float64)
    h, w = shown.shape[0] // step, shown.shape[1] // step
    count = shown.reshape(h, step, w, step).sum(axis=(1, 3))
    total = values.reshape(h, step, w, step, 3).sum(axis=(1, 3))
    return count > 0, total / np.maximum(count, 1)[..., None]


def _line(length: int) -> sparse.csr_array:
    """Which pixels of a line are neighbours, (length, length)."""
    return sparse.diags_array([np.ones(length - 1)] * 2, offsets=[-1, 1], shape=(length, length)).tocsr()


def _enlarged(channel: Floats, step: int, height: int, width: int) -> Floats:
    """Each value as a block of `step` x `step` pixels, with smooth transitions, cut to (height, width)."""
    if step == 1:
        return channel
    picture = Image.fromarray(channel.astype(np.float32))
    size = (channel.shape[1] * step, channel.shape[0] * step)
    return np.asarray(picture.resize(size, Image.Resampling.BILINEAR), dtype=np.float64)[:height, :width]
