import numpy as np

import whymask
from whymask.baselines.hsic import dependence

from models.tiny import lit, quadrants


def direct(kept, scores):
    """trace(K H L H) / B with both Gram matrices written out."""
    count = len(scores)
    centre = np.eye(count) - 1 / count
    gram = np.exp(-((scores[:, None] - scores[None]) ** 2) / (2 * np.median(scores) ** 2))
    values = []
    for x in kept.T.astype(float):
        kernel = 0.5 - (x[:, None] - x[None]) ** 2
        values.append(np.trace(kernel @ centre @ gram @ centre) / count)
    return np.array(values)


def test_the_estimator():
    rng = np.random.default_rng(0)
    kept = rng.random((60, 5)) < 0.5
    scores = 0.2 + 0.6 * kept[:, 3] + 0.1 * rng.random(60)
    found = dependence(kept, scores)
    np.testing.assert_allclose(found, direct(kept, scores), atol=1e-12)
    assert found.argmax() == 3


def test_scores_that_are_mostly_zero():
    kept = np.random.default_rng(0).random((50, 4)) < 0.5
    scores = np.where(kept[:, 1] & kept[:, 2], 0.5, 0.0)
    assert set(np.argsort(-dependence(kept, scores))[:2]) == {1, 2}


def test_a_bright_quadrant_comes_first():
    options = {"method": "hsic", "regions": "grid:2x2", "params": {"designs": 100, "grid": 4}}
    result = whymask.explain(lit(1), quadrants(), **options)
    assert result.top(1) == (1,)
    assert result.ledger.mec == 100
    assert result.map.shape == (32, 32)
    assert whymask.explain(lit(1), quadrants(), budget=60, **options).ledger.mec == 60


def test_hard_masks_equal_sets():
    """A mask of 0 and 1 shows the same bits as the set of regions it is made of."""
    from whymask.explainer.case import Case

    case = Case.of(lit(3), quadrants(), regions="grid:4x4", fill="blur")
    rows = np.random.default_rng(0).random((5, 16)) < 0.5
    masks = rows.astype(np.float32)[:, case.partition.labels]
    assert (case.inputs(rows) == case.inputs(masks)).all()
