"""LIME: a weighted linear model of the score around the whole image (Ribeiro et al., 2016)."""

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.baselines.regions import baseline, by_values, in_chunks
from whymask.search.limits import Positive, Several, Weight
from whymask.search.protocol import Continuation, Problem, Ranking


@baseline("a linear model of the score around the image", cost=lambda n, p: p["samples"])
def lime(
    problem: Problem, *, samples: Several = 1000, kernel_width: Positive = 0.25, ridge: Weight = 1.0
) -> Continuation:
    """Order regions by their coefficients; samples keep each region with probability 1/2, the first keeps all.

    A sample z weighs exp(-d^2 / (2 width^2)), d = 1 - sqrt(|z| / n) its cosine distance from the whole image. All
    regions enter the model together: no few of them are selected first.
    """
    rows = problem.rng().random((samples, problem.n)) < 0.5
    rows[0] = True
    distance = 1 - np.sqrt(rows.mean(axis=1))
    weights = np.exp(-(distance**2) / (2 * kernel_width**2))

    def finish(scores: Floats) -> Ranking:
        return by_values(problem, coefficients(rows[: len(scores)], scores, weights[: len(scores)], ridge))

    return (yield from in_chunks(samples, lambda part: rows[part], finish, 256))


def coefficients(rows: Bools, scores: Floats, weights: Floats, ridge: float) -> Floats:
    """Weighted ridge regression (n,) of scores (B,) on rows (B, n), with a free intercept."""
    if not len(scores):
        return np.zeros(rows.shape[1])
    share = weights / weights.sum()
    x, y = rows - share @ rows, scores - share @ scores
    gram = (x.T * weights) @ x + ridge * np.eye(rows.shape[1])
    return np.asarray(np.linalg.lstsq(gram, (x.T * weights) @ y, rcond=None)[0], dtype=np.float64)
