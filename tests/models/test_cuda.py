"""What only a GPU can show."""

import numpy as np
import pytest
import torch

import whymask
from whymask.explainer.case import Case
from whymask.methods import Recipe

from models.tiny import lit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def deep():
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1)]
    for _ in range(6):
        layers += [torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(32, 4))


def test_recorded_batches_equal_plain_ones():
    model = whymask.wrap(deep(), size=32, device="cuda")
    case = Case.of(lit(0), model, regions="grid:4x4", target=0)
    rows = np.random.default_rng(0).random((40, 16)) < 0.5
    plain = model.respond(case.inputs(rows), [case.bound] * 40).score
    for _ in range(4):
        np.testing.assert_array_equal(model.respond(case.inputs(rows), [case.bound] * 40).score, plain)
    assert model.replays.recorded
    other = ~rows
    again = model.respond(case.inputs(other), [case.bound] * 40).score
    eager = model.module(torch.cat([case.inputs(other), case.inputs(other)[-1:].expand(8, -1, -1, -1)])
                         .contiguous(memory_format=torch.channels_last))[:40].softmax(dim=1)[:, 0]  # fmt: skip
    np.testing.assert_allclose(again, eager.cpu().numpy(), atol=1e-6)


def test_small_batches_of_a_transformer_are_replayed():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    patches = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 8, 8), torch.nn.Flatten(2), Transpose())
    module = torch.nn.Sequential(patches, torch.nn.TransformerEncoder(layer, 2), Mean(), torch.nn.Linear(16, 4))
    model = whymask.wrap(module, size=32, device="cuda")
    case = Case.of(lit(0), model, regions="grid:4x4", target=0)
    rows = np.random.default_rng(0).random((70, 16)) < 0.5
    for count, batch in [(5, [0, 1, 2, 3, 4, 4, 4, 4])] * 4 + [(64, range(64)), (70, range(70))]:
        with torch.inference_mode():  # the same kernels: others round differently, by 1e-4 in TF32
            eager = model.module(case.inputs(rows[batch])).softmax(dim=1)[:count, 0].cpu().numpy()
        found = model.respond(case.inputs(rows[:count]), [case.bound] * count).score
        np.testing.assert_allclose(found, eager, atol=1e-6)
    assert list(model.replays.recorded) == [(8, 3, 32, 32)]


class Transpose(torch.nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Mean(torch.nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def test_a_module_that_looks_at_its_values_runs_as_it_is():
    class Looks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = deep()

        def forward(self, x):
            return self.inner(x) * (1 if x.sum().item() > -1e9 else 2)

    model = whymask.wrap(Looks(), size=32, device="cuda")
    found = whymask.explain(lit(0), model, regions="grid:4x4", method="greedy", target=0)
    assert not model.replays.recordable
    assert sorted(found.order) == list(range(16))


def test_a_module_on_the_gpu_is_explained_there_with_the_weights_it_has():
    net = deep().cuda()
    model = whymask.wrap(net, size=32)
    assert model.module is whymask.wrap(net, size=32, device="cuda").module is net
    assert model.settings["device"] == "cuda:0"
    case = Case.of(lit(0), model, regions="grid:4x4", target=0)
    rows = np.random.default_rng(0).random((40, 16)) < 0.5
    for _ in range(4):
        before = model.respond(case.inputs(rows), [case.bound] * 40).score
    net[-1] = torch.nn.Linear(32, 4).cuda()
    assert not np.allclose(model.respond(case.inputs(rows), [case.bound] * 40).score, before)
    assert net.training
    assert {parameter.device.type for parameter in net.parameters()} == {"cuda"}


@pytest.mark.filterwarnings("default")  # torch's compiler warns of its own parts
def test_cpu_and_gpu_agree():
    orders = []
    for options in ({"device": "cpu"}, {"device": "cuda"}, {"device": "cuda", "compile": True}):
        case = Case.of(lit(0), whymask.wrap(deep(), size=32, **options), regions="grid:4x4", target=0)
        rows = np.random.default_rng(1).random((30, 16)) < 0.5
        orders.append(case.model.respond(case.inputs(rows), [case.bound] * 30).score)
        case.search(Recipe("greedy"))
    np.testing.assert_allclose(orders[1:], [orders[0]] * 2, atol=1e-3)  # TF32 convolutions


@pytest.mark.filterwarnings("default")  # an exception while compiling would be taken for a failure to compile
@pytest.mark.parametrize("family", ["qwen", "llava"])
def test_multimodal_models_agree_with_the_cpu(family, tmp_path):
    tiny_mllm = pytest.importorskip("models.tiny_mllm", reason="transformers is not installed: whymask[hf]")
    folder = str(tiny_mllm.save(getattr(tiny_mllm, family)(), tmp_path))
    rows = np.random.default_rng(1).random((6, 16)) < 0.5
    scores = {}
    for device, dtype, compiled in [("cpu", "fp32", False), ("cuda", "fp32", False), ("cuda", "fp32", True),
                                    ("cuda", None, False)]:  # fmt: skip
        model = whymask.load(folder, device=device, dtype=dtype, compile=compiled)
        case = Case.of(lit(0, 64), model, target="Yes", question="is there a dog ?", regions="grid:4x4")
        scores[device, dtype, compiled] = model.respond(case.inputs(rows), [case.bound] * 6).score
        assert model.settings["compiled"] == ("yes" if compiled else "no")
    truth = scores["cpu", "fp32", False]
    np.testing.assert_allclose(scores["cuda", "fp32", False], truth, atol=1e-3)
    np.testing.assert_allclose(scores["cuda", "fp32", True], truth, atol=1e-3)
    np.testing.assert_allclose(scores["cuda", None, False], truth, atol=0.05)
    found = case.search(Recipe("trace", {"k": 4, "rounds": 1}))[0]
    assert model.settings["dtype"] == {"qwen": "bf16", "llava": "fp16"}[family]
    assert found.provenance["peak_memory"] > 0


def test_a_forward_is_launched_without_waiting_and_equals_one_that_is_waited_for():
    model = whymask.wrap(Slow(), size=32, device="cuda")
    case = Case.of(lit(0), model, regions="grid:4x4", target=0)
    rows = np.random.default_rng(0).random((3, 40, 16)) < 0.5
    alone = [model.respond(case.inputs(some), [case.bound] * 40).score for some in rows]
    torch.cuda.synchronize()
    launched = [model.respond(case.inputs(some), [case.bound] * 40) for some in rows]
    assert not torch.cuda.current_stream().query()  # the device is still at work
    for response, expected in zip(launched, alone, strict=True):
        np.testing.assert_array_equal(response.score, expected)
        assert response.arrived[1] > 0


class Slow(torch.nn.Module):
    """Takes the device far longer than launching it takes the host."""

    def __init__(self):
        super().__init__()
        self.inner = deep()

    def forward(self, x):
        torch.cuda._sleep(100_000_000)  # cycles, some 50 ms
        return self.inner(x)


def test_searches_together_equal_each_alone():
    model = whymask.wrap(deep(), size=32, device="cuda")
    images = [np.roll(lit(q % 4), shift, axis=0) for shift, q in enumerate(range(6))]
    options = {"regions": "grid:4x4", "method": "trace", "targets": [0] * 6, "k": 4}
    many = dict(whymask.explain_many(images, model, **options))
    assert sorted(many) == list(range(6))
    for result in many.values():
        assert result.complete
        assert len(result.regions) == 4
