"""What all scored sets together say about single regions: a linear model around one set, with its uncertainty."""

from collections.abc import Iterator

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.measured import logarithms
from whymask.search.objective import Objective
from whymask.search.posterior import ByRegions, BySets, Observations, Posterior
from whymask.search.prior import Prior
from whymask.search.protocol import Problem
from whymask.search.threads import one_thread

FLOOR = 1e-3  # scores below this are alike: noise of a model that sees nothing
NEAR = 3.0  # exchanges after which a set says a third as much about the regions of this one
FAR = 0.05  # what the farthest set still counts
NOISE = 0.2  # variance of what no linear model explains, where the scores have variance 1
NEARBY = 0.02  # the same of sets near the one in question, which are all that is predicted
SMALL = 512  # up to this many regions, equations in the weights of regions are cheap


class Surrogate:
    """Bayesian linear regression of log F on the regions of a set, weighted by nearness to the set in question.

    Neighbouring regions are expected to have like weights (a Gaussian process over their centres), so few sets
    already tell something about all regions.
    """

    def __init__(self, problem: Problem, objective: Objective) -> None:
        self.prior = Prior.of(problem)
        # An exchange of fine regions changes less than one of the coarse regions that they lie in.
        self.near = NEAR if problem.parents is None else NEAR * problem.n / (1 + problem.parents.max())
        # A probability moves by factors, a mean of two of them does not.
        self.logarithmic = objective.alpha == 1

    def fit(self, rows: Bools, scores: Floats, around: Bools, answers: Floats | None = None) -> None:
        """Learn from sets (m, n) with F on each fill (fills, m), those near `around` (n,) most.

        A set counts once for every fill on which F is known, that is, not NaN. Fills differ in their level, not in the
        weights of the regions. If F is measured from `answers` (fills, m), it counts by how well it is known.
        """
        exchanges = np.abs(rows.astype(np.float64) - around).sum(axis=1) / 2
        trust = FAR + (1 - FAR) * np.exp(-exchanges / self.near)
        fills, row = np.nonzero(~np.isnan(scores))
        group = np.unique(fills, return_inverse=True)[1]
        values, variance = self._values(
            scores[fills, row], np.full(len(row), np.inf) if answers is None else answers[fills, row]
        )
        trusts = trust[row]
        share = trusts / np.bincount(group, trusts)[group]
        values = values - np.bincount(group, share * values)[group]
        self.around = around.astype(np.float64)
        self.scale = max(1e-3, float(np.sqrt(trusts @ values**2 / trusts.sum())))
        noise = (NOISE + variance / self.scale**2) / trusts
        seen = Observations(rows, row, group, share, values / self.scale, noise)
        few = self.prior.n > SMALL and len(row) < self.prior.n
        with one_thread():
            self.posterior: Posterior = BySets(self.prior, seen) if few else ByRegions(self.prior, seen)

    @property
    def mean(self) -> Floats:
        """The expected weights (n,)."""
        return self.posterior.mean

    def _values(self, scores: Floats, answers: Floats) -> tuple[Floats, Floats]:
        """The quantity that the model is linear in, and its variance, given the number of answers."""
        exact = np.isinf(answers)
        if exact.all():
            return np.log(scores + FLOOR) if self.logarithmic else scores, np.zeros_like(scores)
        finite = np.where(exact, 1.0, answers)
        if self.logarithmic:
            means, variances = logarithms(scores, finite)
            return np.where(exact, np.log(scores + FLOOR), means), np.where(exact, 0.0, variances)
        return scores, np.where(exact, 0.0, (scores * (1 - scores) + 1 / finite) / finite)

    def predict(self, rows: Bools) -> tuple[Floats, Floats]:
        """How much log F of sets (m, n) is expected to differ from that of `around`, and the standard deviation."""
        changes = (rows - self.around).T
        with one_thread():
            deviation = np.sqrt(self.posterior.deviation(changes) ** 2 + NEARBY)
            return self.scale * (self.mean @ changes), self.scale * deviation

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Iterator[Floats]:
        """`count` draws of the regions' weights (n,), with `spread` times their uncertainty (Thompson sampling)."""
        return self.posterior.draw(count, spread, rng)
