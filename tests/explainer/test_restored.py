"""A result's image on its model again."""

import numpy as np
import pytest

import whymask
from whymask.errors import WhymaskError
from whymask.explainer import restored
from whymask.explainer.restored import WhatIf
from whymask.results.base import Explanation

from models.tiny import lit, quadrants


@pytest.fixture(scope="module")
def model():
    return quadrants(share=0.5)


@pytest.mark.parametrize("how", [{}, {"over_fills": "min"}, {"fill": "#102030"}, {"target": "ne", "against": "sw"}])
def test_it_scores_as_the_search_did(model, how, tmp_path):
    """Also from a file: of whole, blank and kept images and of every stored set."""
    found = whymask.explain(lit(0, 96), model, regions="grid:4x4", k=3, **how)
    asked = WhatIf(Explanation.load(found.save(tmp_path / "found")), model)
    expected = {tuple(range(16)): found.full_score, (): found.blank_score, found.regions: found.score}
    sets = found.scored
    expected |= {tuple(np.flatnonzero(row)): score for row, score in zip(sets.rows, sets.scores, strict=True)}
    for regions, score in expected.items():
        assert asked.ask([*map(int, regions)]).score == pytest.approx(score, abs=1e-5)
    shown = asked.ask(range(16))
    assert shown.answers == (found.prediction,) * len(found.image.fills)


def test_what_is_known_is_not_sent_again(model, monkeypatch):
    found = whymask.explain(lit(0, 96), model, regions="grid:4x4", k=3)
    asked = WhatIf(found, model)
    before = asked.case.sent
    first = asked.ask([1, 2])
    assert asked.ask([2, 1]) == first
    assert asked.case.sent == before + 3  # an image on each of three fills
    monkeypatch.setattr(restored, "REMEMBERED", 6)
    assert [asked.ask([region]).score for region in (4, 5)] == [WhatIf(found, model).ask([r]).score for r in (4, 5)]
    assert sum(len(filled.responses.scores) for filled in asked.case.fills) <= 6 + 3


@pytest.mark.parametrize("regions", [[0, 0], [16], [-1]])
def test_other_regions_are_an_error(model, regions):
    found = whymask.explain(lit(0, 96), model, regions="grid:4x4", k=3)
    with pytest.raises(WhymaskError, match="from 0 to 15"):
        WhatIf(found, model).ask(regions)
