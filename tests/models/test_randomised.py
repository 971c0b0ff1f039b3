import numpy as np
import pytest
import torch

import whymask
from whymask.models.randomised import cascade, shuffled_layers, weights_of


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 6, 5, 4), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Conv2d(6, 8, 3, 2)]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5)).eval()


@pytest.fixture
def model():
    return whymask.wrap(network(), size=32, labels=list("abcde"))


def changed(module):
    """The layers whose weights are not those of the network that was made."""
    before = dict(network().named_parameters())
    names = [name for name, values in module.named_parameters() if not torch.equal(values, before[name])]
    return {name.partition(".")[0] for name in names}


def test_layers_are_shuffled_from_the_output_down(model):
    steps = [(layers, of, changed(other.module)) for layers, of, other in cascade(model)]
    assert [step[:2] for step in steps] == [(1, 4), (3, 4), (4, 4)]
    # The scales of a normalisation that was never trained are all 1: shuffling leaves them as they are.
    assert [step[2] for step in steps] == [{"6"}, {"3", "6"}, {"0", "3", "6"}]
    assert changed(model.module) == set()


def test_the_values_of_every_weight_are_kept(model):
    *_, (_, _, last) = cascade(model)
    for (name, before), after in zip(network().named_parameters(), last.module.parameters(), strict=True):
        assert sorted(before.flatten().tolist()) == sorted(after.flatten().tolist()), name


def test_the_shuffled_model_answers_otherwise_and_says_so(model):
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    bound = model.bind(picture, target=0)
    before = model.respond(bound.inputs[None], [bound]).score
    for _, _, other in cascade(model):
        assert other.respond(bound.inputs[None], [bound]).score != before
        assert other.fingerprint != model.fingerprint
        assert other.labels == model.labels
    assert model.respond(bound.inputs[None], [bound]).score == before


def test_the_same_seed_shuffles_in_the_same_way(model):
    first, same, other = ([one.fingerprint for *_, one in cascade(model, seed=seed)] for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_which_models_have_weights_that_can_be_reached(model):
    assert weights_of(model) is model
    assert weights_of(whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)) is None
    assert len(shuffled_layers(torch.nn.Linear(1, 1))) == 0  # two single numbers: nothing to permute


def test_a_model_on_onnxruntime_is_shuffled_as_the_module_it_was_made_from():
    model = whymask.load("efficientnet-lite0")
    assert weights_of(model) is model.source
