import numpy as np

from whymask.baselines.lime import coefficients
from whymask.methods import run

from search.functions import modular, tangled


def test_modular_values():
    respond, weights = modular(12)
    result = run("lime", respond, 12, params={"samples": 400})
    np.testing.assert_array_equal(result.order, np.argsort(-weights))
    assert result.ledger.nominal == 400


def test_coefficients_of_a_linear_function_are_its_weights():
    respond, weights = modular(6)
    rng = np.random.default_rng(0)
    rows = rng.random((50, 6)) < 0.5
    found = coefficients(rows, 0.3 + respond(rows), rng.random(50), ridge=0)
    np.testing.assert_allclose(found, weights, atol=1e-12)
    shrunk = coefficients(rows, respond(rows), np.ones(50), ridge=10)
    assert np.linalg.norm(shrunk) < np.linalg.norm(weights)


def test_equals_scikit_learns_weighted_ridge():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(1)
    rows, weights = rng.random((40, 5)) < 0.5, rng.random(40)
    scores = tangled(5)(rows)
    ridge = Ridge(alpha=2.0).fit(rows, scores, sample_weight=weights)
    np.testing.assert_allclose(coefficients(rows, scores, weights, 2.0), ridge.coef_)


def test_a_budget_ends_it_with_what_is_known():
    respond, weights = modular(12)
    result = run("lime", respond, 12, params={"samples": 1000}, budget=600)
    assert not result.complete
    assert 0 < result.ledger.mec <= 600
    np.testing.assert_array_equal(result.order, np.argsort(-weights))
