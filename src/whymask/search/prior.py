"""What is expected of the weights of regions before any set is scored: neighbours matter alike."""

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg.lapack import dpstrf

from whymask.arrays import Bools, Floats
from whymask.search.protocol import Problem

REACH = 0.15  # of the image: regions closer than this are expected to matter alike
ALIKE = 0.9  # how much of a region's weight it shares with its neighbours
JITTER = 1e-6  # makes the covariance invertible where centres coincide
NEGLIGIBLE = 1e-8  # variance that U leaves out: a hundredth of JITTER

_priors: WeakKeyDictionary[Problem, "Prior"] = WeakKeyDictionary()


class Prior:
    """Normal weights with the covariance K = own I + U U^T: what is a region's own, and what it shares.

    The shared part is a Gaussian process over the centres of the regions. It is smooth, so few columns of U (n, r) are
    enough, whatever the number of regions. Surrogates of one problem share a prior, and with it all that depends on
    the regions alone.
    """

    def __init__(self, problem: Problem) -> None:
        self.n, self._apart = problem.n, problem.apart()
        self.own = (1.0 if self._apart is None else 1 - ALIKE) + JITTER
        self._rows: Floats = np.empty((0, self.n))  # every set that was compared with others
        self._places: dict[bytes, int] = {}
        self._products: Floats = np.empty((0, 0))

    @classmethod
    def of(cls, problem: Problem) -> "Prior":
        """The prior of a problem, made once."""
        if problem not in _priors:
            _priors[problem] = cls(problem)
        return _priors[problem]

    @property
    def _alike(self) -> Floats | None:
        return None if self._apart is None else ALIKE * np.exp(-self._apart / (2 * REACH**2))

    @cached_property
    def precision(self) -> Floats:
        """The inverse of K, (n, n)."""
        covariance = np.eye(self.n)
        if (alike := self._alike) is not None:
            covariance = (1 - ALIKE) * covariance + alike
        return np.asarray(np.linalg.inv(covariance + JITTER * np.eye(self.n)), dtype=np.float64)

    @cached_property
    def shared(self) -> Floats:
        """U (n, r)."""
        if (alike := self._alike) is None:
            return np.empty((self.n, 0))
        factor, order, rank, _ = dpstrf(alike, tol=NEGLIGIBLE, lower=1)
        columns = np.empty((self.n, rank))
        columns[order - 1] = np.tril(factor)[:, :rank]  # LAPACK counts from 1
        return columns

    def times(self, vectors: Floats) -> Floats:
        """K v of vectors (n, ...)."""
        return np.asarray(self.own * vectors + self.shared @ (self.shared.T @ vectors))

    def products(self, rows: Bools) -> Floats:
        """x^T K y of all pairs of sets (m, n), as (m, m). Those of sets that were here before are known."""
        keys = [row.tobytes() for row in rows]
        fresh = [place for place, key in enumerate(keys) if key not in self._places]
        if fresh:
            self._places |= {keys[place]: len(self._places) + number for number, place in enumerate(fresh)}
            new = rows[fresh].astype(np.float64)
            self._rows = np.concatenate([self._rows, new])
            columns = self._rows @ self.times(new.T)
            before = len(self._rows) - len(new)
            self._products = np.block([[self._products, columns[:before]], [columns.T]])
        places = [self._places[key] for key in keys]
        return np.asarray(self._products[np.ix_(places, places)])
