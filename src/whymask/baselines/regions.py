"""From what a method says of pixels or regions to an ordering of the regions."""

from collections.abc import Callable, Generator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats, Rows
from whymask.errors import WhymaskError
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Problem, Ranking
from whymask.search.stage import stage

baseline = partial(stage, "ordering", baseline=True)


def by_values(problem: Problem, values: Floats) -> Ranking:
    """Regions by falling value (n,); ties go to the lowest index."""
    order = np.argsort(-values, kind="stable").tolist()
    return Ranking(tuple(order), map=None if problem.labels is None else values[problem.labels])


def by_map(problem: Problem, importance: Floats) -> Ranking:
    """Regions by the mean of a map (H, W) over each of them."""
    labels = pixels(problem)
    if not np.isfinite(importance).all():
        raise WhymaskError("the method's map is not finite: the model's gradients overflow; try dtype='fp32'.")
    sums = np.bincount(labels.ravel(), importance.ravel(), minlength=problem.n)
    means = sums / np.bincount(labels.ravel(), minlength=problem.n)
    return Ranking(tuple(np.argsort(-means, kind="stable").tolist()), map=importance)


def pixels(problem: Problem) -> NDArray[np.int32]:
    """The label map (H, W) of a problem that is about an image."""
    if problem.labels is None:
        raise WhymaskError("this method masks pixels: it explains an image, not a set function.")
    return problem.labels


def in_chunks(
    count: int, rows: Callable[[slice], Rows], finish: Callable[[Floats], Ranking], size: int
) -> Generator[Ask, Floats, Ranking]:
    """Ask for the sufficiency of `count` images, `size` at a time, so that a budget can end it on the way.

    Args:
        count: how many images.
        rows: some of them.
        finish: the ranking from the scores of the first of them.
        size: images an ask.
    """
    scores = np.empty(0)
    for start in range(0, count, size):
        some = rows(slice(start, min(start + size, count)))
        scores = np.append(scores, (yield Ask(some, SUFFICIENCY, "continue", finish(scores), divisible=True)))
    return finish(scores)
