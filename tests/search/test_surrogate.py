"""The linear model behind swap, smallest and others: its posterior written out, and what it is good for."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import whymask.search.posterior as posterior_module
from whymask.search import Problem
from whymask.search.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.posterior import ByRegions, BySets
from whymask.search.prior import Prior
from whymask.search.surrogate import Surrogate

from search.functions import grid_centroids

N = 16
GRID = grid_centroids(4, 4)


class Unit:
    """A generator whose normal numbers are the unit vectors: draws are then a root of the covariance."""

    def __init__(self):
        self.drawn = 0

    def standard_normal(self, shape):
        """The next so many of them."""
        start, self.drawn = self.drawn, self.drawn + shape[1]
        return np.eye(shape[0])[:, start : self.drawn]


@pytest.fixture(params=[ByRegions, BySets], autouse=True)
def _form(request, monkeypatch):
    """Both ways to the same posterior."""
    for name in ("ByRegions", "BySets"):
        monkeypatch.setattr(f"whymask.search.surrogate.{name}", request.param)


def numbers_of_a_draw(surrogate):
    """How many normal numbers make one draw."""
    if isinstance(surrogate.posterior, ByRegions):
        return N
    return N + surrogate.prior.shared.shape[1] + len(surrogate.posterior.seen.row)


def posterior(rows, scores, around, centroids=None, logarithmic=True):
    """Mean (n,) and covariance (n, n) of the weights, by the kernel form of Bayesian linear regression.

    The weights have variance 1; of each, nine tenths are shared with the neighbours within about 0.15 of the image. A
    set that is e exchanges away counts 0.05 + 0.95 exp(-e / 3) times. Scores are scaled to a variance of 1; the noise
    has 0.2. (A millionth is added to the prior so that it can be inverted.)
    """
    n = rows.shape[1]
    prior = np.eye(n)
    if centroids is not None:
        gap = np.linalg.norm(centroids[:, None] - centroids[None], axis=2)
        prior = 0.1 * np.eye(n) + 0.9 * np.exp(-0.5 * (gap / 0.15) ** 2)
    prior = prior + 1e-6 * np.eye(n)
    counts = 0.05 + 0.95 * np.exp(-(rows != around).sum(axis=1) / 2 / 3)
    values = np.log(scores + 0.001) if logarithmic else scores
    x = rows - np.average(rows, axis=0, weights=counts)
    y = values - np.average(values, weights=counts)
    y = y / max(0.001, np.sqrt(np.average(y**2, weights=counts)))
    gain = prior @ x.T @ np.linalg.inv(x @ prior @ x.T + np.diag(0.2 / counts))
    return gain @ y, prior - gain @ x @ prior


def some_sets(count=40, k=5, seed=0):
    """Sets of k to 2k regions at all distances from the first."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(k, 2 * k + 1, count)
    return np.argsort(np.argsort(rng.random((count, N)), axis=1), axis=1) < sizes[:, None]


def fitted(rows, scores, around, objective=SUFFICIENCY, centroids=None):
    surrogate = Surrogate(Problem(N, centroids=centroids), objective)
    surrogate.fit(rows, np.atleast_2d(scores), around)
    return surrogate


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-6])  # the last has scores that no model tells apart
@pytest.mark.parametrize("centroids", [None, GRID], ids=["anywhere", "grid"])
@pytest.mark.parametrize("objective", [SUFFICIENCY, SUFF_NECC])
def test_the_posterior_in_closed_form(objective, centroids, scale):
    rows = some_sets()
    scores = scale * np.random.default_rng(1).random(len(rows)) ** 3
    surrogate = fitted(rows, scores, rows[0], objective, centroids)
    mean, covariance = posterior(rows, scores, rows[0], centroids, logarithmic=objective == SUFFICIENCY)
    np.testing.assert_allclose(surrogate.mean, mean, rtol=1e-8, atol=1e-10)
    for spread in (1.0, 0.5):
        root = np.array([*surrogate.draw(numbers_of_a_draw(surrogate), spread, Unit())]) - surrogate.mean
        np.testing.assert_allclose(root.T @ root, spread**2 * covariance, rtol=1e-8, atol=1e-10)


def test_draws_are_normal_around_the_mean():
    rows = some_sets()
    scores = np.random.default_rng(1).random(len(rows))
    surrogate = fitted(rows, scores, rows[0], centroids=GRID)
    mean, covariance = posterior(rows, scores, rows[0], GRID)
    draws = np.array([*surrogate.draw(20_000, 1.0, np.random.default_rng(2))])
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.05)


def test_factors_of_the_score_are_recovered():
    """A probability moves by factors: log F is linear in the regions, F is not."""
    weights = np.random.default_rng(3).normal(0, 1, N)
    rows = some_sets(400)
    scores = np.exp(rows @ weights - np.sort(weights)[-10:].sum())
    bright = scores > 0.02  # where the floor does not matter
    surrogate = fitted(rows[bright], scores[bright], rows[bright][0])
    assert np.corrcoef(surrogate.mean, weights)[0, 1] > 0.99
    plain = fitted(rows[bright], scores[bright], rows[bright][0], SUFF_NECC)
    assert np.corrcoef(plain.mean, weights)[0, 1] < np.corrcoef(surrogate.mean, weights)[0, 1]


