import re

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.methods import Recipe, run

from search.functions import METHODS, ON_SETS, grid_centroids, spot, tangled

PAPER = {  # the two hyper-parameter tables of the appendix
    "trace": {
        "k": 8, "rounds": 5, "samples": 32, "elite_ratio": 0.2, "update_rate": 0.7, "temperature": 1.0,
        "smoothing": 0.05, "epsilon": 1e-4, "logit_bound": 8.0,
    },
    "copair": {
        "coarse_scale": 2.0, "coarse_min": 8, "coarse_max": 32, "centroid_seed": 0, "kmeans_max_iter": 50,
        "pool_size": None, "pool_frac": 0.15, "pool_min": 10, "pool_reserve": 4, "pair_gain": 0.05,
        "min_sufficiency": 0.1, "min_area": 0.0, "max_area": 0.2, "max_groups": 3,
    },
    "trace+order": {"gamma": 0.8, "order_threshold": 20, "early_stop": False},
    "phasewin": {
        "window_frac": 0.3, "window": None, "beta_del": 0.05, "alpha_sel": 0.6, "policy": "BA", "beta_win": 0.99,
        "eta_top2": 0.05, "anneal": False, "hard_exit": True, "hard_delta": 0.02, "hard_phi": 0.98, "warm_start": 0,
    },
}  # fmt: skip

