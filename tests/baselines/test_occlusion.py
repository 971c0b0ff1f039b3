import numpy as np
import pytest
import torch

from whymask.methods import run

from search.functions import modular, tangled


def test_modular_values():
    respond, weights = modular(9)
    result = run("occlusion", respond, 9)
    np.testing.assert_array_equal(result.order, np.argsort(-weights))
    assert result.ledger.mec == 10


def test_agrees_with_captum():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed: whymask[gradients]")
    respond = tangled(12)
    ablation = captum.FeatureAblation(lambda rows: torch.from_numpy(respond(rows.bool().numpy())))
    values = ablation.attribute(torch.ones(1, 12))[0].numpy()
    np.testing.assert_array_equal(run("occlusion", respond, 12).order, np.argsort(-values))