def test_near_sets_count_more_than_far_ones():
    """Around the mask region 0 helps; in as many sets far from it, it does harm."""
    around = np.arange(N) < 5
    near, far = np.repeat(around[None], 8, axis=0), np.repeat((np.arange(N) >= 11)[None], 8, axis=0)
    near[:4, 0], near[:4, 7] = False, True  # one exchange
    far[:4, 0], far[:4, 11] = True, False
    rows = np.concatenate([near, far])
    scores = np.where(rows[:, 0], np.repeat([0.6, 0.2], 8), np.repeat([0.2, 0.6], 8))
    assert fitted(rows, scores, around).mean[0] > 0 > fitted(rows, scores, far[4]).mean[0]
    assert fitted(near, scores[:8], around).mean[0] > fitted(rows, scores, around).mean[0]  # far ones still count


def test_only_differences_of_scores_matter():
    rows = some_sets()
    scores = np.random.default_rng(4).random(len(rows)) / 4
    mean = fitted(rows, scores, rows[0], SUFF_NECC).mean
    np.testing.assert_allclose(fitted(rows, scores + 0.5, rows[0], SUFF_NECC).mean, mean, rtol=1e-9)
    np.testing.assert_allclose(fitted(rows, 3 * scores, rows[0], SUFF_NECC).mean, mean, rtol=1e-9)
    # A factor of all scores is a difference of their logarithms.
    high = scores + 0.25
    np.testing.assert_allclose(fitted(rows, 2 * high, rows[0]).mean, fitted(rows, high, rows[0]).mean, rtol=0.02)


def test_neighbours_are_expected_to_matter_alike():
    """Only region 5 was ever exchanged, and it helps: so will its neighbours, more than regions far from it."""
    around = np.isin(np.arange(N), [5, 15])
    rows = np.stack([around, np.isin(np.arange(N), [12, 15])])
    mean = fitted(rows, np.array([0.8, 0.1]), around, centroids=GRID).mean
    assert mean[5] > mean[6] > mean[3] - 1e-3
    assert mean[6] > 0.05
    assert abs(fitted(rows, np.array([0.8, 0.1]), around).mean[6]) < 1e-9


def test_predictions_are_those_of_the_posterior():
    """How much log F changes from the set in question, and by how much that may be wrong, in units of log F."""
    rows, rng = some_sets(), np.random.default_rng(3)
    scores = rng.random(len(rows))
    around, others = rows[0], some_sets(7, seed=9)
    mean, covariance = posterior(rows, scores, around, GRID)
    counts = 0.05 + 0.95 * np.exp(-(rows != around).sum(axis=1) / 2 / 3)
    values = np.log(scores + 0.001)
    scale = np.sqrt(np.average((values - np.average(values, weights=counts)) ** 2, weights=counts))
    changes = others.astype(float) - around
    change, deviation = fitted(rows, scores, around, centroids=GRID).predict(others)
    np.testing.assert_allclose(change, scale * changes @ mean, rtol=1e-6, atol=1e-9)
    variance = np.einsum("ij,jk,ik->i", changes, covariance, changes) + 0.02
    np.testing.assert_allclose(deviation, scale * np.sqrt(variance), rtol=1e-6)


def test_sets_seen_before_are_not_compared_again():
    """What sets have in common by the prior is known of earlier ones, in any order."""
    rows = some_sets()
    prior = Prior.of(Problem(N, centroids=GRID))
    covariance = np.linalg.inv(prior.precision)
    prior.products(rows[:10])
    found = prior.products(rows[::-1])
    np.testing.assert_allclose(found, rows[::-1] @ covariance @ rows[::-1].T.astype(float), rtol=1e-9)
    known = prior._rows
    prior.products(rows[5:8])
    assert prior._rows is known


def test_surrogates_of_a_problem_share_their_prior():
    problem = Problem(N, centroids=GRID)
    assert Surrogate(problem, SUFFICIENCY).prior is Surrogate(problem, SUFF_NECC).prior
    assert Surrogate(Problem(N, centroids=GRID), SUFFICIENCY).prior is not Surrogate(problem, SUFFICIENCY).prior


def test_fills_have_their_own_level():
    """Two fills of which one scores everything lower are two groups, each around its mean."""
    rows = some_sets()
    scores = np.random.default_rng(4).random(len(rows)) + 0.2
    both = np.stack([scores, scores / 4])
    both[1, ::3] = np.nan
    surrogate = Surrogate(Problem(N, centroids=GRID), SUFFICIENCY)
    surrogate.fit(rows, both, rows[0])
    mean = surrogate.mean
    surrogate.fit(rows, both * [[1.0], [0.5]], rows[0])  # a level, of scores far above the floor
    np.testing.assert_allclose(surrogate.mean, mean, atol=0.02)


def threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_computes(monkeypatch):
    """A team of threads takes longer to meet than these small matrices to compute; the caller's number is restored."""
    seen = []

    def watched(name):
        original = getattr(posterior_module, name)
        monkeypatch.setattr(
            posterior_module, name, lambda *args, **more: seen.append(threads()) or original(*args, **more)
        )

    watched("solve_triangular")
    watched("cho_solve")
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        surrogate = fitted(some_sets(), np.random.default_rng(1).random(40), some_sets()[0], centroids=GRID)
        weights = next(surrogate.draw(8, 1.0, np.random.default_rng(2)))
        surrogate.predict(some_sets())
        assert threads() == before
    assert weights.shape == (N,)
    assert len(seen) >= 3
    assert all(number == {1} for number in seen)
