import weakref
from copy import deepcopy

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.baselines.backward import saving
from whymask.methods import Recipe, run
from whymask.models import MODELS
from whymask.results.ordering import Ordering

from baselines.plain import every_pixel
from models.tiny import lit
from search.functions import METHODS

BACKWARD = [name for name, method in METHODS.items() if method.needs == "gradients"]


class Deep(torch.nn.Module):
    def __init__(self, depth=8):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 8, 3, padding=1)
        block = [
            torch.nn.Conv2d(8, 8, 3, padding=1),
            torch.nn.Tanh(),
            torch.nn.Conv2d(8, 8, 3, padding=1),
            torch.nn.Tanh(),
        ]
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(*block) for _ in range(depth))
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x.mean(dim=(2, 3)))


def kept_bytes(run):
    """What autograd keeps for the way back."""
    total = 0

    def keep(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = run()
    return total, result


def test_memory_saving_keeps_less_and_changes_nothing():
    torch.manual_seed(0)
    case = every_pixel(lit(1, size=16), whymask.wrap(Deep(), size=16, crop=1.0))
    plain, first = kept_bytes(lambda: case.search(Recipe("grad-cam"))[0])
    saved, second = kept_bytes(lambda: case.search(Recipe("grad-cam", {"memory_saving": True}))[0])
    assert saved < plain / 2
    np.testing.assert_allclose(second.map, first.map, rtol=1e-5)


def test_grad_cam_holds_on_to_one_output(monkeypatch):
    """A list of all outputs would be what saving memory is there to avoid."""
    net, outputs, alive = Deep(), [], []
    for block in net.blocks:
        block.register_forward_hook(lambda part, inputs, output: outputs.append(weakref.ref(output)))
    grad = torch.autograd.grad

    def counted(*args, **kwargs):
        alive.append(sum(output() is not None for output in outputs))
        return grad(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "grad", counted)
    every_pixel(lit(1, size=16), whymask.wrap(net, size=16, crop=1.0)).search(
        Recipe("grad-cam", {"memory_saving": True})
    )
    assert len(outputs) >= 2 * len(net.blocks)
    assert alive == [1]


def test_saving_leaves_no_trace():
    net = Deep()
    own = {"forward": lambda x: x}
    vars(net.blocks[1]).update(own)
    with saving(net):
        assert all("forward" in vars(block) for block in net.blocks)
    assert [name for name, part in net.named_modules() if "forward" in vars(part)] == ["blocks.1"]
    assert vars(net.blocks[1])["forward"] is own["forward"]


@pytest.mark.parametrize("name", BACKWARD)
def test_a_model_that_only_runs_forward_is_refused_in_a_sentence(name):
    bright = whymask.wrap(lambda images: images.mean(axis=(1, 2, 3)) / 255)
    with pytest.raises(WhymaskError, match=r"needs gradients, but function does not provide them: .* 'trace'"):
        whymask.explain(lit(1), bright, method=name, regions="grid:4x4")


@pytest.mark.parametrize("name", BACKWARD)
def test_set_functions_have_no_gradients(name):
    with pytest.raises(WhymaskError, match="not a set function"):
        run(name, lambda rows: rows.mean(axis=1), 16)


@pytest.mark.parametrize("name", BACKWARD)
def test_every_backward_method_can_save_memory(name):
    assert METHODS[name].parameters["memory_saving"] is False


@pytest.mark.parametrize("name", ["gradient", "integrated-gradients", "ig2", "igos++", "grad-cam", "asn", "rise"])
def test_half_precision(name):
    if "gradient" in name:
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    torch.manual_seed(0)
    model = whymask.wrap(Deep(2), size=16, dtype="bf16")
    quick = {"steps": 2, "iterations": 1, "ig_steps": 2, "masks": 10, "k": 2}
    params = {key: value for key, value in quick.items() if key in METHODS[name].parameters}
    assert whymask.explain(lit(1, size=16), model, method=name, regions="grid:2x2", params=params).n == 4


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["ig2", "igos++", "grad-cam"])
def test_gradients_of_half_precision_are_those_of_the_rounded_weights(name, dtype):
    """Steps of IG2 and gradients of a confident answer are too small for half precision."""
    torch.manual_seed(0)
    half = whymask.wrap(Deep(2), size=16, dtype=dtype)
    full = whymask.wrap(deepcopy(half.module).float(), size=16)
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    quick = {"iterations": 2, "ig_steps": 2}
    params = {key: value for key, value in quick.items() if key in METHODS[name].parameters}
    first, second = (every_pixel(noise, model).search(Recipe(name, params))[0].order for model in (half, full))
    np.testing.assert_array_equal(first, second)


def test_out_of_memory_is_a_sentence():
    class Hungry(torch.nn.Module):
        def forward(self, x):
            if x.requires_grad:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return x.mean(dim=(2, 3))

    model = whymask.wrap(Hungry(), size=16)
    with pytest.raises(WhymaskError, match="memory_saving"):
        whymask.explain(lit(1, size=16), model, method="igos++", regions="grid:2x2")
    params = {"memory_saving": True}
    with pytest.raises(WhymaskError, match="method without gradients"):
        whymask.explain(lit(1, size=16), model, method="igos++", regions="grid:2x2", params=params)


@pytest.mark.parametrize("name", ["gradient", "integrated-gradients", "ig2", "igos++", "grad-cam", "occlusion"])
def test_a_map_that_tells_nothing_is_told(name, tmp_path):
    if "gradient" in name:
        pytest.importorskip("captum", reason="captum is not installed: whymask[gradients]")
    net = Deep(2)
    torch.nn.init.zeros_(net.head.weight)
    model = whymask.wrap(net, size=16)
    result = whymask.explain(lit(1, size=16), model, method=name, regions="grid:2x2", target=0)
    assert result.flat
    assert result.as_dict()["flat"]
    assert "map is constant: it does not rank the 4 regions." in str(result)
    assert Ordering.load(result.save(tmp_path / "flat")).flat


@pytest.mark.skipif(not MODELS["efficientnet-lite0"].installed, reason="the weights are not installed: whymask[lite]")
def test_the_default_model_goes_backward_on_its_torch_module():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
    from skimage.data import data_dir

    photo = f"{data_dir}/coffee.png"
    results = [
        whymask.explain(photo, whymask.load("efficientnet-lite0", runtime=runtime), method="grad-cam", params=params)
        for runtime, params in (("onnx", {}), ("torch", {"memory_saving": True}))
    ]
    np.testing.assert_allclose(results[0].map, results[1].map, atol=1e-4 * results[0].map.max())
    assert results[0].ledger.mec == 0
