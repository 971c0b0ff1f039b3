"""What all scored sets together say about single regions: a linear model around one set, with its uncertainty."""

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from whymask.arrays import Bools, Floats
from whymask.search.measured import logarithms
from whymask.search.objective import Objective
from whymask.search.protocol import Problem

FLOOR = 1e-3  # scores below this are alike: noise of a model that sees nothing
NEAR = 3.0  # exchanges after which a set says a third as much about the regions of this one
FAR = 0.05  # what the farthest set still counts
REACH = 0.15  # of the image: regions closer than this are expected to matter alike
ALIKE = 0.9  # how much of a region's weight it shares with its neighbours
NOISE = 0.2  # variance of what no linear model explains, where the scores have variance 1
NEARBY = 0.02  # the same of sets near the one in question, which are all that is predicted


class Surrogate:
    """Bayesian linear regression of log F on the regions of a set, weighted by nearness to the set in question.

    Neighbouring regions are expected to have like weights (a Gaussian process over their centres), so few sets
    already tell something about all regions.
    """

    def __init__(self, problem: Problem, objective: Objective) -> None:
        n = problem.n
        prior = np.eye(n)
        if (apart := problem.apart()) is not None:
            prior = (1 - ALIKE) * prior + ALIKE * np.exp(-apart / (2 * REACH**2))
        # An exchange of fine regions changes less than one of the coarse regions that they lie in.
        self.near = NEAR if problem.parents is None else NEAR * n / (1 + problem.parents.max())
        self.precision = np.linalg.inv(prior + 1e-6 * np.eye(n))
        # A probability moves by factors, a mean of two of them does not.
        self.logarithmic = objective.alpha == 1

    def fit(self, rows: Bools, scores: Floats, around: Bools, answers: Floats | None = None) -> None:
        """Learn from sets (m, n) with F on each fill (fills, m), those near `around` (n,) most.

        A set counts once for every fill on which F is known, that is, not NaN. Fills differ in their level, not in the
        weights of the regions. Where F is measured by so many `answers` (fills, m), it counts by how well it is known.
        """
        found = []
        behind = np.full_like(scores, np.inf) if answers is None else answers
        for some, number in zip(scores, behind, strict=True):
            known = ~np.isnan(some)
            if known.any():
                found.append(self._centred(rows[known].astype(np.float64), some[known], around, number[known]))
        sets, values, trust, variance = (np.concatenate(parts) for parts in zip(*found, strict=True))
        share = trust / trust.sum()
        self.around, self.scale = around.astype(np.float64), max(1e-3, float(np.sqrt(share @ values**2)))
        values = values / self.scale
        weighted = sets * (trust / (NOISE + variance / self.scale**2))[:, None]
        self.factor = np.linalg.cholesky(self.precision + weighted.T @ sets)
        self.mean: Floats = cho_solve((self.factor, True), weighted.T @ values)

    def _centred(
        self, sets: Floats, scores: Floats, around: Bools, answers: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Sets and values of one fill around their means, how much each counts for `around` (n,), and its variance."""
        values, variance = self._values(scores, answers)
        exchanges = np.abs(sets - around).sum(axis=1) / 2
        trust = FAR + (1 - FAR) * np.exp(-exchanges / self.near)
        share = trust / trust.sum()
        return sets - share @ sets, values - share @ values, trust, variance

    def _values(self, scores: Floats, answers: Floats) -> tuple[Floats, Floats]:
        """What the model is linear in, and the variance with which that is known from so many answers."""
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
        spread = solve_triangular(self.factor, changes, lower=True)
        deviation = np.sqrt((spread**2).sum(axis=0) + NEARBY)
        return self.scale * (self.mean @ changes), self.scale * deviation

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Floats:
        """Weights (count, n) the regions may have, `spread` times as uncertain as they are (Thompson sampling)."""
        noise = rng.standard_normal((len(self.mean), count))
        return np.asarray((self.mean[:, None] + spread * solve_triangular(self.factor, noise, trans=1, lower=True)).T)
