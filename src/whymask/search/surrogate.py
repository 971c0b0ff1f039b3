"""What all scored sets say about others: a Gaussian process over sets, with its uncertainty."""

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri
from scipy.special import ndtr

from whymask.arrays import Bools, Floats
from whymask.search.archive import Archive
from whymask.search.measured import logarithms
from whymask.search.metric import Metric
from whymask.search.objective import Objective
from whymask.search.protocol import Problem
from whymask.search.threads import one_thread

FLOOR = 1e-3  # scores below this are alike: noise of a model that sees nothing
REACH = 4.0  # distance between sets at which the correlation of their log F has fallen to 1 / e
VARIANCE = 2.0  # of log F, if that of the scored sets is 1
LINEAR = 0.1  # variance of what a region adds to log F in every set
LEVEL = 2.0  # variance of the level of log F on each fill
FILLS = 0.9  # correlation of log F on two fills
NOISE = 0.03  # variance of what does not follow from nearby sets
ROOM = 256  # by how many rows the memory of a matrix grows
MOST = 1024  # observations to learn from; if there are more, the nearest half as many


_surrogates: WeakKeyDictionary[Problem, dict[Objective, "Surrogate"]] = WeakKeyDictionary()


class Observations:
    """Scored sets and the covariance K of log F on them, by the inverse R of its lower triangular root: R K R^T = I.

    R grows by a row for each set that is added.
    """

    def __init__(self, metric: Metric, fills: int) -> None:
        self.metric, self.fills = metric, fills
        self.rows: Bools = np.zeros((0, metric.n), dtype=bool)  # (m, n)
        self.row: NDArray[np.intp] = np.zeros(0, dtype=np.intp)  # (p,) the set of each observation
        self.fill: NDArray[np.intp] = np.zeros(0, dtype=np.intp)  # (p,)
        self._features: Floats = metric.features(self.rows)  # (p, .)
        self._squares: Floats = np.zeros(0)
        self._root: Floats = np.zeros((0, 0))  # with room for more rows and columns

    @property
    def root(self) -> Floats:
        """R (p, p)."""
        return self._root[: len(self.row), : len(self.row)]

    def part_of(self, rows: Bools, known: Bools) -> bool:
        """Whether all of them are among some others: sets (m, n) and the fills on which they are known, (fills, m)."""
        same = len(self.rows) <= len(rows) and np.array_equal(self.rows, rows[: len(self.rows)])
        return same and len(known) == self.fills and bool(known[self.fill, self.row].all())

    def add(self, rows: Bools, known: Bools, variance: Floats) -> None:
        """Add what is known of sets (m, n) on each fill, (fills, m), with the variance of its measurement.

        The sets begin with those that are here already.
        """
        fresh = known.copy()
        fresh[self.fill, self.row] = False
        fill, row = np.nonzero(fresh)
        old, new = len(self.row), len(row)
        if not new:
            return
        features = self.metric.features(rows[row])
        before, self.rows = self.root, rows
        self.row, self.fill = np.concatenate([self.row, row]), np.concatenate([self.fill, fill])
        self._features = np.concatenate([self._features, features])
        self._squares = np.concatenate([self._squares, (features**2).sum(axis=1)])
        same = fill[:, None] == self.fill  # (new, p)
        covariance = np.add(*self.covariance(features)) * (FILLS + (1 - FILLS) * same) + LEVEL * same
        covariance[np.arange(new), old + np.arange(new)] += NOISE + variance[fill, row]
        if len(self._root) < old + new:
            room = -(-(old + new) // ROOM) * ROOM
            self._root = np.zeros((room, room))
            self._root[:old, :old] = before
        across = before @ covariance[:, :old].T  # (old, new)
        own, _ = dtrtri(np.linalg.cholesky(covariance[:, old:] - across.T @ across), lower=1)
        self._root[old : old + new, :old] = -own @ (across.T @ before)
        self._root[old : old + new, old : old + new] = own

    def covariance(self, features: Floats) -> tuple[Floats, Floats]:
        """The covariance of log F of sets, by their features (m, .), with all observations: the parts (m, p) of it.

        One falls with the distance, the other is linear in the regions.
        """
        products = features @ self._features.T
        distance = ((features**2).sum(axis=1)[:, None] + self._squares) / 2 - products
        return VARIANCE * np.exp(-distance.clip(0) / REACH), LINEAR * products


class Surrogate:
    """A Gaussian process of log F over sets.

    Most of its covariance falls with the distance of two sets (`Metric`), so it can learn that regions count only
    together, or that one makes up for another. A small part is linear in the regions, and is what is known of sets far
    from all scored ones. Fills differ in their level and a little in the rest; what is predicted is the mean over them.
    """

    def __init__(self, problem: Problem, objective: Objective) -> None:
        self.metric, self.objective = Metric.of(problem), objective
        # A probability moves by factors, a mean of two of them does not.
        self.logarithmic = objective.alpha == 1
        self.observations = Observations(self.metric, 1)

    @classmethod
    def of(cls, problem: Problem, objective: Objective) -> "Surrogate":
        """The surrogate of a problem for an objective, made once: what one stage has observed, the next one knows."""
        some = _surrogates.setdefault(problem, {})
        if objective not in some:
            some[objective] = cls(problem, objective)
        return some[objective]

    def fit(self, archive: Archive, around: Bools) -> None:
        """Learn from everything in the archive that is not known yet; predictions are relative to a set (n,)."""
        self.learn(*archive.observed(self.objective), around, archive.answers)

    def learn(self, rows: Bools, scores: Floats, around: Bools, answers: Floats | None = None) -> None:
        """Learn from sets (m, n) with F on each fill (fills, m), NaN where it is not known.

        If F is measured from `answers` (fills, m), it counts by how well it is known.
        """
        self.around = around
        known = ~np.isnan(scores)
        if known.sum() > MOST:
            known &= self._nearest(rows, known, MOST // 2)
        values, variance = self._values(scores, np.full(scores.shape, np.inf) if answers is None else answers)
        means = np.array([some[fill].mean() if fill.any() else 0.0 for some, fill in zip(values, known, strict=True)])
        values = values - means[:, None]
        self.scale = max(1e-3, float(np.sqrt((values[known] ** 2).mean())))
        # Measurements get better, and their variance depends on the scale.
        if variance.any() or not self.observations.part_of(rows, known):
            self.observations = Observations(self.metric, len(scores))
        seen = self.observations
        with one_thread():
            seen.add(rows, known, variance / self.scale**2)
            self._weights = seen.root.T @ (seen.root @ (values[seen.fill, seen.row] / self.scale))  # (p,) K^-1 y

    def _nearest(self, rows: Bools, known: Bools, count: int) -> Bools:
        """Which sets (m,) are nearest to `around`, for at most so many observations."""
        apart = ((self.metric.features(rows) - self.metric.features(self.around[None])) ** 2).sum(axis=1)
        nearest = np.argsort(apart, kind="stable")
        near = np.zeros(len(rows), dtype=bool)
        near[nearest[np.cumsum(known.sum(axis=0)[nearest]) <= count]] = True
        return near

    def _values(self, scores: Floats, answers: Floats) -> tuple[Floats, Floats]:
        """The quantity that is modelled, and its variance, given the number of answers."""
        exact = np.isinf(answers)
        if exact.all():
            return np.log(scores + FLOOR) if self.logarithmic else scores, np.zeros_like(scores)
        finite = np.where(exact, 1.0, answers)
        if self.logarithmic:
            means, variances = logarithms(scores, finite)
            return np.where(exact, np.log(scores + FLOOR), means), np.where(exact, 0.0, variances)
        return scores, np.where(exact, 0.0, (scores * (1 - scores) + 1 / finite) / finite)

    @property
    def _averaged(self) -> float:
        """The covariance of log F on one fill with its mean over all of them, in units of its variance."""
        return FILLS + (1 - FILLS) / self.observations.fills

    @property
    def slope(self) -> Floats:
        """By how much log F is expected to rise with each region (n,), for small changes of `around`."""
        seen, features = self.observations, self.metric.features(self.around[None])
        weights = self._averaged * self._weights
        near = weights * seen.covariance(features)[0][0] / REACH
        by_set = np.bincount(seen.row, near + LINEAR * weights, minlength=len(seen.rows))
        return self.scale * self.metric.times(by_set @ seen.rows - near.sum() * self.around)

    def draw(self, count: int, spread: float, rng: np.random.Generator) -> Floats:
        """The slope with noise, (count, n): `spread` times what slopes are expected to be before any set is scored."""
        deviation = self.scale * np.sqrt(VARIANCE / REACH)
        return np.asarray(self.slope + spread * deviation * self.metric.draw(count, rng))

    def expected(self, rows: Bools) -> Floats:
        """How much log F of sets (m, n) is expected to differ from that of `around`, (m,)."""
        with one_thread():
            difference = self._difference(self.metric.features(np.concatenate([rows, self.around[None]])))
            return np.asarray(self.scale * (difference @ self._weights))

    def predict(self, rows: Bools) -> tuple[Floats, Floats]:
        """The same, and the standard deviation, which takes far longer to compute."""
        features = self.metric.features(np.concatenate([rows, self.around[None]]))
        apart = ((features[:-1] - features[-1]) ** 2).sum(axis=1) / 2
        prior = self._averaged * 2 * (VARIANCE * (1 - np.exp(-apart / REACH)) + LINEAR * apart)
        with one_thread():
            difference = self._difference(features)
            learned = self.observations.root @ difference.T
            change = self.scale * (difference @ self._weights)
        return change, self.scale * np.sqrt((prior - (learned**2).sum(axis=0)).clip(0) + NOISE)

    def _difference(self, features: Floats) -> Floats:
        """By how much the covariance with the observations differs from that of the last set, (m - 1, p)."""
        covariance = np.add(*self.observations.covariance(features))
        return np.asarray(self._averaged * (covariance[:-1] - covariance[-1]))

    def expected_gain(self, rows: Bools) -> Floats:
        """By how much log F of each set (m, n) is expected to exceed that of `around`, where falling short counts 0."""
        change, deviation = self.predict(rows)
        normal = np.exp(-((change / deviation) ** 2) / 2) / np.sqrt(2 * np.pi)
        return np.asarray(deviation * normal + change * ndtr(change / deviation))
