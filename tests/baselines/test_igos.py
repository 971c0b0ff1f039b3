import numpy as np
import torch

import whymask
from whymask.baselines.igos import Bilateral

from baselines.plain import every_pixel, planted

QUICK = {"iterations": 6, "ig_steps": 5, "size": 8}


def objective(**weights):
    model, image = planted()
    case = every_pixel(image, model, target=1)
    options = {"ig_steps": 5, "area_weight": 1.0, "smooth_weight": 1.0} | weights
    return Bilateral(case.differentiable(), **options)


def test_the_objective_falls_with_every_step():
    mask = objective()
    rng = np.random.default_rng(0)
    masks = torch.ones(2, 8, 8)
    values = []
    for _ in range(5):
        mask.redraw(rng)
        before = mask.value(masks)
        masks = mask.step(masks)
        values.append((before, mask.value(masks)))
        assert 0 <= masks.min() <= masks.max() <= 1
    assert all(after <= before for before, after in values)
    assert values[0][1] < values[0][0] - 0.01


def test_deletion_and_insertion_pull_apart():
    """Full masks: deletion sees the way to the image, insertion the way back to the blurred one."""
    mask = objective(area_weight=0.0, smooth_weight=0.0)
    with torch.no_grad():
        deletion, insertion, both_deletion, both_insertion, rest = (float(t) for t in mask.terms(torch.ones(2, 8, 8)))
        score = mask.image.score
        shares = torch.arange(1, 6) / 5
        way = torch.stack([torch.lerp(mask.blurred, mask.image.inputs, share) for share in shares])
        back = torch.stack([torch.lerp(mask.image.inputs, mask.blurred, share) for share in shares])
        assert np.isclose(deletion, float(score(way).mean()) / 2, atol=1e-6)
        assert np.isclose(insertion, -float(score(back).mean()) / 2, atol=1e-6)
    assert (both_deletion, both_insertion, rest) == (deletion, insertion, 0.0)
    assert deletion != -insertion


def test_the_regularisation():
    mask = objective(area_weight=3.0, smooth_weight=0.0)
    half = torch.full((8, 8), 0.5)
    assert np.isclose(float(mask.regularisation(half, torch.full((32, 32), 0.5))), 1.5)
    mask = objective(area_weight=0.0, smooth_weight=2.0)
    assert float(mask.regularisation(half, torch.full((32, 32), 0.5))) == 0
    rough = torch.eye(8)
    assert float(mask.regularisation(rough, torch.zeros(32, 32))) > 0.3


def test_a_planted_patch_comes_first():
    model, image = planted()
    result = whymask.explain(
        image, model, method="igos++", target=1, regions="grid:4x4", params=QUICK | {"area_weight": 1.0}
    )
    assert result.top(1) == (6,)
    assert result.ledger.mec == 0
    again = whymask.explain(
        image, model, method="igos++", target=1, regions="grid:4x4", params=QUICK | {"area_weight": 1.0}
    )
    np.testing.assert_array_equal(again.map, result.map)  # its noise comes from the seed
