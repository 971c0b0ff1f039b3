"""Many images at once, the same answers as one by one."""

import gc
import time
from itertools import repeat

import numpy as np
import pytest
from skimage.data import data_dir

import whymask
from whymask import WhymaskError
from whymask.models import MODELS

from models.tiny import lit, quadrants


@pytest.mark.parametrize("in_flight", [1, 3, 16])
@pytest.mark.parametrize("method", ["trace", "copair+phasewin"])
def test_equals_one_by_one(in_flight, method):
    images = [np.roll(lit(q % 4), shift, axis=0) for shift, q in enumerate(range(7))]
    options = {"regions": "grid:4x4", "method": method, "batch_size": 20}
    many = dict(whymask.explain_many(images, quadrants(), in_flight=in_flight, **options))
    assert sorted(many) == list(range(7))
    for number, image in enumerate(images):
        alone = whymask.explain(image, quadrants(), **options)
        assert many[number].ledger == alone.ledger
        if method == "trace":
            assert many[number].regions == alone.regions
            assert many[number].score == pytest.approx(alone.score, abs=1e-6)
        else:
            assert many[number].order == alone.order


def test_each_result_has_its_share_of_the_time(monkeypatch):
    """By a clock on which an image of the model takes one second, and all else ten that belong to no search."""
    now = 0.0

    def spend(seconds):
        nonlocal now
        now += seconds

    def model(images):
        spend(len(images))
        return images.mean(axis=(1, 2, 3)) / 255

    def images():
        for q in range(3):
            spend(10)
            yield lit(q)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    explained = whymask.explain_many(
        images(), whymask.wrap(model, size=32), in_flight=2, regions="grid:4x4", method="greedy"
    )
    for _, result in explained:
        spend(10)
        assert result.provenance["seconds"] == pytest.approx(result.ledger.mec)


def test_images_are_drawn_as_needed():
    drawn = []

    def images():
        for q in range(4):
            drawn.append(q)
            yield lit(q)

    found = whymask.explain_many(images(), quadrants(), in_flight=2, regions="grid:4x4", k=2)
    assert drawn == []
    next(found)
    assert len(drawn) <= 3


def test_targets_one_per_image():
    found = dict(whymask.explain_many([lit(0)] * 3, quadrants(), targets=[1, "sw", None], regions="grid:4x4", k=2))
    assert [found[i].target.index for i in range(3)] == [1, 2, 0]
    with pytest.raises(WhymaskError, match="fewer targets than images"):
        list(whymask.explain_many([lit(0)] * 3, quadrants(), targets=[1], regions="grid:4x4", k=2))


def test_surplus_targets_are_an_error_at_once():
    with pytest.raises(WhymaskError, match=r"more targets \(3\) than images \(2\)"):
        whymask.explain_many([lit(0)] * 2, quadrants(), targets=[0, 1, 2])
    with pytest.raises(WhymaskError, match=r"more targets \(3\) than images \(2\)"):  # a generator has no length
        list(whymask.explain_many((lit(0) for _ in range(2)), quadrants(), targets=[0, 1, 2], regions="grid:4x4"))
    endless = whymask.explain_many([lit(0)] * 2, quadrants(), targets=repeat("sw"), regions="grid:4x4", k=2)
    assert [found.target.index for _, found in endless] == [2, 2]


@pytest.mark.parametrize("in_flight", [1, 16])
def test_one_unreadable_image_costs_only_itself(in_flight, tmp_path):
    (tmp_path / "text.png").write_text("just text")
    images = [lit(0), tmp_path / "missing.png", lit(1), tmp_path / "text.png", lit(2)]
    options = {"regions": "grid:4x4", "k": 2, "in_flight": in_flight, "targets": [None, 1, "sw", 1, None]}
    with pytest.warns(UserWarning, match="left out") as warned:
        found = dict(whymask.explain_many(images, quadrants(), **options))
    assert {number: result.target.index for number, result in found.items()} == {0: 0, 2: 2, 4: 2}
    assert [str(one.message).split(":")[0] for one in warned] == ["image 1 is left out", "image 3 is left out"]
    failed = {}
    assert dict(whymask.explain_many(images, quadrants(), **options, on_error=failed.__setitem__)).keys() == {0, 2, 4}
    assert {number: str(error).split()[0] for number, error in failed.items()} == {1: "there", 3: str(images[3])}


def test_a_mistake_about_all_images_is_an_error():
    with pytest.raises(WhymaskError, match="did you mean"):
        list(whymask.explain_many([lit(0)] * 3, quadrants(), targets=["top lefft"] * 3, regions="grid:4x4"))


def test_bad_options_are_refused_at_once():
    with pytest.raises(WhymaskError, match="did you mean 'trace'"):
        whymask.explain_many([lit(0)], quadrants(), method="trase")


def test_one_progress_bar(capsys):
    list(whymask.explain_many([lit(0), lit(1)], quadrants(), regions="grid:2x2", k=1, progress=True))
    assert "2/2" in capsys.readouterr().err


@pytest.mark.skipif(not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]")
def test_batch_size_and_company_move_scores_by_less_than_1e_6():
    from whymask.explainer.case import Case, batching
    from whymask.explainer.responder import Responder
    from whymask.search.batches import in_batches

    model = whymask.load("efficientnet-lite0")
    names = ("camera.png", "coffee.png", "rocket.jpg", "astronaut.png", "chelsea.png", "motorcycle_left.png")
    cases = [Case.of(f"{data_dir}/{name}", model) for name in names]
    rng = np.random.default_rng(0)
    pieces = [(case.fills[0], rng.random((6, case.partition.n)) < 0.4) for case in cases]
    alone = [in_batches([piece], Responder(), 1)[0] for piece in pieces]
    for size in (7, 64):
        together = in_batches(pieces, Responder(), size)
        for scores, expected in zip(together, alone, strict=True):
            np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert batching(model).size >= 1


@pytest.mark.skipif(not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]")
@pytest.mark.parametrize("name", ["camera.png", "coffee.png"])
def test_orderings_of_photos_do_not_depend_on_the_batch(name):
    model = whymask.load("efficientnet-lite0")
    options = {"regions": "grid:4x4", "method": "greedy"}
    orders = {
        size: whymask.explain(f"{data_dir}/{name}", model, batch_size=size, **options).order for size in (1, 7, 64)
    }
    assert orders[1] == orders[7] == orders[64]


def test_memory_does_not_grow():
    """After a warm-up, 200 explanations leave no more objects behind than 20 do."""
    model = quadrants()

    def explain(count):
        for seed in range(count):
            whymask.explain(
                lit(seed % 4), model, regions="grid:4x4", k=3, seed=seed, method="trace", params={"rounds": 1}
            )
        gc.collect()
        return len(gc.get_objects())

    explain(20)
    before = explain(20)
    assert explain(200) - before < 200


def test_alternatives_and_the_budget_are_told():
    options = {"regions": "grid:4x4", "k": 2, "alternatives": 1, "budget": 90, "fill": "black"}
    ((_, many),) = whymask.explain_many([lit(0)], quadrants(), **options)
    alone = whymask.explain(lit(0), quadrants(), **options)
    assert many.provenance["budget"] == 90
    assert [other.regions for other in many.alternatives] == [other.regions for other in alone.alternatives]
    assert len(many.alternatives) == 1
