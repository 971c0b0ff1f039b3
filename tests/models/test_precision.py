import pytest
import torch
from torch import nn

import whymask
from whymask.errors import WhymaskError
from whymask.models.precision import converted

CPU = torch.device("cpu")


def normed(variance: float) -> nn.Sequential:
    """A convolution of 0 ... 255 whose outputs have this variance, normalised, and a head of two classes."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4, eps=1e-3)
    norm.running_var.fill_(variance)
    norm.weight.data.fill_(variance**0.5 / 50)
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("variance", [1.0, 83_614.0])
def test_batch_statistics_beyond_fp16_do_not_silence_a_channel(dtype, variance):
    """Half precision rounds weights and activations, nothing else; an infinite variance would move scores to 0.5."""
    image = torch.randint(0, 256, (32, 32, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8).numpy()
    settings = {"size": 32, "mean": [0.0] * 3, "std": [1.0] * 3, "crop": 1.0, "labels": ["a", "b"]}
    scores, logits = [], []
    for precision in ("fp32", dtype):
        model = whymask.wrap(normed(variance), dtype=precision, **settings)
        bound = model.bind(image, target=0)
        scores.append(float(model.respond(bound.inputs[None], [bound]).score[0]))
        logits.append(model.logits(bound.inputs[None]).float())
    assert abs(scores[0] - 0.5) > 0.05
    # The convolution sums 28 rounded products and three more layers round once each; a score moves by a quarter of the
    # difference of its logits at most.
    tolerance = (28 + 3) * torch.finfo(torch.float16 if dtype == "fp16" else torch.bfloat16).eps * logits[0].abs().max()
    assert abs(scores[0] - scores[1]) <= float(tolerance) / 2


def test_the_rest_of_the_module_is_in_half_precision():
    module = converted(normed(1.0), "net", CPU, torch.float16)
    kinds = {type(part): {tensor.dtype for tensor in part.parameters()} for part in module if [*part.parameters()]}
    assert kinds == {nn.Conv2d: {torch.float16}, nn.BatchNorm2d: {torch.float32}, nn.Linear: {torch.float16}}
    assert not module.training
    assert not any(tensor.requires_grad for tensor in module.parameters())


def test_settings_tell_records_with_exact_norms_from_others():
    """Scores with norms in half precision are other scores, and no key of a record may hold for both."""
    settings = {"size": 32, "labels": ["a", "b"]}
    assert "norms" not in whymask.wrap(normed(1.0), **settings).settings
    assert whymask.wrap(normed(1.0), dtype="fp16", **settings).settings["norms"] == "fp32"
    halved = whymask.wrap(normed(1.0).half(), **settings)  # runs as it is
    assert halved.settings["dtype"] == "fp16"
    assert "norms" not in halved.settings
    plain = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
    assert "norms" not in whymask.wrap(plain, dtype="bf16", **settings).settings


def test_double_precision_converts_everything():
    model = whymask.wrap(normed(1.0), dtype="fp64", size=32, labels=["a", "b"])
    assert {tensor.dtype for tensor in model.module.parameters()} == {torch.float64}
    bound = model.bind(torch.zeros(32, 32, 3, dtype=torch.uint8).numpy(), target=0)
    assert torch.isfinite(model.logits(bound.inputs[None])).all()


def test_norms_keep_every_bit():
    module = normed(83_614.0)
    module[1].running_mean.uniform_()
    before = {name: tensor.clone() for name, tensor in module[1].state_dict().items()}
    after = converted(module, "net", CPU, torch.bfloat16)[1].state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_beyond_the_range_are_an_error_that_names_them(dtype):
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    module[1].weight.data[0, 0] = 1e5
    if dtype == torch.bfloat16:
        assert torch.isfinite(converted(module, "net", CPU, dtype)[1].weight).all()
    else:
        with pytest.raises(WhymaskError, match=r"net has weights beyond the range of float16 \(Linear.weight\): pass "):
            converted(module, "net", CPU, dtype)


def test_infinite_weights_of_the_module_itself_are_left_alone():
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    module.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    assert torch.isinf(converted(module, "net", CPU, torch.float16).mask[1])
