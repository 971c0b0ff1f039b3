"""Models that launch their forwards: equal results, one forward under way while the host works."""

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case, batching
from whymask.explainer.together import search_together
from whymask.methods import Recipe
from whymask.models.base import Launched, Response

from models.launching import Launching
from models.tiny import lit, quadrants

IMAGES = [np.roll(lit(q % 4), shift, axis=0) for shift, q in enumerate(range(6))]
OPTIONS = {"regions": "grid:4x4", "batch_size": 20}


def many(model, **options):
    return dict(whymask.explain_many(IMAGES, model, **OPTIONS, **options))


def test_a_launched_response_is_read_once():
    reads = []

    def wait():
        reads.append(1)
        return Response(np.ones(2), np.zeros(2, dtype=np.int64)), 0.5

    response = Launched(wait)
    assert not reads
    assert response.score.tolist() == [1, 1]
    assert response.top.tolist() == [0, 0]
    assert response.arrived[1] == 0.5
    assert len(reads) == 1


@pytest.mark.parametrize("options", [{"k": 3}, {}, {"method": "trace"}, {"method": "copair+phasewin"}, {"budget": 30}])
def test_results_equal_those_of_the_same_model_that_does_not_launch(options):
    """Scores of a set move by rounding with what shares its batch."""
    launching = Launching()
    found, expected = many(launching, **options), many(quadrants(), **options)
    assert max(launching.under_way) >= 2
    assert found.keys() == expected.keys()
    for number, one in expected.items():
        assert found[number].ledger == one.ledger
        assert found[number].complete == one.complete
        assert found[number].prediction == one.prediction
        if hasattr(one, "order"):
            assert found[number].order == one.order
        else:
            assert found[number].regions == one.regions
            assert found[number].score == pytest.approx(one.score, abs=1e-6)


def test_a_forward_is_under_way_while_searches_advance():
    """Between the first and the last turns of many searches, whenever one half is read, the other is under way."""
    launching = Launching()
    cases = [Case.of(image, launching, target=0, regions="grid:4x4", batch_size=512) for image in IMAGES]
    *_, last = search_together(cases, Recipe("greedy"), 0, cases[0].batching)
    assert last[1].complete
    first, *later = launching.under_way
    assert first == 1
    assert set(later[1:-2]) == {2}  # greedy takes as many turns for each image, and knows the scores of the last one


def test_a_module_on_the_cpu_answers_at_once():
    case = Case.of(IMAGES[0], quadrants(), target=0, regions="grid:4x4")
    assert type(case.model.respond(case.inputs(np.eye(16, dtype=bool)), [case.bound] * 16)) is Response


def test_an_image_alone_is_explained_as_before():
    launching = Launching()
    found = whymask.explain(IMAGES[0], launching, k=3, **OPTIONS)
    assert found.regions == whymask.explain(IMAGES[0], quadrants(), k=3, **OPTIONS).regions
    assert found.ledger == whymask.explain(IMAGES[0], quadrants(), k=3, **OPTIONS).ledger


@pytest.mark.parametrize("fits", [1, 3, 10])
def test_memory_that_runs_out_in_flight_halves_and_loses_no_score(fits):
    launching = Launching(fits=fits)
    cases = [Case.of(image, launching, target=0, regions="grid:4x4") for image in IMAGES]
    plain = [Case.of(image, quadrants(), target=0, regions="grid:4x4") for image in IMAGES]
    sizes = cases[0].batching
    found, expected = (
        {number: result for number, result, _ in search_together(some, Recipe("greedy"), 0, some[0].batching)}
        for some in (cases, plain)
    )
    for number, one in expected.items():
        np.testing.assert_array_equal(found[number].order, one.order)
        assert found[number].ledger == one.ledger
    assert sizes.size <= fits


def test_one_image_too_many_in_flight_is_one_clear_sentence():
    with pytest.raises(WhymaskError, match="one image does not fit into memory"):
        many(Launching(fits=0), targets=[0] * len(IMAGES), k=3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError("CUDA error: an illegal memory access")])
def test_a_failure_in_flight_passes_through_and_the_model_can_be_used_again(error):
    launching = Launching(fails={8: error})
    with pytest.raises(error if isinstance(error, type) else type(error)):
        many(launching, k=3)
    launching.fails.clear()
    assert {n: one.regions for n, one in many(launching, k=3).items()} == {
        n: one.regions for n, one in many(quadrants(), k=3).items()
    }


def test_before_batch_is_asked_before_each_launch():
    launching, asked = Launching(), []
    cases = [Case.of(image, launching, target=0, regions="grid:4x4", batch_size=7) for image in IMAGES[:4]]
    for case in cases:
        case.before_batch = lambda count: asked.append((count, len(launching.sizes)))
    list(search_together(cases, Recipe("greedy"), 0, cases[0].batching))
    assert asked == [(size, number) for number, size in enumerate(launching.sizes)]


def test_a_batch_size_is_learned_from_the_clock_of_the_device():
    """On which 4 images take less time each than fewer or more; launching takes no time at all."""
    launching = Launching(seconds=lambda count: count * (1 + abs(np.log2(count / 4))))
    cases = [Case.of(image, launching, target=0, regions="grid:4x4") for image in IMAGES]
    list(search_together(cases, Recipe("greedy"), 0, cases[0].batching))
    assert batching(launching).size == 4


def test_all_time_belongs_to_some_search(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    launching = Launching()

    def slowly(wait):
        def waited():
            now[0] += 1
            return wait()

        return waited

    respond = launching.respond
    launching.respond = lambda *batch: Launched(slowly(respond(*batch)._wait))
    cases = [Case.of(image, launching, target=0, regions="grid:4x4") for image in IMAGES]
    seconds = [spent for *_, spent in search_together(cases, Recipe("greedy"), 0, cases[0].batching)]
    assert min(seconds) > 0
    assert sum(seconds) == pytest.approx(now[0])
