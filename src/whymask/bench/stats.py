"""Uncertainty of means over samples: bootstrap intervals and paired tests."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats

DRAWS = 5000


def intervals(values: Floats) -> Floats:
    """Bootstrap 95% intervals (2, columns) of the means of values (samples, columns)."""
    means = _resampled(len(values)) @ (values - values.mean(axis=0)).astype(np.float32)
    bounds: Floats = values.mean(axis=0) + np.quantile(means, [0.025, 0.975], axis=0)
    return bounds


def p_values(differences: Floats) -> Floats:
    """Two-sided p (columns,) that the means of paired differences (samples, columns) are 0, by flipping their signs."""
    means = np.abs(_signs(len(differences)) @ differences.astype(np.float32))
    seen = np.abs(differences.mean(axis=0))
    p: Floats = (1 + (means >= seen * (1 - 1e-5)).sum(axis=0)) / (1 + DRAWS)
    return p


@lru_cache(maxsize=1)
def _resampled(n: int) -> NDArray[Any]:
    """(DRAWS, n) how often each sample is in each draw, over n."""
    rng = np.random.default_rng(0)
    counts = np.empty((DRAWS, n), dtype=np.float32)
    for i in range(DRAWS):
        counts[i] = np.bincount(rng.integers(0, n, n), minlength=n)
    return counts / np.float32(n)


@lru_cache(maxsize=1)
def _signs(n: int) -> NDArray[Any]:
    """(DRAWS, n) signs, over n."""
    flips = np.random.default_rng(1).integers(0, 2, (DRAWS, n), dtype=np.int8)
    return (2 * flips - 1).astype(np.float32) / np.float32(n)
