from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from whymask.baselines.kernelshap import coalitions, kernelshap, shapley
from whymask.methods import run

from search.functions import complete, modular, problem, sigmoid, tangled


def exact(respond, n):
    """Shapley values by their definition."""
    values = np.zeros(n)
    for region in range(n):
        for size in range(n):
            share = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for others in combinations(sorted(set(range(n)) - {region}), size):
                row = np.isin(np.arange(n), others)
                values[region] += share * (respond((row | (np.arange(n) == region))[None]) - respond(row[None]))[0]
    return values


def values(respond, n, samples=2048):
    labels = np.arange(n, dtype=np.int32)[None]
    return complete(kernelshap(problem(n, labels=labels), samples=samples), respond)[0].map[0]


@pytest.mark.parametrize("n", [1, 2, 7])
def test_exact_where_all_coalitions_fit(n):
    np.testing.assert_allclose(values(tangled(n), n), exact(tangled(n), n), atol=1e-10)


def test_samples_give_a_modular_function_its_weights():
    respond, weights = modular(20)
    np.testing.assert_allclose(values(respond, 20, samples=200), weights, atol=1e-10)


def test_samples_come_close_and_add_up():
    respond = tangled(10)
    found = values(respond, 10, samples=800)
    assert found.sum() == pytest.approx((respond(np.ones((1, 10), bool)) - respond(np.zeros((1, 10), bool)))[0])
    assert spearmanr(found, exact(respond, 10)).statistic > 0.95


def test_coalitions_come_with_their_complements():
    rows, weights = coalitions(70, 100, np.random.default_rng(0))
    assert rows.shape == (100, 70)
    np.testing.assert_array_equal(rows[::2], ~rows[1::2])
    assert (rows.any(axis=1) & ~rows.all(axis=1)).all()
    assert len(set(weights)) == 1


def test_nothing_known_yet_is_an_even_share():
    assert shapley(np.zeros((0, 4), bool), np.zeros(0), np.zeros(0), 1.0).sum() == pytest.approx(1)


def test_agrees_with_captum():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    main = np.array([1.5, -0.4, 0.8, 0.1, -1.0, 0.4, 1.1, -0.7])

    def respond(rows):
        return sigmoid(rows @ main + rows[:, 0] * rows[:, 1] - 0.5)  # values apart by more than captum's noise

    torch.manual_seed(0)
    method = captum.KernelShap(lambda rows: torch.from_numpy(respond(rows.bool().numpy())).float())
    theirs = method.attribute(torch.ones(1, 8), n_samples=4000, perturbations_per_eval=500)[0].numpy()
    assert spearmanr(values(respond, 8), theirs).statistic >= 0.99


def test_forwards():
    assert run("kernelshap", tangled(5), 5).ledger.mec == 2**5
