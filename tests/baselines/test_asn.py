import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.baselines.asn import knee, plateau

from models.tiny import lit, quadrants

OPTIONS = {"regions": "grid:4x4", "target": 2}


def test_the_bright_quadrant_is_kept():
    result = whymask.explain(lit(2), quadrants(), method="asn", k=4, **OPTIONS)
    assert set(result.regions) == {8, 9, 12, 13}
    assert result.ledger.stage("init") == (2, 2)  # its own two sides; optimising is not counted


@pytest.mark.parametrize("rule", ["knee", "plateau"])
def test_sizes_are_found_between_5_and_16(rule):
    result = whymask.explain(lit(2), quadrants(), method="asn", params={"rule": rule}, **OPTIONS)
    assert 5 <= len(result.regions) <= 16
    assert result.ledger.stage("init")[0] == 24
    assert {8, 9, 12, 13} <= set(result.regions)


def test_knee_and_plateau():
    curve = np.array([0.1, 0.6, 0.7, 0.72, 0.74])
    assert knee(curve) == 1
    assert plateau(curve) == 3  # 0.95 * 0.74 = 0.703
    assert knee(np.array([0.5])) == plateau(np.array([0.5])) == 0


def test_as_an_initialiser():
    result = whymask.explain(lit(2), quadrants(), method="asn+greedy", k=4, **OPTIONS)
    assert set(result.order[: result.kept]) <= {8, 9, 12, 13}
    assert result.ledger.stage("continue")[0] == (16 - result.kept) * (17 - result.kept)
    assert result.provenance["needs"] == "gradients"


def test_more_steps_lower_what_the_rest_scores():
    few, many = (
        whymask.explain(lit(2), quadrants(), method="asn", k=4, params={"steps": steps}, **OPTIONS) for steps in (0, 25)
    )
    assert few.regions == (0, 1, 2, 3)  # all equal: the lowest indices
    assert many.score > few.score


@pytest.mark.parametrize("rule", ["knee", "plateau"])
@pytest.mark.parametrize("given", [{"k": 4}, {"params": {"k": 4}}])
def test_a_size_is_refused_where_it_is_looked_for(rule, given):
    options = {**OPTIONS, **given, "params": {"rule": rule, **given.get("params", {})}}
    with pytest.raises(WhymaskError, match=f"the rule '{rule}' finds the size of the mask: leave k out"):
        whymask.explain(lit(2), quadrants(), method="asn+greedy", **options)


def test_ten_regions_are_usual():
    assert len(whymask.explain(lit(2), quadrants(), method="asn", params={"steps": 1}, **OPTIONS).regions) == 10


@pytest.mark.parametrize(
    "odd", [{"margin": 0.0}, {"margin": -0.5}, {"margin": 1.5}, {"sparse": -1.0}, {"decided": -1.0}]
)
def test_odd_weights_are_refused(odd):
    with pytest.raises(WhymaskError, match=f"{next(iter(odd))} must "):
        whymask.explain(lit(2), quadrants(), method="asn", params=odd, **OPTIONS)


def test_an_unknown_rule():
    with pytest.raises(WhymaskError, match="did you mean 'plateau'"):
        whymask.explain(lit(0), quadrants(), method="asn", params={"rule": "platau"}, **OPTIONS)
