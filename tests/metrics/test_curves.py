import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc

from whymask import Curves, WhymaskError

EXAMPLE = Curves(np.array([0.25, 0.5, 0.75, 1.0]), np.array([0.2, 0.8, 0.9, 0.7]), np.array([0.6, 0.3, 0.2, 0.1]))


def test_worked_example():
    assert EXAMPLE.insertion_auc == pytest.approx(0.575, abs=1e-12)
    assert EXAMPLE.deletion_auc == pytest.approx(0.375, abs=1e-12)
    assert EXAMPLE.high == 0.9
    assert EXAMPLE.best(0.3) == 0.2
    assert EXAMPLE.best(0.5) == 0.8
    assert EXAMPLE.at(0.5) == pytest.approx(0.8)
    assert EXAMPLE.at(0.3) == pytest.approx(0.2 + 0.6 * 0.2)
    assert EXAMPLE.at(0) == 0.1
    assert EXAMPLE.prefix() == 2  # 0.8 is more than 0.8 x 0.7, 0.2 is less
    assert EXAMPLE.prefix(0.2) == 1
    assert Curves(np.array([0.5, 1]), np.array([0.1, 0.9]), np.zeros(2)).prefix() == 2  # the whole image always does


@given(st.integers(1, 40), st.integers(0, 10**6))
def test_agrees_with_an_independent_auc(n, seed):
    rng = np.random.default_rng(seed)
    areas = np.cumsum(rng.dirichlet(np.ones(n)))
    areas[-1] = 1
    insertion, deletion = rng.random((2, n))
    curves = Curves(areas, insertion, deletion)
    x = np.concatenate([[0], areas])
    assert curves.insertion_auc == pytest.approx(auc(x, [deletion[-1], *insertion]), abs=1e-12)
    assert curves.deletion_auc == pytest.approx(auc(1 - x, [insertion[-1], *deletion]), abs=1e-12)
    assert curves.high == max(deletion[-1], *insertion)
    reached = [i for a, i in zip(areas, insertion, strict=True) if a <= 0.3]
    assert curves.best(0.3) == (max(reached) if reached else insertion[0])


def test_high_counts_the_empty_image_but_best_does_not():
    curves = Curves(np.array([0.5, 1.0]), np.array([0.1, 0.2]), np.array([0.3, 0.9]))
    assert curves.high == 0.9
    assert curves.best(1.0) == 0.2


def test_names_its_protocols_and_prints():
    expected = {
        "insertion_auc": 0.575, "deletion_auc": 0.375, "at@30": 0.32, "at@50": 0.8, "high": 0.9,
        "best@30": 0.2, "best@50": 0.8,
    }  # fmt: skip
    assert EXAMPLE.summary() == pytest.approx(expected)
    again = Curves.from_dict(json.loads(json.dumps(EXAMPLE.as_dict())))
    assert again.as_dict() == EXAMPLE.as_dict()
    assert "insertion AUC 0.575, deletion AUC 0.375, at@30 0.320, at@50 0.800, highest 0.900" in str(EXAMPLE)
    with pytest.raises(WhymaskError, match="the same length"):
        Curves(np.ones(2), np.ones(3), np.ones(2))


def test_curves_are_themselves():
    """They hold arrays, which have no truth value: curves are compared by identity, and may be keys."""
    again = Curves.from_dict(EXAMPLE.as_dict())
    assert again != EXAMPLE
    assert len({EXAMPLE, EXAMPLE, again}) == 2
    with pytest.raises(AttributeError):
        EXAMPLE.forwards = 3
