"""Greedy and PhaseWin against the reference: every order by its hash, every forward count."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from whymask.methods import run
from whymask.search import Selection
from whymask.search.phasewin import phasewin

from search.functions import REFERENCE, N, complete, problem

EXPECTED = json.loads((Path(__file__).parent / "reference.json").read_text())
VARIANTS = {
    "greedy": ("greedy", {}),
    "pw_noanneal": ("phasewin", {"anneal": False}),
    "pw_nohard": ("phasewin", {"hard_exit": False}),
    "pw_LG": ("phasewin", {"policy": "LG"}),
    "pw_T2": ("phasewin", {"policy": "T2"}),
    "pw_w16": ("phasewin", {"window": 16}),
    "pw_florence": ("phasewin", {"warm_start": 18, "hard_delta": 0.025, "hard_phi": 1.01}),
    "pw_selectorDefaults": (
        "phasewin",
        {"window": 16, "beta_del": 0.3, "alpha_sel": 0.8, "beta_win": 0.9, "hard_delta": 0.025, "hard_phi": 0.95},
    ),
    "pw_suffonly": ("phasewin", {"objective": "sufficiency"}),
}
DISTINCT = {
    "modular_linear": 2324,
    "modular_geometric": 1408,
    "constant_half": 342,
    "needle": 342,
    "sigmoid_linear": 2312,
    "blocks8": 992,
}


def digest(order):
    return hashlib.sha256(",".join(map(str, order)).encode()).hexdigest()[:16]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("function", REFERENCE)
def test_order_and_forwards(function, variant):
    recipe, params = VARIANTS[variant]
    result = run(recipe, REFERENCE[function], N, params=params)
    assert [result.ledger.nominal, digest(result.order)] == EXPECTED[function][variant]


@pytest.mark.parametrize("function", REFERENCE)
def test_phasewin_from_a_placed_prefix(function):
    seed = Selection(np.isin(np.arange(N), [5, 6, 7]), order=(5, 6, 7), kept=3)
    result, sizes = complete(phasewin(problem(N), seed), REFERENCE[function])
    assert [2 * sum(sizes), digest(result.order)] == EXPECTED[function]["pw_from_5_6_7"]


@pytest.mark.parametrize("function", DISTINCT)
def test_distinct_masked_images(function):
    assert run("phasewin", REFERENCE[function], N).ledger.mec == DISTINCT[function]


def test_greedy_repeats_four_images():
    assert run("greedy", REFERENCE["rand_sigmoid_0"], N).ledger.mec == 4156


def test_first_batches():
    _, sizes = complete(phasewin(problem(N)), REFERENCE["modular_linear"])
    assert sizes[:12] == [64, 63, 19, 61, 60, 19, 58, 57, 19, 55, 54, 19]
    assert len(sizes) == 40
    assert complete(phasewin(problem(N)), REFERENCE["needle"])[1] == [64, 63, 19, 19, 19, 6]
