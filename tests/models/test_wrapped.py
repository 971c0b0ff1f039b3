"""A module that the caller wraps is still the caller's: explaining it changes nothing about it."""

import copy
import warnings
from functools import partial

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.methods import Recipe

from models.tiny import lit

FEW = {"steps": 2, "iterations": 1, "ig_steps": 2, "masks": 10, "k": 2, "rounds": 2}
METHODS_TRIED = ["trace", "greedy", "grad-cam", "gradient", "igos++", "asn"]


class Keeps(torch.nn.Module):
    """A part that keeps what it computed in its first forward."""

    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.linspace(0, 1, x.shape[-1], dtype=x.dtype) * x.mean()
        return x * self.table


def network():
    """In the middle of training: some parts in evaluation mode, some parameters frozen, gradients there already."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)),
        torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 3),
    )  # fmt: skip
    net.train()
    net[1].eval()
    net[0].bias.requires_grad_(False)
    net(torch.rand(4, 3, 16, 16)).sum().backward()
    return net


def state(net):
    """Everything about a module that explaining it could change."""
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {
        "modes": {name: part.training for name, part in net.named_modules()},
        "objects": {name: id(tensor) for name, tensor in tensors.items()},
        "learning": {name: tensor.requires_grad for name, tensor in tensors.items()},
        "kinds": {name: (tensor.dtype, tensor.device, tensor.stride()) for name, tensor in tensors.items()},
        "values": {name: tensor.detach().clone().numpy().tobytes() for name, tensor in tensors.items()},
        "slopes": {name: p.grad is not None and p.grad.numpy().tobytes() for name, p in net.named_parameters()},
        "hooks": {name: len(part._forward_hooks) for name, part in net.named_modules()},
        "own": {name: sorted(vars(part)) for name, part in net.named_modules()},
    }


def explained(net, method="trace", image=None, target=None, **more):
    if method == "gradient":
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    model = whymask.wrap(net, size=16, crop=1.0)
    params = {key: value for key, value in FEW.items() if key in Recipe(method).method.parameters} | more
    image = lit(1, size=16) if image is None else image
    return whymask.explain(image, model, method=method, regions="grid:4x4", target=target, params=params)


@pytest.mark.parametrize(
    ("method", "more"),
    [*((name, {}) for name in METHODS_TRIED), ("grad-cam", {"memory_saving": True}), ("asn", {"memory_saving": True})],
)
def test_is_as_it_was_and_explained_in_evaluation_mode(method, more):
    net, still = network(), network().eval()
    before = state(net)
    found, expected = explained(net, method, **more), explained(still, method, **more)
    assert state(net) == before
    assert found.image.full_score == expected.image.full_score
    if getattr(found, "map", None) is not None:
        np.testing.assert_array_equal(found.map, expected.map)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("method", ["greedy", "grad-cam", "igos++"])
def test_is_as_it_was_after_an_interruption(method, error):
    net = network()
    before = state(net)
    case = Case.of(lit(1, size=16), whymask.wrap(net, size=16), regions="grid:2x2", target=0)
    interrupted = net[4].register_forward_hook(lambda *_: (_ for _ in ()).throw(error("stop")))
    with pytest.raises(error, match="stop"):
        case.search(Recipe(method))
    interrupted.remove()
    assert state(net) == before


def test_training_goes_on_with_what_a_forward_keeps():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), Keeps(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    explained(net)
    net(torch.rand(2, 3, 16, 16)).sum().backward()
    assert net[0].weight.grad is not None


def test_the_weights_it_has_now_are_explained():
    net = network()
    model = whymask.wrap(net, size=16, crop=1.0)
    first = whymask.explain(lit(1, size=16), model, regions="grid:2x2", k=1, target=0)
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    second = whymask.explain(lit(1, size=16), model, regions="grid:2x2", k=1, target=0)
    net[7] = copy.deepcopy(net[7])
    with torch.no_grad():
        net[7].bias[0] += 1
    third = whymask.explain(lit(1, size=16), model, regions="grid:2x2", k=1, target=0)
    results = [first, second, third]
    assert len({result.image.full_score for result in results}) == 3
    assert len({result.provenance["model_fingerprint"] for result in results}) == 3
    fresh = whymask.explain(lit(1, size=16), whymask.wrap(net, size=16, crop=1.0), regions="grid:2x2", k=1, target=0)
    assert (fresh.image.full_score, fresh.provenance["model_fingerprint"]) == (
        third.image.full_score, third.provenance["model_fingerprint"]
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_runs_in_its_own_precision(dtype):
    net = network().to(dtype)
    before = [parameter.dtype for parameter in net.parameters()]
    result = explained(net)
    assert result.provenance["dtype"] == {torch.float64: "fp64", torch.bfloat16: "bf16"}[dtype]
    assert [parameter.dtype for parameter in net.parameters()] == before


def test_another_precision_is_a_copy():
    net = network()
    before = state(net)
    model = whymask.wrap(net, size=16, dtype="bf16")
    assert (model.settings["dtype"], next(model.module.parameters()).dtype) == ("bf16", torch.bfloat16)
    assert model.fingerprint == whymask.wrap(net, size=16).fingerprint
    whymask.explain(lit(1, size=16), model, method="grad-cam", regions="grid:2x2")
    assert state(net) == before


def test_a_compiled_module_runs_forward_and_is_a_copy(monkeypatch):
    ran = []

    def compiled(module):
        return lambda inputs: ran.append(len(inputs)) or module(inputs)

    monkeypatch.setattr(torch, "compile", compiled)
    net = network()
    before = state(net)
    model, plain = whymask.wrap(net, size=16, compile=True), whymask.wrap(net, size=16)
    assert model.settings == {**plain.settings, "compiled": "yes"}
    ran.clear()
    inputs = torch.rand(3, 3, 16, 16)
    torch.testing.assert_close(model.logits(inputs), plain.logits(inputs))
    assert ran == [3]
    model.differentiable(Case.of(lit(1, size=16), plain, regions="grid:2x2").bound).logit(inputs)
    assert ran == [3]  # hooks and gradients need the module as it is
    assert state(net) == before


def test_one_compilation_is_for_all_batch_sizes(monkeypatch):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    model, plain = whymask.wrap(network(), size=16, compile=True), whymask.wrap(network(), size=16)
    model.logits(torch.rand(2, 3, 16, 16))
    before = len(graphs)
    for count in (3, 5, 8):
        inputs = torch.rand(count, 3, 16, 16)
        torch.testing.assert_close(model.logits(inputs), plain.logits(inputs))
    assert len(graphs) == before


def test_a_module_without_tensors():
    class Means(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3))

    assert whymask.wrap(Means(), size=16).settings == {"device": "cpu", "dtype": "fp32"}
    assert whymask.wrap(Means(), size=16, dtype="bf16").settings["dtype"] == "bf16"


def test_gets_images_in_its_own_layout():
    class Views(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Linear(4 * 16 * 16, 3)
            self.layouts = set()

        def forward(self, x):
            self.layouts.add(x.is_contiguous())
            x = self.conv(x)
            return self.head(x.view(len(x), -1) if self.conv.weight.is_contiguous() else x.flatten(1))

    for method in ("greedy", "grad-cam"):
        plain, last = Views(), Views().to(memory_format=torch.channels_last)
        for net in (plain, last):
            explained(net, method)
        assert (plain.layouts, last.layouts) == ({True}, {False})


class Normalises(torch.nn.Module):
    """Normalises its input itself, in place or not."""

    def __init__(self, in_place):
        super().__init__()
        torch.manual_seed(0)
        self.in_place, self.conv = in_place, torch.nn.Conv2d(3, 5, 3)

    def forward(self, x):
        x = x.sub_(0.5).div_(0.25) if self.in_place else x.sub(0.5).div(0.25)
        return self.conv(x).amax(dim=(2, 3))


@pytest.mark.parametrize("method", METHODS_TRIED)
@pytest.mark.parametrize("target", [None, 2])
def test_a_module_may_overwrite_its_input(method, target):
    image = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    found, expected = (explained(Normalises(in_place), method, image, target) for in_place in (True, False))
    assert found.target == expected.target
    assert found.image.full_score == expected.image.full_score
    for name in ("order", "regions"):
        assert getattr(found, name, None) == getattr(expected, name, None)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_scoring_leaves_the_inputs_as_they_are(layout):
    model = whymask.wrap(Normalises(True).to(memory_format=layout), size=32)
    bound = model.bind(lit(1), target=0)
    before = bound.inputs.clone()
    scores = [model.respond(bound.inputs[None], [bound]).score[0] for _ in range(2)]
    image = model.differentiable(bound)
    with torch.no_grad():
        scores += [float(image.score(bound.inputs[None])) for _ in range(2)]
    assert torch.equal(bound.inputs, before)
    assert scores[0] == scores[1]
    assert scores[2] == scores[3] == pytest.approx(scores[0], abs=1e-6)


def test_what_is_no_table_of_logits_is_one_clear_sentence():
    class Returns(torch.nn.Module):
        def __init__(self, made):
            super().__init__()
            self.made = made

        def forward(self, x):
            return self.made(x)

    for made, words in (
        (lambda x: {"out": x}, "not dict"),
        (lambda x: (x, x), "not tuple"),
        (lambda x: x, r"not \(1, 3, 16, 16\)"),
    ):
        with pytest.raises(WhymaskError, match=rf"Returns must return logits \(B, classes\), {words}"):
            whymask.wrap(Returns(made), size=16)


@pytest.mark.parametrize(
    ("mean", "std", "meant"),
    [
        ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375)"),
        ((0.5,) * 3, (0.5,) * 3, "mean=(127.5, 127.5, 127.5), std=(127.5, 127.5, 127.5)"),
        ((0.5,) * 3, (1, 1, 1), "std=(255, 255, 255)"),
        ((0, 0, 0), (0.2, 58, 57), "std=(51,"),
    ],
)
def test_a_mean_and_std_for_values_up_to_one_are_refused(mean, std, meant):
    with pytest.raises(WhymaskError, match=r"pixel values 0 \.\.\. 255, not 0 \.\.\. 1") as error:
        whymask.wrap(network(), size=16, mean=mean, std=std)
    assert meant in str(error.value)


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ((0, 0, 0), (255, 255, 255)),
        ((127.5,) * 3, (127.5,) * 3),
        ((104, 117, 123), (1, 1, 1)),
        (0, 1),
        (0.0, (1.0,) * 3),
    ],
)
def test_a_mean_and_std_for_pixel_values(mean, std):
    assert whymask.wrap(network(), size=16, mean=mean, std=std).labels == ["0", "1", "2"]


def test_a_module_that_cannot_be_copied_is_one_sentence():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 2))
    net[1].kept = net(torch.zeros(1, 3, 8, 8))  # part of a graph
    with pytest.raises(WhymaskError, match=r"Sequential cannot be copied, as another .* convert it before you wrap it"):
        whymask.wrap(net, size=8, dtype="bf16")


def test_a_frozen_script_is_explained():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 2)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and still in use
        script = torch.jit.freeze(torch.jit.script(net))
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    options = {"regions": "grid:2x2", "k": 2, "method": "trace"}
    found, expected = (whymask.explain(image, whymask.wrap(one, size=8), **options) for one in (script, net))
    assert found.score == pytest.approx(expected.score, abs=1e-5)