OURS = {  # of the searches beyond the paper; published records of discs+swap have these
    "discs+swap": {"k": 8, "centres": 24, "tries": 136, "together": 16},
    "discs+swap+others": {"alternatives": 2, "overlap": 0.5, "other_tries": 96},
    "smallest": {"share": 0.9, "enough": None, "k_max": None, "tries": 40},
    "lean": {"again": 0.25, "between": 3, "at_once": 0.15, "reached": 0.95, "settled": 0.02},
    "greedy-k": {"k": 8, "candidates": None},
    "random-k": {"k": 8, "draws": 1},
}
FORWARDS = [  # on 64 regions
    ("trace", {}, 5 * 32),
    ("trace", {"rounds": 3, "samples": 10}, 3 * 10),
    ("copair", {}, 16 + 14 * 13 // 2),
    ("discs", {}, 24),
    ("discs", {"centres": 5}, 5),
    ("greedy-k", {"k": 3}, 64 + 63 + 62),
    ("greedy-k", {"k": 3, "candidates": 10}, 3 * 10),
    ("random-k", {}, 1),
    ("random-k", {"draws": 7}, 7),
    ("discs+swap", {}, 24 + 136),
    ("discs+swap", {"tries": 10}, 24 + 10),
    ("smallest", {}, 65 + 224),
    ("smallest", {"tries": 50}, 65 + 280),
    ("discs+swap+others", {}, 24 + 136 + 64 + 2 * 96),
    ("discs+swap+others", {"alternatives": 1, "other_tries": 10}, 24 + 136 + 64 + 10),
    ("trace+order", {}, 160 + 8 * 9 // 2),
    ("trace+order", {"k": 5}, 160 + 5 * 6 // 2),
    ("greedy", {}, 64 * 65),
    ("phasewin", {}, 64 * 65 // 3),
    ("lean", {}, 64 * 65 // 4),
    ("trace-seed", {}, 160 + 36),
    ("trace+greedy", {}, 160 + 36 + 64 * 65 - 2 * 64 * 4),  # about half of the mask is kept
    ("trace+greedy", {"k": 5}, 160 + 15 + 64 * 65 - 2 * 64 * 2),
    ("trace+phasewin", {}, 160 + 36 + 64 * 65 // 3),
    ("discs+swap+lean", {}, 24 + 136 + 36 + 64 * 65 // 4),
    ("asn", {}, 2),
    ("asn+swap", {}, 2 + 136),
    ("eagle-efficient", {}, 64 * 65 // 3),
    ("lima-bidirectional", {}, 64 * 66 // 2),
    ("occlusion", {}, 1 + 64),
    ("rise", {"masks": 200}, 200),
    ("hsic", {"designs": 300}, 300),
    ("lime", {"samples": 400}, 400),
    ("kernelshap", {"samples": 500}, 500),
    ("gradient", {}, 0),
]


@pytest.mark.parametrize("name", PAPER)
def test_defaults_are_the_papers(name):
    assert {key: METHODS[name].parameters[key] for key in PAPER[name]} == PAPER[name]


@pytest.mark.parametrize("name", OURS)
def test_defaults_of_our_searches_stay(name):
    assert {key: METHODS[name].parameters[key] for key in OURS[name]} == OURS[name]


def test_the_default_method_costs_what_trace_costs():
    assert Recipe("discs+swap").estimate(64) == Recipe("trace").estimate(64) == 160


def test_parameters_reach_every_stage():
    params = {"k": 4, "gamma": 1.0, "objective": "sufficiency"}
    result = run("trace+greedy", tangled(16), 16, params=params)
    assert result.selection.kept == 4
    assert result.ledger.entries.keys() == {("init", "suff"), ("order", "suff"), ("continue", "suff")}
    assert result.ledger.stage("order")[0] == 4 * 5 // 2
    assert result.ledger.stage("continue")[0] == 12 * 13 // 2


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("trace", {"k": "8"}, "k must be a whole number, not '8'."),
        ("trace", {"k": 8.0}, "k must be a whole number, not 8.0."),
        ("trace", {"k": True}, "k must be a whole number"),
        ("trace", {"temperature": float("nan")}, "temperature must be a finite number"),
        ("phasewin", {"anneal": "no"}, "anneal must be True or False"),
        ("phasewin", {"window": 2.5}, "window must be a whole number"),
        ("phasewin", {"policy": 3}, "policy must be a name"),
        ("greedy", {"objective": None}, "objective must be one of sufficiency, suff_necc, an alpha, or an Objective"),
        ("greedy", {"objective": 1.5}, "alpha must lie in [0, 1]"),
    ],
)
def test_parameters_have_types(name, params, message):
    with pytest.raises(WhymaskError, match=re.escape(message)):
        run(name, tangled(9), 9, params=params)
    run("phasewin", tangled(9), 9, params={"window": None, "beta_del": 0.5})


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("trace+greedy", {"gamma": 1.5}, "gamma must lie in (0, 1], not 1.5."),
        ("trace+phasewin", {"policy": "AB"}, "unknown policy 'AB'; did you mean 'BA'?"),
        ("trace+phasewin", {"hard_delta": 0}, "hard_delta must be more than 0, not 0."),
        ("trace+lean", {"settled": 1.0}, "settled must lie in [0, 1), not 1.0."),
        ("trace+phasewin", {"window": 0}, "window must be a whole number of at least 1, not 0."),
        ("trace+lean", {"at_once": 1.0}, "at_once must lie in [0, 1), not 1.0."),
        ("trace+swap", {"together": 0}, "together must be a whole number of at least 1, not 0."),
        ("trace+swap+others", {"overlap": 1.0}, "overlap must lie in [0, 1), not 1.0."),
        ("trace+greedy", {"objective": "suf"}, "unknown objective 'suf'; did you mean"),
        ("asn", {"rule": "platau"}, "unknown rule 'platau'; did you mean 'plateau'?"),
        ("grad-cam", {"memory_saving": 1}, "memory_saving must be True or False"),
        ("igos++", {"ig_steps": 0}, "ig_steps must be a whole number of at least 1, not 0."),
        ("smallest", {"enough": 0.0}, "enough must lie in (0, 1], not 0.0."),
    ],
)
def test_limits_of_all_stages_are_checked_before_anything_is_asked(name, params, message):
    with pytest.raises(WhymaskError, match=re.escape(message)):
        Recipe(name, params)


@pytest.mark.parametrize("name", METHODS)
def test_defaults_are_within_their_limits(name):
    Recipe(name, METHODS[name].parameters)


def test_names_as_the_paper_writes_them():
    assert run("TRACE+Greedy", tangled(9), 9).recipe.name == "trace+greedy"


@pytest.mark.parametrize("name", ON_SETS)
def test_the_estimate_is_of_the_right_size(name):
    # How many sizes smallest looks at depends on the function: of the tangled one, two regions are enough.
    respond = spot()[0] if name.startswith("smallest") else tangled(64)
    result = run(name, respond, 64, centroids=grid_centroids(8, 8))
    assert result.ledger.nominal / 4 <= result.recipe.estimate(64) <= 4 * result.ledger.nominal


@pytest.mark.parametrize(("name", "params", "forwards"), FORWARDS)
def test_the_estimate_is_the_sum_of_the_stages(name, params, forwards):
    assert Recipe(name, params).estimate(64) == forwards


@pytest.mark.parametrize("n", [36, 49])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("trace", {}),
        ("discs", {"centres": 9}),
        ("greedy-k", {}),
        ("greedy-k", {"k": 4, "candidates": 5}),
        ("random-k", {"draws": 3}),
        ("discs+swap", {"centres": 9, "tries": 20}),
        ("trace+order", {"k": 6}),
        ("trace-seed", {}),
        ("greedy", {}),
        ("occlusion", {}),
    ],
)
def test_the_estimate_is_exact_where_the_function_does_not_matter(name, params, n):
    centroids = np.random.default_rng(n).random((n, 2))
    result = run(name, tangled(n), n, centroids=centroids, params=params)
    assert result.recipe.estimate(n) == result.ledger.nominal


def test_a_recipe_is_a_string_or_an_object():
    recipe = Recipe("trace", {"k": 3})
    assert run(recipe, tangled(9), 9).mask.sum() == 3
    assert run(recipe, tangled(9), 9, params={"k": 2}).mask.sum() == 2
    assert run("trace", tangled(9), 9, params={"k": 2}).recipe == Recipe("trace", {"k": 2})


def test_equal_recipes_have_equal_hashes():
    assert len({Recipe("trace", {"k": 3}), Recipe("TRACE", {"k": 3}), Recipe("trace", {"k": 4}), Recipe("trace")}) == 3


@pytest.mark.parametrize("name", ["copair+greedy", "copair+phasewin", "random-k+greedy", "random-k+phasewin"])
def test_initialised_search_starts_from_the_kept_prefix(name):
    result = run(name, tangled(25), 25, centroids=grid_centroids(5, 5))
    kept = result.selection.prefix
    assert tuple(result.order[: len(kept)]) == kept
    assert result.ledger.entries.keys() >= {("init", "suff"), ("order", "suff"), ("continue", "necc")}


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("greddy", {}, "unknown method 'greddy'; did you mean 'greedy'?"),
        ("trace+gredy", {}, "unknown method 'trace+gredy'; did you mean 'trace+greedy'?"),
        ("zzz", {}, "known: "),
        ("trace", {"sample": 3}, "unknown parameter of trace 'sample'; did you mean 'samples'?"),
        ("trace", {"gamma": 0.8}, "unknown parameter of trace 'gamma'"),
        ("TRACE+Gredy", {}, "did you mean 'trace+greedy'?"),
        ("phasewin", {"policy": "ba"}, "did you mean 'BA'?"),
        ("greedy", {"objective": "sufficient"}, "unknown objective 'sufficient'; did you mean 'sufficiency'?"),
    ],
)
def test_names_the_closest(name, params, message):
    with pytest.raises(WhymaskError, match=re.escape(message)):
        run(name, tangled(9), 9, params=params)
