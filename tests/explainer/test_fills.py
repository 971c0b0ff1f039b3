"""Searches on several fills: the mean or the minimum over them, every forward counted."""

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError
from whymask.explainer.case import Case
from whymask.explainer.controls import controls
from whymask.explainer.repairing import replies
from whymask.methods import Recipe

from models.tiny import lit, quadrants

FILLS = ("black", "mean", "noise")
METHODS = [
    ("trace", {"k": 3, "rounds": 2}),
    ("discs+swap", {"k": 3, "tries": 20}),
    ("smallest", {"tries": 10}),
    ("copair+order", {}),
    ("trace+greedy", {"k": 3, "rounds": 2}),
    ("greedy", {}),
    ("phasewin", {}),
    ("discs+swap+lean", {"k": 3, "tries": 10}),
]
RACES = ("discs+swap", "smallest", "discs+swap+lean")


def case(fill, quadrant=0, **options):
    return Case.of(lit(quadrant), quadrants(), **{"regions": "grid:4x4", "fill": fill, "batch_size": 8} | options)


def random_rows(count=20, n=16):
    return np.random.default_rng(0).random((count, n)) < 0.4


@pytest.mark.parametrize(("how", "combine"), [("mean", np.mean), ("min", np.min)])
def test_a_set_scores_the_mean_or_the_minimum_over_its_fills(how, combine):
    rows = random_rows()
    alone = [case(fill).ask(rows)[0][0] for fill in FILLS]
    (together,), sent = case(FILLS, over_fills=how).ask(rows)
    assert sent == 3 * len(rows)
    np.testing.assert_allclose(together, combine(alone, axis=0), atol=1e-6)  # of other batches
    assert np.ptp(alone, axis=0).max() > 0.01


def test_the_minimum_of_suff_and_necc_is_taken_of_f_itself():
    """Not of each side: the least necessity is where the rest scores highest."""
    from whymask.search.objective import SUFF_NECC
    from whymask.search.oracle import Oracle, Responses

    oracle = Oracle(Responses(), Responses(), how="min")
    row = np.array([[True, False]])
    query = oracle.open(row, SUFF_NECC, "init")
    kept, rest = [0.9, 0.5], [0.2, 0.1]
    found = oracle.answer(query, np.array([kept[0], rest[0], kept[1], rest[1]]))
    np.testing.assert_allclose(found, [min(0.5 * 0.9 + 0.5 * 0.8, 0.5 * 0.5 + 0.5 * 0.9)])
    rows, scores = oracle.archive.scored(SUFF_NECC)
    np.testing.assert_allclose(scores[(rows == row).all(axis=1)], found)
    assert oracle.ledger.mec == oracle.ledger.nominal == 4


def test_the_whole_image_is_sent_once():
    (scores,), sent = case(FILLS).ask(np.ones((1, 16), dtype=bool))
    assert sent == 1
    assert scores == case("black").ask(np.ones((1, 16), dtype=bool))[0][0]


@pytest.mark.parametrize(("method", "params"), METHODS)
def test_every_search_works_on_several_fills_and_counts_every_forward(method, params):
    subject = case(FILLS)
    sent = []
    subject.before_batch = sent.append
    (found,) = subject.search(Recipe(method, params))
    whole = np.ones((1, 16), dtype=bool)
    asked = found.ledger.mec + found.ledger.stage("probe")[1] - subject.bound.probes
    assert asked == sum(sent)
    assert all(np.array(sent) <= 8)
    scored = sum(len(filled.responses.scores) for filled in subject.fills)
    controls = 2 * len(FILLS) + 2 if found.kind == "mask" else 0
    assert scored - 2 + controls == sum(sent), "the whole image is sent once, other sets once for each of their fills"
    assert subject.responses.answers_to(whole) == [0]


@pytest.mark.parametrize(("method", "params"), [one for one in METHODS if one[0] not in RACES])
def test_the_same_fill_thrice_is_the_search_on_one(method, params):
    """The mean and the minimum of equal scores are that score: the same results, for three times the forwards."""
    fill = np.zeros((32, 32, 3), dtype=np.uint8)
    (one,) = case(fill).search(Recipe(method, params))
    (three,) = case([fill, fill, fill], over_fills="min").search(Recipe(method, params))
    assert one.as_dict().get("regions") == three.as_dict().get("regions")
    assert one.as_dict().get("order") == three.as_dict().get("order")
    assert 3 * one.ledger.mec - 2 <= three.ledger.mec <= 3 * one.ledger.mec  # the whole image counts once


@pytest.mark.parametrize(("method", "params"), [one for one in METHODS if one[0] in RACES])
def test_races_ask_for_less_than_every_set_on_every_fill(method, params):
    subject = case(FILLS)
    (found,) = subject.search(Recipe(method, params))
    on_each = [len(filled.responses.scores) for filled in subject.fills]
    sets = {key for filled in subject.fills for key in filled.responses.scores}
    assert sum(on_each) < 3 * len(sets) - 2
    if found.kind == "mask":  # what comes back has been scored on all of them
        each = [case(fill).ask(found.chosen[None])[0][0, 0] for fill in FILLS]
        np.testing.assert_allclose(found.score, np.mean(each), atol=1e-6)


