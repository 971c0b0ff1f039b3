"""Searches for other answers: where the real one stands."""

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError

from models.tiny import lit, quadrants

PICTURE = np.random.default_rng(0).integers(1, 255, (48, 48, 3)).astype(np.uint8)


def anything_goes(images):
    """Twelve classes; each is certain as soon as a pixel of its own column of the picture is seen, by its colour."""
    seen = (images == PICTURE).all(axis=3).any(axis=1)
    return seen[:, ::4].astype(float)


def explain(**settings):
    model = whymask.wrap(anything_goes, labels=[f"class {i}" for i in range(12)])
    return whymask.explain(PICTURE, model, target=3, regions="grid:4x4", k=3, **settings)


def test_an_answer_that_is_as_good_as_any_other_is_not_above_chance():
    assert explain().verdict.code == "redundant"  # there are three more regions in that column
    found = explain(null=5)
    assert len(found.controls.null) == 5
    assert "class 3" not in found.controls.null
    assert all(score == 1 for score in found.controls.null.values())
    assert found.verdict.code == "not_above_chance"
    assert "5 of 5 other answers" in found.verdict.sentence


def test_others_that_score_less_are_reported_and_counted_apart():
    plain = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, fill="mean")
    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, fill="mean", null=3)
    assert set(found.controls.null) == {"top right", "bottom left", "bottom right"}
    assert max(found.controls.null.values()) < found.score
    assert found.regions == plain.regions
    assert found.ledger.mec == plain.ledger.mec
    assert found.ledger.stage("probe") == plain.ledger.stage("probe")
    nominal, sent = found.ledger.stage("null")
    assert nominal >= sent > 3


def test_files_keep_them(tmp_path):
    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, null=["ne", 2])
    again = whymask.EvidenceMask.load(found.save(tmp_path / "x"))
    assert again.controls == found.controls
    assert set(again.controls.null) == {"top right", "bottom left"}
    assert again.verdict == found.verdict
    assert found.as_dict()["controls"]["null"] == found.controls.null
    assert next(iter(found.as_dict())) == "verdict"


def test_the_same_seed_draws_the_same_answers():
    one, same, other = (explain(null=3, seed=seed).controls.null for seed in (0, 0, 1))
    assert one == same
    assert one.keys() != other.keys()


def test_errors():
    with pytest.raises(WhymaskError, match="null compares masks"):
        whymask.Settings(method="greedy", null=2)
    with pytest.raises(WhymaskError, match="a number or a list"):
        whymask.Settings(null="Yes")
    with pytest.raises(WhymaskError, match="repair does not search"):
        whymask.repair(lit(0), quadrants(), want="ne", null=2)
    with pytest.raises(WhymaskError, match="no list of classes"):
        whymask.explain(lit(0), whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255), null=2)


def test_the_answer_itself_is_no_other_answer():
    """Under another spelling or number it would score as high as itself."""
    found = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, null=["TOP LEFT", 0, "ne", "top right"])
    assert set(found.controls.null) == {"top right"}
    with pytest.raises(WhymaskError, match="null names no other answer than 'top left'"):
        whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, null=[0])
    with pytest.raises(WhymaskError, match="null must be a whole number"):
        whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, null=2.5)
    whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=3, null=np.int64(1))
