"""HSIC attribution: how much the score depends on each cell of a grid (Novello et al., 2022)."""

from math import ceil, isqrt, log2

import numpy as np
from PIL import Image

from whymask.arrays import Bools, Floats, Masks
from whymask.baselines.regions import baseline, by_map, in_chunks, pixels
from whymask.errors import WhymaskError
from whymask.search.limits import Count, Several
from whymask.search.protocol import Continuation, Problem, Ranking

AN_ASK = 50  # masks


@baseline("how much the score depends on each cell of a grid", cost=lambda n, p: p["designs"], needs="pixels")
def hsic(problem: Problem, *, designs: Several = 500, grid: Count = 8) -> Continuation:
    """Order regions by the mean of the cells' HSIC over each of them; one forward a design.

    A design keeps each cell with probability 1/2, after a scrambled Sobol sequence. It needs no TensorFlow, and the
    model sees its own channel order (the usual adapter feeds it BGR).
    """
    from scipy.stats.qmc import Sobol

    if grid**2 > Sobol.MAXDIM:
        raise WhymaskError(f"grid must be at most {isqrt(Sobol.MAXDIM)}, the limit of Sobol sequences, not {grid}.")
    height, width = pixels(problem).shape
    cell = (np.arange(height) * grid // height)[:, None] * grid + np.arange(width) * grid // width
    # A Sobol sequence is balanced in powers of two: draw the next of them and take its beginning.
    points = Sobol(grid * grid, rng=problem.rng()).random_base2(ceil(log2(designs)))[:designs]
    kept: Bools = points < 0.5

    def masks(part: slice) -> Masks:
        return kept[part].astype(np.float32)[:, cell]

    def finish(scores: Floats) -> Ranking:
        cells = dependence(kept[: len(scores)], scores).reshape(grid, grid)
        stretched = Image.fromarray(cells.astype(np.float32)).resize((width, height), Image.Resampling.BICUBIC)
        return by_map(problem, np.asarray(stretched, dtype=np.float64))

    return (yield from in_chunks(designs, masks, finish, AN_ASK))


def dependence(kept: Bools, scores: Floats) -> Floats:
    """HSIC (d,) between each column of designs (B, d) and the scores (B,): the trace of K H L H over B.

    K is the Dirac kernel 1/2 - (x - x')^2, or 2 u u' with u = x - 1/2; L is Gaussian, as wide as the median score.
    """
    count = len(scores)
    if not count:
        return np.zeros(kept.shape[1])
    width = max(float(np.median(scores)), np.finfo(np.float64).tiny ** 0.25)  # whose square is not 0
    gram = np.exp(-((scores[:, None] - scores) ** 2) / (2 * width**2))
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    u = kept - 0.5
    return np.asarray(2 * ((centred @ u) * u).sum(axis=0) / count)
