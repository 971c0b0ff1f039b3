import numpy as np

from whymask.methods import run

from search.functions import tangled


def test_every_region_has_the_same_chance():
    picks = sum(run("random-k", tangled(10), 10, seed=seed, params={"k": 3}).mask.astype(int) for seed in range(600))
    assert picks.sum() == 1800
    assert np.abs(picks - 180).max() < 5 * np.sqrt(600 * 0.3 * 0.7)


def test_costs_one_forward():
    assert run("random-k", tangled(20), 20).ledger.nominal == 1
    assert run("random-k+order", tangled(20), 20, params={"k": 4}).ledger.nominal == 1 + 10
