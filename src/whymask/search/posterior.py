"""Weights of regions after some sets were scored: Bayesian linear regression by regions, or by sets.

Both are the same distribution. One solves equations in as many unknowns as there are regions, the other in as many as
there are observations, so the cheaper one depends on which are more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from whymask.arrays import Bools, Floats
from whymask.search.prior import Prior
from whymask.search.threads import one_thread

CHUNK = 8  # weights drawn at once


@dataclass(frozen=True)
class Observations:
    """Values y = (x - mean) w + noise of sets x, centred within each group, that is, fill."""

    rows: Bools  # (m, n)
    row: np.typing.NDArray[np.intp]  # (p,) the set of each observation
    group: np.typing.NDArray[np.intp]  # (p,)
    share: Floats  # (p,) its weight in the mean of its group, where these sum to 1
    values: Floats  # (p,) y
    variance: Floats  # (p,) of the noise

    @cached_property
    def sets(self) -> Floats:
        """(m, n) the sets as numbers."""
        return self.rows.astype(np.float64)

    @cached_property
    def members(self) -> Floats:
        """(groups, p) which observations a group has."""
        return np.asarray(np.arange(self.group.max() + 1)[:, None] == self.group, dtype=np.float64)

    def observed(self, weights: Floats) -> Floats:
        """X w: what the observations of weights (n, ...) are, (p, ...)."""
        return self.centred((self.sets @ weights)[self.row])

    def centred(self, table: Floats) -> Floats:
        """A table (p, ...) less the means of each group."""
        means = (self.members * self.share) @ table
        return np.asarray(table - means[self.group])

    def gathered(self, table: Floats) -> Floats:
        """X^T v: a table (p, ...) of numbers by observation as one by region, (n, ...)."""
        share = self.share.reshape(-1, *[1] * (table.ndim - 1))
        parts = table - share * (self.members @ table)[self.group]
        by_set = np.zeros((len(self.rows), *table.shape[1:]))
        for group in range(len(self.members)):
            inside = self.group == group
            by_set[self.row[inside]] += parts[inside]  # a set is in a group once
        return np.asarray(self.sets.T @ by_set)


class Posterior(Protocol):
    """Normal weights (n,)."""

    mean: Floats

    def deviation(self, changes: Floats) -> Floats:
        """The standard deviation (m,) of the sums of weights that changes (n, m) make."""

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Iterator[Floats]:
        """`count` draws of the weights (n,), with `spread` times their uncertainty."""


class ByRegions:
    """The posterior by the precision matrix of the weights, (n, n)."""

    def __init__(self, prior: Prior, seen: Observations) -> None:
        sets = seen.centred(seen.sets[seen.row])
        weighted = sets / seen.variance[:, None]
        self.factor = np.linalg.cholesky(prior.precision + weighted.T @ sets)
        self.mean: Floats = cho_solve((self.factor, True), weighted.T @ seen.values)

    def deviation(self, changes: Floats) -> Floats:
        """The standard deviation (m,) of the sums of weights that changes (n, m) make."""
        spread = solve_triangular(self.factor, changes, lower=True)
        return np.asarray(np.sqrt((spread**2).sum(axis=0)))

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Iterator[Floats]:
        """`count` draws of the weights (n,), with `spread` times their uncertainty."""
        noise = rng.standard_normal((len(self.mean), count))
        with one_thread():
            changes = solve_triangular(self.factor, noise, trans=1, lower=True)
        yield from (self.mean[:, None] + spread * changes).T


class BySets:
    """The posterior by the covariance matrix of the observations, (p, p)."""

    def __init__(self, prior: Prior, seen: Observations) -> None:
        self.prior, self.seen = prior, seen
        products = prior.products(seen.rows)[np.ix_(seen.row, seen.row)]
        covariance = seen.centred(seen.centred(products).T) + np.diag(seen.variance)
        self.factor = np.linalg.cholesky(covariance)
        self.mean: Floats = self._explained(seen.values)

    def _explained(self, values: Floats) -> Floats:
        """K X^T C^-1 y: the weights (n, ...) that values (p, ...) of the observations imply."""
        return self.prior.times(self.seen.gathered(cho_solve((self.factor, True), values)))

    def deviation(self, changes: Floats) -> Floats:
        """The standard deviation (m,) of the sums of weights that changes (n, m) make."""
        expected = self.prior.times(changes)
        learned = solve_triangular(self.factor, self.seen.observed(expected), lower=True)
        return np.asarray(np.sqrt(np.maximum(0, (changes * expected).sum(axis=0) - (learned**2).sum(axis=0))))

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Iterator[Floats]:
        """`count` draws of the weights (n,), with `spread` times their uncertainty.

        By Matheron's rule: weights from the prior, corrected by what their observations imply.
        """
        own, shared = self.prior.n, self.prior.shared.shape[1]
        for start in range(0, count, CHUNK):
            noise = rng.standard_normal((own + shared + len(self.seen.row), min(CHUNK, count - start)))
            with one_thread():  # not around the yield: what happens there is not ours
                weights = np.sqrt(self.prior.own) * noise[:own] + self.prior.shared @ noise[own : own + shared]
                values = self.seen.observed(weights) + np.sqrt(self.seen.variance)[:, None] * noise[own + shared :]
                changes = weights - self._explained(values)
            yield from (self.mean[:, None] + spread * changes).T
