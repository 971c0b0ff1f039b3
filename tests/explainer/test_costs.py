"""What explanations by a served model cost, and limits of it: in the result, in print, and never exceeded."""

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.errors import ExhaustedError
from whymask.explainer.costs import result_images
from whymask.models.http import HttpModel
from whymask.results.base import Explanation

from models.serving import serving
from models.test_http import SEARCH, answer
from models.tiny import lit, quadrants

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")


def billed(body):
    """100 tokens for every image, and 2 for every score."""
    count = len(body["images"])
    return answer(body) | {"usage": {"prompt_tokens": 100 * count, "completion_tokens": 2 * count}}


@pytest.fixture(autouse=True)
def _no_second_copies(monkeypatch):
    """However slow the machine is."""
    monkeypatch.setattr("whymask.models.remote.Remote._may_hedge", False)


def images_of(ledger):
    return sum(mec for _, mec in ledger.entries.values())


def test_a_result_says_what_it_cost():
    with serving(billed) as server:
        model = HttpModel(server.url, batch_size=1, price="1/10")
        found = whymask.explain(lit(1), model, target=1, **SEARCH)
    count = len(server.bodies)
    assert count == images_of(found.ledger)
    assert found.provenance["spending"] == {
        "requests": count, "retries": 0, "hedges": 0, "tokens_in": 100 * count, "tokens_out": 2 * count,
        "price": "1/10", "cost": pytest.approx(count * 120e-6),
    }  # fmt: skip
    assert f"; {count} requests, {100 * count:,} tokens in, {2 * count} out, costing 0.0" in str(found)


def test_nothing_is_said_of_models_that_run_here(tmp_path):
    found = whymask.explain(lit(1), quadrants(), **SEARCH)
    assert "spending" not in found.provenance
    assert "request" not in str(found)


def test_what_a_saved_result_cost(tmp_path):
    with serving(billed) as server:
        found = whymask.explain(lit(1), HttpModel(server.url), target=1, **SEARCH)
    assert str(Explanation.load(found.save(tmp_path / "a.npz"))) == str(found)


def test_searches_that_share_requests_have_shares():
    with serving(billed) as server:
        model = HttpModel(server.url, price="1/10")
        found = list(whymask.explain_many([lit(0), lit(1)], model, targets=[1, 1], **SEARCH))
    each = [result.provenance["spending"] for _, result in found]
    assert sum(one["requests"] for one in each) == pytest.approx(len(server.bodies), abs=0.1)
    assert sum(one["tokens_in"] for one in each) == pytest.approx(model.spending.spent.tokens_in, abs=0.1)
    assert [one["tokens_in"] for one in each] == [100 * images_of(result.ledger) for _, result in found]


def test_other_answers_are_part_of_the_cost():
    with serving(billed) as server:
        model = HttpModel(server.url, batch_size=1)
        found = whymask.explain(lit(1), model, target=1, null=[2, 3], **SEARCH)
    assert found.provenance["spending"]["requests"] == len(server.bodies)


LONG = {"method": "discs+swap", "k": 4, "params": {"tries": 1000}, "regions": "grid:8x8"}


@pytest.mark.parametrize(("per_request", "images"), [(1, 60), (4, 240)])
@pytest.mark.parametrize("limited", ["requests", "cost"])
def test_a_search_that_reaches_its_limit_returns_its_best_so_far(limited, per_request, images):
    limit = {"max_requests": 60} if limited == "requests" else {"max_cost": images * 120e-6, "price": "1/10"}
    with serving(billed) as server:
        model = HttpModel(server.url, batch_size=per_request, **limit)
        found = whymask.explain(lit(1), model, target=1, **LONG)
    spent = model.spending.spent
    assert not found.complete
    assert "The budget ended the search early." in found.remarks
    assert len(found.regions) == 4
    assert found.controls is not None
    assert found.provenance["spending"]["requests"] == spent.requests == len(server.bodies)
    if limited == "requests":
        assert 30 <= spent.requests <= 60
    else:
        assert 0.5 * limit["max_cost"] <= found.provenance["spending"]["cost"] <= limit["max_cost"]


class SeveralRequests(HttpModel):
    """A model whose scores are each made of three replies."""

    def respond(self, inputs, bounds):
        for _ in range(2):
            super().respond(inputs, bounds)
        return super().respond(inputs, bounds)


def test_scores_that_take_several_requests():
    with serving(billed) as server:
        model = SeveralRequests(server.url, batch_size=1, max_requests=180)
        found = whymask.explain(lit(1), model, target=1, **LONG)
    assert not found.complete
    assert 90 <= len(server.bodies) <= 180
    assert len(server.bodies) == 3 * images_of(found.ledger)


def test_a_limit_below_what_a_result_needs():
    with serving(billed) as server:
        model = HttpModel(server.url, batch_size=1, max_requests=5)
        with pytest.raises(WhymaskError, match="the limit max_requests=5 is reached"):
            whymask.explain(lit(1), model, target=1, **SEARCH)
    assert len(server.bodies) <= 5


def test_a_limit_that_is_never_reached_changes_nothing():
    with serving(billed) as server:
        free, limited = (
            whymask.explain(lit(1), HttpModel(server.url, **limit), target=1, **SEARCH)
            for limit in ({}, {"max_requests": 10_000, "max_cost": 100, "price": "1/1"})
        )
    assert limited.complete
    assert limited.regions == free.regions
    assert limited.ledger.as_dict() == free.ledger.as_dict()


def test_of_many_images_those_that_were_begun_have_results():
    images = [lit(number % 4) for number in range(12)]
    found = []
    with serving(billed) as server:
        model = HttpModel(server.url, batch_size=1, max_requests=150)
        results = whymask.explain_many(images, model, targets=[1] * 12, in_flight=2, **SEARCH)
        with pytest.raises(ExhaustedError, match="max_requests=150"):
            found.extend(results)
    assert len(server.bodies) <= 150
    assert 2 <= len(found) < 12
    assert any(result.complete for _, result in found)


def test_retries_beyond_what_was_expected_end_the_search_too():
    """A limit counts every request; what the results need is kept back."""
    fault = lambda number: (500, {}, {}) if number in range(30, 34) else None  # noqa: E731
    with serving(billed, fault) as server:
        model = HttpModel(server.url, batch_size=1, max_requests=80)
        found = whymask.explain(lit(1), model, target=1, **LONG)
    assert not found.complete
    assert model.spending.spent.retries == 4
    assert len(server.bodies) <= 80


@pytest.mark.parametrize(("fills", "alternatives"), [("black", 0), ("several", 0), ("several", 2)])
def test_a_result_needs_no_more_images_than_are_kept_back(fills, alternatives):
    """Of a search that has scored nothing of what the result is made of."""
    found = whymask.explain(
        lit(1), quadrants(), method="discs+swap", k=2, regions="grid:8x8", fill=fills, alternatives=alternatives,
        budget=20,
    )  # fmt: skip
    count = 3 if fills == "several" else 1
    assert found.ledger.stage("probe")[0] <= result_images(count, alternatives) + 1
    assert np.isfinite(found.score)
