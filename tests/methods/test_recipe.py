import re

import pytest

from whymask import WhymaskError
from whymask.methods import Recipe, run

from search.functions import METHODS, ON_SETS, grid_centroids, tangled

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


@pytest.mark.parametrize("name", PAPER)
def test_defaults_are_the_papers(name):
    assert {key: METHODS[name].parameters[key] for key in PAPER[name]} == PAPER[name]


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
    result = run(name, tangled(64), 64, centroids=grid_centroids(8, 8))
    assert result.ledger.nominal / 4 <= result.recipe.estimate(64) <= 4 * result.ledger.nominal


def test_a_recipe_is_a_string_or_an_object():
    recipe = Recipe("trace", {"k": 3})
    assert run(recipe, tangled(9), 9).mask.sum() == 3
    assert run(recipe, tangled(9), 9, params={"k": 2}).mask.sum() == 2
    assert run("trace", tangled(9), 9, params={"k": 2}).recipe == Recipe("trace", {"k": 2})


def test_equal_recipes_have_equal_hashes():
    assert len({Recipe("trace", {"k": 3}), Recipe("TRACE", {"k": 3}), Recipe("trace", {"k": 4}), Recipe("trace")}) == 3


@pytest.mark.parametrize(
    ("name", "params", "forwards"),
    [
        ("trace", {"rounds": 2, "samples": 6}, 12),
        ("greedy", {}, 64 * 65),
        ("trace+greedy", {"k": 5}, 160 + 15 + 64 * 65 - 2 * 64 * 2),  # half of the mask is placed already
        ("smallest+greedy", {}, 136 + 25 + 288 + 36 + 64 * 65 - 2 * 64 * 4),  # as for a mask of 8
        ("greedy-k+lean", {"k": 3, "candidates": 10}, 30 + 6 + 64 * 65 // 4),
        ("asn+swap+others", {"tries": 7}, 2 + 7 + 64 + 2 * 96),
        ("rise", {"masks": 30}, 30),
        ("grad-cam", {}, 0),
    ],
)
def test_the_estimate_is_the_sum_of_the_stages(name, params, forwards):
    assert Recipe(name, params).estimate(64) == forwards


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
