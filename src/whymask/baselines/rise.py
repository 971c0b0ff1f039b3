"""RISE: the mean of random smooth masks, weighted by the score each leaves (Petsiuk et al., 2018)."""

import numpy as np

from whymask.arrays import Masks
from whymask.baselines.regions import baseline, by_map, pixels
from whymask.search.limits import Count, Fraction
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem

AN_ASK = 50  # masks: a thousand of them would take 200 MB


@baseline("the mean of random smooth masks, weighted by their scores", cost=lambda n, p: p["masks"], needs="pixels")
def rise(problem: Problem, *, masks: Count = 1000, grid: Count = 16, keep: Fraction = 0.5) -> Continuation:
    """Order regions by the mean of sum_i f(x m_i) m_i / (masks * keep) over each of them; one forward a mask.

    The usual code also scores every complement 1 - m_i without using it and so counts 2 * masks, and cuts the masked
    pixels off to whole numbers; here only m_i is sent, in the model's own precision.
    """
    shape = pixels(problem).shape
    rng = problem.rng()
    total = np.zeros(shape)
    for start in range(0, masks, AN_ASK):
        some = smooth_masks(min(AN_ASK, masks - start), grid, keep, (shape[0], shape[1]), rng)
        scores = yield Ask(some, SUFFICIENCY, "continue", by_map(problem, total), divisible=True)
        total += np.tensordot(scores, some[: len(scores)], axes=1)
    return by_map(problem, total / (masks * keep))


def smooth_masks(count: int, grid: int, keep: float, shape: tuple[int, int], rng: np.random.Generator) -> Masks:
    """Masks (count, H, W): random grids, interpolated to one cell more than the image and shifted by less than one."""
    cells = (rng.random((count, grid, grid)) < keep).astype(np.float32)
    sides = []
    for length in shape:
        cell = -(-length // grid)
        shifts = rng.integers(0, cell, count)
        sides.append(_interpolation((grid + 1) * cell, grid)[shifts[:, None] + np.arange(length)])
    rows, columns = sides
    return np.asarray(rows @ cells @ columns.transpose(0, 2, 1))


def _interpolation(length: int, grid: int) -> Masks:
    """(length, grid): the weights that stretch `grid` values linearly over `length` places."""
    place = np.clip((np.arange(length) + 0.5) * grid / length - 0.5, 0, grid - 1)
    return np.asarray(np.maximum(0, 1 - np.abs(place[:, None] - np.arange(grid))).astype(np.float32))
