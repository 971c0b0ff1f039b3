"""The Gaussian process behind swap, smallest, others and joint: its posterior written out, and what it is good for."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from threadpoolctl import threadpool_info, threadpool_limits

import whymask.search.surrogate as surrogate_module
from whymask.search import Problem
from whymask.search.metric import Metric
from whymask.search.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.surrogate import Surrogate

from search.functions import grid_centroids

N = 16
GRID = grid_centroids(4, 4)
EPS = np.finfo(np.float64).eps


def products(first, second, centroids=None):
    """x^T M y of sets (m, n) and (p, n), or of points between sets, as (m, p)."""
    alike = np.eye(first.shape[1])
    if centroids is not None:
        gaps = np.linalg.norm(centroids[:, None] - centroids[None], axis=2)
        alike = 0.5 * alike + 0.5 * np.exp(-0.5 * (gaps / 0.15) ** 2)
    return first.astype(float) @ alike @ second.T.astype(float)


def distances(first, second, centroids=None):
    """Of sets (m, n) and (p, n), as (m, p): one for an exchange, less where neighbours are exchanged."""
    changes = first[:, None].astype(float) - second
    flat = changes.reshape(-1, first.shape[1])
    squares = np.array([products(change[None], change[None], centroids)[0, 0] for change in flat])
    return squares.reshape(changes.shape[:2]) / 2


def posterior(rows, values, around, others, centroids=None, noise=0.03):
    """Mean and covariance of the change from `around` to others: sets on one fill, by the textbook's equations.

    The variance is twice that of the values and the correlation exp(-distance / 4), and a tenth of the variance for
    each region is linear; the level is unknown.
    """

    def kernel(first, second):
        return 2 * np.exp(-distances(first, second, centroids) / 4) + 0.1 * products(first, second, centroids)

    scale = max(1e-3, values.std())
    known = kernel(rows, rows) + 2 + noise * np.eye(len(rows))
    ends = np.array([*others, around])
    # The level adds the same to `around` and to others, so it drops out of their difference.
    difference = np.hstack([np.eye(len(others)), -np.ones((len(others), 1))])
    gain = difference @ kernel(ends, rows) @ np.linalg.inv(known)
    left = difference @ kernel(ends, ends) @ difference.T - gain @ kernel(rows, ends) @ difference.T
    return gain @ (values - values.mean()), scale**2 * left, scale


def some_sets(count=40, k=5, seed=0, n=N):
    """Different sets of k to 2k regions."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(k, 2 * k + 1, count)
    return np.unique(np.argsort(np.argsort(rng.random((count, n)), axis=1), axis=1) < sizes[:, None], axis=0)


def fitted(rows, scores, around, objective=SUFFICIENCY, centroids=None):
    surrogate = Surrogate(Problem(rows.shape[1], centroids=centroids), objective)
    surrogate.learn(rows, np.atleast_2d(scores), around)
    return surrogate


@pytest.mark.parametrize("scale", [1.0, 1e-2])
@pytest.mark.parametrize("centroids", [None, GRID], ids=["anywhere", "grid"])
@pytest.mark.parametrize("objective", [SUFFICIENCY, SUFF_NECC])
def test_the_posterior_in_closed_form(objective, centroids, scale):
    rows, others = some_sets(), some_sets(7, seed=9)
    scores = scale * np.random.default_rng(1).random(len(rows)) ** 3
    values = np.log(scores + 0.001) if objective == SUFFICIENCY else scores
    surrogate = fitted(rows, scores, rows[0], objective, centroids)
    change, deviation = surrogate.predict(others)
    mean, covariance, unit = posterior(rows, values, rows[0], others, centroids)
    # Errors grow with the condition of the covariance, (2 p + 2 p) / 0.03 at most, and with the tolerance of the factor
    # of M, a millionth of a variance.
    bound = 1e-6 * 2 * len(rows) / 0.03 if centroids is not None else 1e3 * EPS * 4 * len(rows) / 0.03
    np.testing.assert_allclose(change, mean, rtol=0, atol=bound * unit)
    np.testing.assert_allclose(surrogate.expected(others), change, rtol=0, atol=1e3 * EPS * unit)
    np.testing.assert_allclose(deviation**2, np.diag(covariance) + 0.03 * unit**2, rtol=0, atol=bound * unit**2)