@pytest.mark.parametrize(("how", "combine"), [("mean", np.mean), ("min", np.min)])
def test_flat_and_shuffled_content_is_scored_as_the_mask_is(how, combine):
    """On every fill of the search: on one of them alone an outline may seem to give the answer, or not to."""
    mask = np.arange(16) < 5
    fills = ["black", "#f0f0f0", "noise"]
    alone = [controls(case(fill), mask, mask[None])[1] for fill in fills]
    _, found, _, _ = controls(case(fills, over_fills=how), mask, mask[None])
    for name in ("flat", "shuffled"):
        scores = [getattr(one, name) for one in alone]
        np.testing.assert_allclose(getattr(found, name), combine(scores), atol=1e-6)
        assert abs(scores[0] - combine(scores)) > 0.01


def test_a_list_of_one_fill_is_that_fill():
    one, listed = (whymask.explain(lit(1), quadrants(), regions="grid:4x4", fill=fill) for fill in ("blur", ["blur"]))
    assert one.as_dict() | {"provenance": 0} == listed.as_dict() | {"provenance": 0}
    assert listed.provenance["fill"] == "blur"
    assert "over_fills" not in listed.provenance
    assert one.image.further_fills == ()


def test_a_budget_counts_forwards_on_all_fills():
    for budget in (0, 1, 7, 30, 31):
        (found,) = case(FILLS).search(Recipe("discs+swap", {"k": 3}), budget=budget)
        assert found.ledger.mec <= budget
        assert found.ledger.mec > budget - 3 or budget < 3
        assert not found.complete


def test_results_do_not_depend_on_company_or_batches():
    recipe = Recipe("discs+swap", {"k": 3, "tries": 20})
    alone = [case("several", batch_size=7).search(recipe, [seed])[0] for seed in range(3)]
    for one, other in zip(alone, case("several").search(recipe, [0, 1, 2]), strict=True):
        assert one.regions == other.regions
        assert one.ledger == other.ledger


def test_many_images_on_several_fills_equal_each_alone():
    options = {"regions": "grid:4x4", "fill": "several", "k": 3}
    for number, found in whymask.explain_many([lit(q) for q in range(4)], quadrants(), **options):
        alone = whymask.explain(lit(number), quadrants(), **options)
        assert found.regions == alone.regions
        assert found.ledger == alone.ledger


def test_replay_uses_the_fills_of_the_search(tmp_path):
    ordering = whymask.explain(lit(2), quadrants(), method="greedy", regions="grid:2x2", fill="several", batch_size=4)
    ordering = whymask.Ordering.load(ordering.save(tmp_path / "ordering"))
    assert len(ordering.image.fills) == 3
    curves = whymask.replay(ordering, quadrants(), batch_size=4)
    each = [whymask.replay(ordering, quadrants(), fill=fill, batch_size=4) for fill in ordering.image.fills]
    np.testing.assert_allclose(curves.insertion, np.mean([one.insertion for one in each], axis=0), atol=1e-6)
    np.testing.assert_allclose(curves.deletion, np.mean([one.deletion for one in each], axis=0), atol=1e-6)
    assert ordering.provenance["fill"] == "black,blur,noise"
    assert ordering.provenance["over_fills"] == "mean"


def test_pixel_masks_are_blended_with_every_fill():
    (found,) = case(FILLS).search(Recipe("rise", {"masks": 6, "grid": 3}))
    assert found.ledger.mec == 18


def test_a_repair_must_hold_on_every_fill():
    """The mean of this image is bright, so on that fill only what is brighter still is seen."""
    rows = np.zeros((1, 16), dtype=bool)
    rows[0, [0]] = True  # one bright region of the top left quadrant
    answers = {fill: replies(case(fill, target="ne"), rows)[0] for fill in ("black", "#ffffff")}
    assert answers["black"][0] != "top right"
    both = case(["#000000", "black", "#ffffff"], target="nw")
    assert replies(case("black", target="nw"), rows) == [("top left", True)]
    other = replies(case("#ffffff", target="nw"), rows)
    assert other[0][1] is False
    assert replies(both, rows) == other


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        ([], "1 to 8 fills"),
        (["black"] * 2, "named twice"),
        ("black,black", "named twice"),
        ("black,blak", "unknown fill 'blak'"),
        ([f"#0000{i:02x}" for i in range(9)], "1 to 8 fills"),
        ((1, 2), "three whole numbers"),
    ],
)
def test_wrong_fills(fill, message):
    with pytest.raises(WhymaskError, match=message):
        whymask.Settings(fill=fill)


def test_gradients_take_one_fill():
    with pytest.raises(WhymaskError, match="uses gradients and takes a single fill"):
        whymask.Settings(fill="several", method="grad-cam")
    with pytest.raises(WhymaskError, match="over_fills is 'mean' or 'min'"):
        whymask.Settings(over_fills="max")


def test_alternatives_are_found_early_on_several_fills():
    """Not every disc is scored on every fill first, and one that a budget cuts short is kept."""
    recipe = Recipe("discs+swap+others", {"k": 3, "tries": 16, "alternatives": 1})
    first = Recipe("discs+swap", {"k": 3, "tries": 16})
    (alone,) = case(FILLS, regions="grid:6x6").search(first)
    (found,) = case(FILLS, regions="grid:6x6").search(recipe, budget=alone.ledger.mec + 2 * 36)
    assert not found.complete
    (other,) = found.alternatives
    assert len({*other.regions} & {*found.regions}) <= 1
