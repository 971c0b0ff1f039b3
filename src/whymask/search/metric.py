"""How different two sets of regions are: by the area they do not share, the less the nearer the exchanged parts lie."""

from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg.lapack import dpstrf

from whymask.arrays import Bools, Floats
from whymask.search.protocol import Problem

REACH = 0.15  # of the image: regions closer than this can stand in for each other
ALIKE = 0.5  # how much of a region neighbours make up for
UNIT = 64  # parts of the image, one of which is the unit of difference
NEGLIGIBLE = 1e-4  # variance that U leaves out

_metrics: WeakKeyDictionary[Problem, "Metric"] = WeakKeyDictionary()


class Metric:
    """The squared distance (x - y)^T M (x - y) / 2 between sets, where M = own I + U U^T.

    It is 1 for an exchange of two distant regions that are each a 64th of the image or more. Finer regions count by
    their area, so a coarse set and the same set of finer regions are equally far from others. The part of M that
    regions share is a Gaussian of the distance between their centres. It is smooth, so few columns of U (n, r) are
    enough, whatever the number of regions.
    """

    def __init__(self, problem: Problem) -> None:
        self.n, self._apart = problem.n, problem.apart()
        self.finer = max(1.0, problem.n / UNIT)
        self.own = (1.0 if self._apart is None else 1 - ALIKE) / self.finer

    @classmethod
    def of(cls, problem: Problem) -> "Metric":
        """The metric of a problem, made once."""
        if problem not in _metrics:
            _metrics[problem] = cls(problem)
        return _metrics[problem]

    @cached_property
    def shared(self) -> Floats:
        """U (n, r)."""
        if self._apart is None:
            return np.empty((self.n, 0))
        factor, order, rank, _ = dpstrf(np.exp(-self._apart / (2 * REACH**2)), tol=NEGLIGIBLE, lower=1)
        columns = np.empty((self.n, rank))
        columns[order - 1] = np.tril(factor)[:, :rank]  # LAPACK counts from 1
        return np.asarray(np.sqrt(ALIKE) / self.finer * columns)

    def features(self, rows: Bools) -> Floats:
        """Sets (m, n) as points (m, n + r) whose squared distances are twice those of the metric."""
        numbers = rows.astype(np.float64)
        return np.concatenate([np.sqrt(self.own) * numbers, numbers @ self.shared], axis=1)

    def times(self, vector: Floats) -> Floats:
        """M v of a vector (n,)."""
        return np.asarray(self.own * vector + self.shared @ (self.shared.T @ vector))

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Normal numbers (count, n) with the covariance M: neighbours have like ones."""
        noise = rng.standard_normal((count, self.n + self.shared.shape[1]))
        return np.asarray(np.sqrt(self.own) * noise[:, : self.n] + noise[:, self.n :] @ self.shared.T)