def test_the_slope_is_the_gradient_of_the_expected_change():
    rows = some_sets()
    values = np.log(np.random.default_rng(1).random(len(rows)) + 0.001)
    around = rows[3]
    slope = fitted(rows, np.exp(values) - 0.001, around, centroids=GRID).slope

    def expected(point):
        (change,), _, _ = posterior(rows, values, around, point[None], GRID)
        return change

    numeric = approx_fprime(around.astype(float), expected, 1e-5)
    np.testing.assert_allclose(slope, numeric, atol=1e-3 * np.abs(numeric).max())


def test_what_is_added_later_counts_as_if_it_had_been_there():
    """One set after the other, some on a second fill only later, gives what all at once give."""
    rows, rng = some_sets(), np.random.default_rng(5)
    scores = rng.random((2, len(rows)))
    problem, others = Problem(N, centroids=GRID), some_sets(7, seed=9)
    step, once = Surrogate(problem, SUFFICIENCY), Surrogate(problem, SUFFICIENCY)
    for count in (3, 4, 11, 30, len(rows)):
        known = scores[:, :count].copy()
        known[1, count // 2 :] = np.nan
        step.learn(rows[:count], known, rows[count % 3])
    kept = step.observations
    step.learn(rows, known, rows[1])
    assert step.observations is kept  # nothing was computed again
    once.learn(rows, known, rows[1])
    for one, other in zip(step.predict(others), once.predict(others), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e4 * EPS * 4 * 2 * len(rows) / 0.03)
    np.testing.assert_allclose(step.slope, once.slope, rtol=0, atol=1e4 * EPS * 4 * 2 * len(rows) / 0.03)


def test_other_sets_are_learned_anew():
    """A smaller mask looks at smaller sets, which need not be those known so far."""
    rows = some_sets()
    scores = np.random.default_rng(5).random(len(rows))
    surrogate = fitted(rows, scores, rows[0], centroids=GRID)
    surrogate.learn(rows[::2], scores[None, ::2], rows[0])
    np.testing.assert_array_equal(surrogate.slope, fitted(rows[::2], scores[::2], rows[0], centroids=GRID).slope)


def test_of_too_many_sets_the_nearest_count(monkeypatch):
    monkeypatch.setattr(surrogate_module, "MOST", 20)
    rows = some_sets()
    scores = np.random.default_rng(5).random(len(rows))
    (apart,) = distances(rows[:1], rows, GRID)
    nearest = np.sort(np.argsort(apart, kind="stable")[:10])
    assert np.ptp(np.sort(apart)[[9, 10]]) > 1e-3  # no tie
    found = fitted(rows, scores, rows[0], centroids=GRID)
    only = fitted(rows[nearest], scores[nearest], rows[0], centroids=GRID)
    np.testing.assert_allclose(found.slope, only.slope, rtol=1e-9)


def test_draws_are_slopes_with_noise_that_neighbours_share():
    rows = some_sets()
    surrogate = fitted(rows, np.random.default_rng(1).random(len(rows)), rows[0], centroids=GRID)
    draws = surrogate.draw(20_000, 0.5, np.random.default_rng(2))
    noise = (draws - surrogate.slope) / (0.5 * surrogate.scale * np.sqrt(2 / 4))
    gaps = np.linalg.norm(GRID[:, None] - GRID[None], axis=2)
    expected = 0.5 * np.eye(N) + 0.5 * np.exp(-0.5 * (gaps / 0.15) ** 2)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=5 / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(noise.T), expected, atol=5 * np.sqrt(2 / 20_000))


def test_a_metric_does_not_depend_on_how_finely_regions_are_cut():
    """Each of 64 regions cut into four, side by side: sets of whole regions are as far from each other as before."""
    coarse = Metric(Problem(64, centroids=grid_centroids(8, 8)))
    centres = np.repeat(grid_centroids(8, 8), 4, axis=0)  # where regions are small, their parts lie at their centre
    fine = Metric(Problem(256, centroids=centres))
    rows = some_sets(12, n=64)

    def of(metric, sets):
        points = metric.features(sets)
        return ((points[:, None] - points[None]) ** 2).sum(axis=2) / 2

    # U leaves out a millionth of a variance; a set has up to 10 regions.
    bound = 4e-6 * 20**2
    np.testing.assert_allclose(of(fine, np.repeat(rows, 4, axis=1)), of(coarse, rows), atol=bound)
    corners = np.zeros((2, 64), dtype=bool)
    corners[0, 0] = corners[1, 63] = True
    assert of(coarse, corners)[0, 1] == pytest.approx(1, abs=1e-5)
    beside = np.zeros((2, 64), dtype=bool)
    beside[0, 0] = beside[1, 1] = True
    assert 0.5 < of(coarse, beside)[0, 1] < 0.8


