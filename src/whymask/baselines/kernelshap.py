"""KernelSHAP: Shapley values of the regions by weighted least squares (Lundberg and Lee, 2017)."""

from math import comb

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.baselines.regions import baseline, by_values, in_chunks
from whymask.search.limits import Several
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem, Ranking


@baseline("the Shapley value of each region", cost=lambda n, p: p["samples"])
def kernelshap(problem: Problem, *, samples: Several = 2048) -> Continuation:
    """Order regions by their Shapley values, from `samples` coalitions and the blank and the full image.

    Where all 2^n - 2 coalitions are no more than `samples` they are used and the values are exact. Else they are drawn
    with the Shapley kernel's probability, each with its complement. The values always add up to f(U) - f({}).
    """
    rows, weights = coalitions(problem.n, samples, problem.rng())
    ends = np.array([np.zeros(problem.n), np.ones(problem.n)], dtype=bool)
    blank, full = yield Ask(ends, SUFFICIENCY, "continue", by_values(problem, np.zeros(problem.n)))

    def finish(scores: Floats) -> Ranking:
        some = len(scores)
        return by_values(problem, shapley(rows[:some], weights[:some], scores - blank, full - blank))

    return (yield from in_chunks(len(rows), lambda part: rows[part], finish, 256))


def coalitions(n: int, samples: int, rng: np.random.Generator) -> tuple[Bools, Floats]:
    """Rows (B, n), none of them empty or full, and their weights (B,) in the least squares."""
    if n < 2:
        return np.zeros((0, n), dtype=bool), np.zeros(0)
    sizes = np.arange(1, n)
    if n < 64 and 2**n - 2 <= samples:
        half = rng.permutation(np.arange(1, 2 ** (n - 1)))  # shuffled, so that a budget does not favour any region
        codes = np.stack([half, 2**n - 1 - half], axis=1).ravel()  # each beside its complement
        rows = (codes[:, None] >> np.arange(n)) & 1 == 1
        kernel = [(n - 1) / (comb(n, size) * size * (n - size)) for size in sizes.tolist()]
        return rows, np.array(kernel)[rows.sum(axis=1) - 1]
    chances = 1 / (sizes * (n - sizes))
    drawn = rng.choice(sizes, size=samples // 2, p=chances / chances.sum())
    ranks = rng.random((len(drawn), n)).argsort(axis=1).argsort(axis=1)
    half = ranks < drawn[:, None]
    return np.stack([half, ~half], axis=1).reshape(-1, n), np.ones(2 * len(half))


def shapley(rows: Bools, weights: Floats, gains: Floats, total: float) -> Floats:
    """Values (n,) that add up to `total` and fit the gains (B,) of rows (B, n) best; with few rows, the most alike."""
    n = rows.shape[1]
    # What a value has beyond total / n adds up to 0, which solutions of least norm over centred rows do.
    centred = rows - rows.mean(axis=1, keepdims=True)
    root = np.sqrt(weights)
    beyond = np.linalg.lstsq(centred * root[:, None], (gains - total * rows.mean(axis=1)) * root, rcond=None)[0]
    return np.asarray(total / n + beyond)
