import numpy as np
import pytest
import torch

from whymask import WhymaskError
from whymask.interop.captum import EvidenceAttribution
from whymask.interop.quantus import explain_func

from models.tiny import Quadrants, lit

QUARTERS = np.arange(4).reshape(2, 2).repeat(16, 0).repeat(16, 1)  # (32, 32)


def batch(*quadrants):
    """Images (N, 3, 32, 32) in [0, 1], each with one bright quadrant."""
    return np.stack([lit(quadrant) for quadrant in quadrants]).transpose(0, 3, 1, 2) / 255


def quadrants(*numbers):
    """(N, 1, 32, 32) 1 on one quadrant of each."""
    return np.stack([(number == QUARTERS)[None] for number in numbers])


def test_called_as_quantus_calls_it():
    kwargs = {"k": 1, "feature_mask": QUARTERS, "device": "cpu"}
    attributions = explain_func(model=Quadrants(), inputs=batch(0, 1, 2), targets=np.array([0, 3, 2]), **kwargs)
    assert isinstance(attributions, np.ndarray)
    assert attributions.dtype == np.float32
    np.testing.assert_array_equal(attributions, quadrants(0, 3, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("convert", [np.float32, torch.tensor])
def test_inputs_get_the_type_of_the_model(dtype, convert):
    model, seen = Quadrants().to(dtype), set()
    model.register_forward_pre_hook(lambda _, inputs: seen.add(inputs[0].dtype))
    attributions = explain_func(model, convert(batch(1, 2)), None, k=1, feature_mask=QUARTERS)
    np.testing.assert_array_equal(attributions, quadrants(1, 2))
    assert seen == {dtype}


def test_arrays_torch_cannot_share():
    inputs = batch(0, 1)
    inputs.flags.writeable = False
    attributions = explain_func(Quadrants(), inputs[..., ::-1], 1, k=1, feature_mask=QUARTERS[:, ::-1])
    np.testing.assert_array_equal(attributions, quadrants(1, 1))


def test_options_reach_the_search():
    inputs = batch(0, 3)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 5), torch.nn.Softmax(dim=-1))
    options = {"k": 3, "activation": "none", "seed": 7}
    attributions = explain_func(model, inputs, [4, 1], method="trace+order", baselines=0.5, **options)
    finder = EvidenceAttribution(model, "trace+order", **options)
    expected = finder.attribute(torch.tensor(inputs).float(), 0.5, [4, 1])
    np.testing.assert_array_equal(attributions, expected[:, :1])


def test_a_pixel_has_the_rank_of_its_most_important_channel():
    class Channels(torch.nn.Module):  # without parameters
        def forward(self, images):
            return 6 * images.mean(dim=(2, 3))

    mask = np.where(np.arange(32) < 16, np.arange(3)[:, None, None], 3).repeat(32, axis=1)  # (3, 32, 32)
    attributions = explain_func(Channels(), batch(0), 1, method="greedy", feature_mask=mask)
    np.testing.assert_array_equal(attributions[0, 0, :, :16], np.ones((32, 16)))
    assert attributions.max() == 1
    assert len(np.unique(attributions[0, 0, :, 16:])) == 1
    assert attributions[0, 0, 0, 31] < 1


def test_errors_are_sentences():
    with pytest.raises(WhymaskError, match="did you mean 'trace'"):
        explain_func(Quadrants(), batch(0), 0, method="trase")
    with pytest.raises(WhymaskError, match="outside the model's classes"):
        explain_func(Quadrants(), batch(0), np.array([9]))
