"""Searches from outside the package: declared, registered, and used like those inside."""

import re

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import whymask
from whymask import WhymaskError
from whymask.bench.config import config
from whymask.bench.runner import run as bench
from whymask.cli.app import app
from whymask.methods import Recipe, methods, run
from whymask.search import Ask, Problem, Ranking, Selection
from whymask.search.limits import Count
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import extend, mask_of
from whymask.search.stage import stage
from whymask.serve.app import create_app
from whymask.serve.request import Request

from bench.toy import photos, table
from models.tiny import lit, quadrants
from search.functions import METHODS, complete, grid_centroids, modular, tangled


@stage("ordering", "the best of several greedy orderings at once", cost=lambda n, p: p["width"] * n * (n + 1) // 2)
def beam(problem, *, width: Count = 2):
    """Keep the `width` best prefixes of every length."""
    beams = [()]
    for _ in range(problem.n):
        longer = [(*prefix, region) for prefix in beams for region in range(problem.n) if region not in prefix]
        rest = tuple(region for region in range(problem.n) if region not in beams[0])
        rows = np.array([mask_of(prefix, problem.n) for prefix in longer])
        scores = yield Ask(rows, SUFFICIENCY, "continue", Ranking((*beams[0], *rest)))
        beams = [longer[i] for i in np.argsort(-scores, kind="stable")[:width]]
    return Ranking(beams[0])


@stage("mask", "the k regions that score best alone", cost=lambda n, p: n, name="top-singles")
def singles(problem, *, k: Count = 8):
    """Score every region alone."""
    first = Selection(mask_of(range(k), problem.n))
    scores = yield Ask(extend([], range(problem.n), problem.n), SUFFICIENCY, "init", first)
    return Selection(mask_of(np.argsort(-scores, kind="stable")[:k].tolist(), problem.n))


@pytest.fixture
def registered(stages):
    stages.add(beam)
    stages.add(singles)


def test_a_stage_is_its_function():
    assert beam.__doc__.startswith("Keep the")
    respond, weights = modular(5)
    found, _ = complete(beam(Problem(5), width=1), respond)
    assert found.order == tuple(np.argsort(-weights))
    assert beam.parameters == {"width": 2}


def test_a_stage_without_its_cost_is_a_type_error():
    with pytest.raises(TypeError, match="cost"):
        stage("mask", "a mask")


@pytest.mark.parametrize("name", ["Beam", "beam+search", "beam search", "+", "-beam"])
def test_names_of_stages_can_be_joined(name):
    with pytest.raises(WhymaskError, match="lower-case words"):
        stage("mask", "a mask", cost=lambda n, p: 1, name=name)(singles.function)


def test_kinds_of_stages_are_known():
    with pytest.raises(WhymaskError, match="unknown kind of stage 'masks'; did you mean 'mask'"):
        stage("masks", "a mask", cost=lambda n, p: 1)(singles.function)


def test_parameters_have_defaults():
    def mine(problem, *, k: Count):
        yield

    with pytest.raises(WhymaskError, match=r"the parameter k of mine has no default\."):
        stage("mask", "a mask", cost=lambda n, p: 1)(mine)


@pytest.mark.parametrize("name", ["trace", "rise"])  # a search and a baseline
def test_a_name_is_given_once(stages, name):
    other = stage("mask", "a mask", cost=lambda n, p: 1, name=name)(singles.function)
    with pytest.raises(WhymaskError, match=f"there is already a search called '{name}'"):
        stages.add(other)


def test_a_registered_ordering_runs(registered):
    respond, weights = modular(6)
    found = run("beam", respond, 6, params={"width": 3})
    assert found.order.tolist() == np.argsort(-weights).tolist()
    assert found.ledger.nominal <= Recipe("beam", {"width": 3}).estimate(6) == 63
    with pytest.raises(WhymaskError, match="width must be a whole number of at least 1, not 0"):
        Recipe("beam", {"width": 0})
    with pytest.raises(WhymaskError, match=re.escape("unknown method 'baem'; did you mean 'beam'?")):
        Recipe("baem")


def test_a_registered_mask_starts_chains(registered):
    centroids = grid_centroids(4, 4)
    plain = run("top-singles", tangled(16), 16, params={"k": 4})
    better = run("top-singles+swap", tangled(16), 16, params={"k": 4, "tries": 40})
    assert plain.mask.sum() == better.mask.sum() == 4
    assert better.score >= tangled(16)(plain.mask[None])[0]
    assert run("top-singles+swap+others", tangled(16), 16, centroids=centroids, params={"k": 4}).selection.others
    ordered = run("top-singles+swap+greedy", tangled(16), 16, params={"k": 4})
    assert sorted(ordered.order) == list(range(16))
    estimate = Recipe("top-singles+swap+greedy", {"k": 4}).estimate(16)
    assert estimate == 16 + 136 + 10 + 16 * 17 - 2 * 16 * 2
    with pytest.raises(WhymaskError, match="beam starts from nothing, but top-singles gives a mask"):
        Recipe("top-singles+beam")


def test_registered_stages_are_listed(registered):
    names = [method.name for method in methods()]
    ends = ["", "+order", "+swap", "+swap+order", "+swap+others"]
    ends += [f"{swap}+{end}" for swap in ("", "+swap") for end in ("greedy", "phasewin", "lean")]
    assert {name for name in names if name.startswith("top-singles")} == {f"top-singles{end}" for end in ends}
    assert "beam" in names
    assert [name for name in names if name in METHODS] == list(METHODS)  # in the same order as before
    printed = CliRunner().invoke(app, ["methods"]).stdout
    own, _ = printed.split("\nBaselines:\n")
    assert "beam                 ordering  the best of several greedy orderings at once\n" in own
    assert CliRunner().invoke(app, ["methods", "beam"]).stdout.splitlines()[1:] == ["  width              2"]


def test_registered_stages_explain_an_image(registered):
    evidence = whymask.explain(lit(0), quadrants(), method="top-singles+swap", k=1, regions="grid:2x2")
    assert evidence.regions == (0,)
    ordering = whymask.explain(lit(2), quadrants(), method="beam", regions="grid:2x2")
    assert ordering.order[0] == 2
    assert ordering.provenance["parameters"] == {"width": 2}


def test_registered_stages_are_offered_by_the_page(registered, tmp_path):
    page = TestClient(create_app({"quadrants": quadrants}, tmp_path, hosts={"testserver"}))
    offered = {method["name"]: method["k"] for method in page.get("/api/options").json()["methods"]}
    assert (offered["beam"], offered["top-singles+swap"]) == (False, True)
    assert Request.of({"method": "top-singles+swap", "k": "2"}, ["quadrants"]).settings.method == "top-singles+swap"


def test_registered_stages_are_rows_of_a_benchmark(registered, tmp_path):
    photos(tmp_path, 1)
    rows = ["beam", {"method": "top-singles+greedy", "params": {"k": 2}}]
    given = table(tmp_path, methods=rows, seeds=[0], models=["quadrants"], regions="grid:2x2")
    summary = bench(config(given), load=lambda spec: quadrants(size=12), quiet=True)
    assert (summary.done, summary.failed) == (2, [])