def test_gains_are_those_of_normal_numbers():
    rows, others = some_sets(), some_sets(9, seed=4)
    surrogate = fitted(rows, np.random.default_rng(1).random(len(rows)), rows[0], centroids=GRID)
    change, deviation = surrogate.predict(others)
    draws = np.random.default_rng(0).standard_normal((200_000, 1))
    gains = (change + deviation * draws).clip(0)
    error = 5 * gains.std(axis=0) / np.sqrt(len(gains))
    assert (np.abs(surrogate.expected_gain(others) - gains.mean(axis=0)) <= error).all()


def test_pairs_that_count_only_together_are_learned():
    """What no sum of regions explains: two regions together, or neither."""
    rows = some_sets(300, k=4)
    score = lambda sets: np.where(sets[:, 2] == sets[:, 9], 0.8, 0.1)  # noqa: E731
    around = rows[0]
    others = some_sets(100, k=4, seed=8)
    change, _ = fitted(rows, score(rows), around).predict(others)
    truth = np.log(score(others)) - np.log(score(around[None]))
    assert np.corrcoef(change, truth)[0, 1] > 0.9


def test_only_differences_of_scores_matter():
    rows, others = some_sets(), some_sets(9, seed=4)
    scores = np.random.default_rng(4).random(len(rows)) / 4

    def change(scores, objective):
        return fitted(rows, scores, rows[0], objective).predict(others)[0]

    expected = change(scores, SUFF_NECC)
    np.testing.assert_allclose(change(scores + 0.5, SUFF_NECC), expected, atol=1e-9)
    np.testing.assert_allclose(change(3 * scores, SUFF_NECC), 3 * expected, atol=1e-9)
    # A factor of all scores is a difference of their logarithms, far above the floor.
    high = scores + 0.25
    np.testing.assert_allclose(change(2 * high, SUFFICIENCY), change(high, SUFFICIENCY), atol=0.02)


def test_neighbours_are_expected_to_matter_alike():
    """Only region 5 was ever exchanged, and it helps: so will its neighbours, more than regions far from it."""
    around = np.isin(np.arange(N), [5, 15])
    rows = np.stack([around, np.isin(np.arange(N), [12, 15])])
    slope = fitted(rows, np.array([0.8, 0.1]), around, centroids=GRID).slope
    assert slope[5] > slope[6] > slope[3] + 1e-3
    assert abs(fitted(rows, np.array([0.8, 0.1]), around).slope[6]) < 1e-9


def test_fills_have_their_own_level():
    """Of two fills one scores everything lower: that says nothing about sets."""
    rows, others = some_sets(), some_sets(9, seed=4)
    scores = np.random.default_rng(4).random(len(rows)) + 0.2
    both = np.stack([scores, scores / 4])
    both[1, ::3] = np.nan
    surrogate = Surrogate(Problem(N, centroids=GRID), SUFFICIENCY)
    surrogate.learn(rows, both, rows[0])
    before = surrogate.predict(others)[0]
    surrogate.learn(rows, both * [[1.0], [0.5]], rows[0])  # a level, of scores far above the floor
    np.testing.assert_allclose(surrogate.predict(others)[0], before, atol=0.02)


def test_surrogates_of_a_problem_share_their_metric():
    problem = Problem(N, centroids=GRID)
    assert Surrogate(problem, SUFFICIENCY).metric is Surrogate(problem, SUFF_NECC).metric
    assert Surrogate(Problem(N, centroids=GRID), SUFFICIENCY).metric is not Surrogate(problem, SUFFICIENCY).metric


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_computes(monkeypatch):
    """A team of threads takes longer to meet than these small matrices to compute; the caller's number is restored."""
    seen = []
    original = surrogate_module.Observations.covariance
    monkeypatch.setattr(
        surrogate_module.Observations,
        "covariance",
        lambda *args: seen.append(threads()) or original(*args),
    )
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        surrogate = fitted(some_sets(), np.random.default_rng(1).random(len(some_sets())), some_sets()[0])
        surrogate.predict(some_sets())
        assert threads() == before
    assert len(seen) >= 2
    assert all(number == {1} for number in seen)
