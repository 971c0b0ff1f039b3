"""Nothing that moves a score may be missing from a model's fingerprint and settings."""

import copy
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import whymask
from whymask.images.imaging import CentreCrop, Preprocessed, WholeImage
from whymask.models.packages import optional
from whymask.models.torch_module import TorchClassifier

from models.serving import serving
from models.tiny import Quadrants

needs_transformers = pytest.mark.skipif(
    optional("transformers") is None, reason="transformers is not installed: whymask[hf]"
)
needs_httpx = pytest.mark.skipif(optional("httpx") is None, reason="httpx is not installed: whymask[http]")


def identity(model):
    return model.fingerprint, sorted(model.settings.items())


def all_differ(make, *changes, **base):
    """make(**base) is the same model each time, and each change another one."""
    found = [identity(make(**base)), *(identity(make(**{**base, **change})) for change in changes)]
    assert identity(make(**base)) == found[0]
    assert len({str(each) for each in found}) == len(found), found


def net(activation=torch.nn.ReLU, stride=4):
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 8, 4, stride=stride)
    return torch.nn.Sequential(
        convolution, activation(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5)
    )


@pytest.mark.parametrize("dtype", [None, "fp64"])  # live, and a converted copy
def test_a_wrapped_module(dtype):
    all_differ(
        lambda module=net, **options: whymask.wrap(module(), dtype=dtype, **options),
        {"size": 48}, {"mean": (0, 0, 0)}, {"std": (50, 50, 50)}, {"crop": 0.9},
        {"module": lambda: net(torch.nn.GELU)}, {"module": lambda: net(stride=2)},
        size=32, crop=0.875,
    )  # fmt: skip


def test_a_wrapped_module_on_another_device_or_in_another_dtype():
    all_differ(lambda **options: whymask.wrap(net(), size=32, **options), {"dtype": "fp64"}, {"dtype": "bf16"})


def test_heads_are_not_in_the_weights():
    def attention(heads):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(16, heads, 32, batch_first=True)
        return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 8, 8), torch.nn.Flatten(2), torch.nn.Linear(16, 16), layer,
                                   torch.nn.Flatten(), torch.nn.Linear(256, 4))  # fmt: skip

    all_differ(lambda heads: whymask.wrap(attention(heads), size=32), {"heads": 2}, heads=4)


class Sharp(torch.nn.Module):
    """What it does besides its layers and weights is in attributes of a part, and in a buffer that is not saved."""

    def __init__(self, sharp=1.0, window=(2, 2), shift=0.0, activation=torch.relu):
        super().__init__()
        self.sharp, self.window, self.activation = sharp, window, activation
        self.register_buffer("shift", torch.tensor(shift), persistent=False)
        self._calls, self.kept = 0, {}

    def forward(self, x):
        self._calls += 1
        self.kept["shape"] = list(x.shape)
        return self.sharp * self.activation(x + self.shift) / self.window[0]


class Softer(Sharp):
    def forward(self, x):
        return super().forward(x).tanh()


def deep(kind=Sharp, **options):
    return torch.nn.Sequential(net(), torch.nn.Sequential(kind(**options)))


@pytest.mark.parametrize("dtype", [None, "fp64"])
def test_what_is_neither_a_layer_nor_a_weight(dtype):
    all_differ(
        lambda **options: whymask.wrap(deep(**options), size=32, dtype=dtype),
        {"sharp": 9.0}, {"sharp": np.float32(8)}, {"sharp": True}, {"window": (2, 3)}, {"window": [4, 4]},
        {"shift": 5.0}, {"activation": torch.tanh}, {"kind": Softer},
    )  # fmt: skip


def test_the_code_of_a_module_that_is_wrapped(tmp_path):
    """Of two files, since a class is edited between two runs and not in one."""

    def made(code):
        file = tmp_path / f"own{len(list(tmp_path.iterdir()))}.py"
        file.write_text(
            "import torch\n"
            "class Own(torch.nn.Flatten):\n"
            f"    def forward(self, x): return x.mean((2, 3)).{code}()\n"
            "def make():\n"
            "    import whymask\n"
            "    return whymask.wrap(Own(), size=32)\n"
        )
        return whymask.load(f"{file}:make").fingerprint

    first, again, other = (made(code) for code in ("tanh", "tanh", "sigmoid"))
    assert first == again != other


def test_a_module_is_the_same_after_forwards_and_when_loaded_again(tmp_path):
    module = deep(shift=2.0)
    model = whymask.wrap(module, size=32)
    first = model.fingerprint
    whymask.explain(np.zeros((32, 32, 3), dtype=np.uint8), model, regions="grid:2x2", k=1)
    assert module[1][0]._calls > 0
    assert model.fingerprint == first
    torch.save(module, tmp_path / "whole.pt")
    loaded = torch.load(tmp_path / "whole.pt", weights_only=False)
    filled = deep(shift=2.0)
    filled.load_state_dict(module.state_dict())
    made = [whymask.wrap(each, size=32) for each in (module, loaded, filled)]
    made += [whymask.wrap(module, size=32, dtype=dtype) for dtype in ("fp32", "fp64")]
    assert {each.fingerprint for each in made} == {first}


@needs_transformers
def test_a_module_of_transformers_is_the_same_after_forwards():
    from models.test_hf import vit

    torch.manual_seed(0)
    model, processor = vit()
    import transformers

    ours = whymask.wrap(transformers.pipeline("image-classification", model=model, image_processor=processor))
    first = ours.fingerprint
    whymask.explain(np.zeros((64, 64, 3), dtype=np.uint8), ours, regions="grid:2x2", k=1)
    assert ours.fingerprint == first


def test_classes_in_another_order_are_other_weights():
    swapped = net()
    with torch.no_grad():
        swapped[-1].weight[:] = swapped[-1].weight.flip(0)  # the same numbers, and so the same sums
    assert whymask.wrap(swapped, size=32).fingerprint != whymask.wrap(net(), size=32).fingerprint


def test_a_copy_is_the_same_module():
    module = net()
    first = whymask.wrap(module, size=32).fingerprint
    assert whymask.wrap(copy.deepcopy(module), size=32).fingerprint == first
    module.eval()  # as it is explained in any case
    assert whymask.wrap(module, size=32).fingerprint == first


def test_a_function_printed_with_its_address_is_one():
    class Printed(Quadrants):
        def __init__(self):
            super().__init__()
            self.activation = closed(1)

        def extra_repr(self):
            return f"activation={self.activation}"

    made = [TorchClassifier(Printed(), CentreCrop(32), ["a"] * 4, mean=(0,) * 3, std=(1,) * 3, name="p") for _ in "12"]
    assert made[0].fingerprint == made[1].fingerprint


def test_what_a_function_writes_down_is_no_setting():
    """A second run must find what a first one has asked."""
    asked = []

    def watched(images):
        asked.append(len(images))
        return images.mean(axis=(1, 2, 3)) / 255

    first = whymask.wrap(watched).fingerprint
    watched(np.zeros((2, 4, 4, 3)))
    assert whymask.wrap(watched).fingerprint == first
    named = [whymask.wrap(partial(watched_with, levels=levels)).fingerprint for levels in ([1, 2], [1, 3])]
    assert named[0] != named[1]  # arguments are settings


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"task": "detection", "labels": ["cat"]},
        {"task": "segmentation", "labels": ["cat", "dog"]},
        {"task": "recognition", "alphabet": ["-", "a"]},
    ],
    ids=str,
)
def test_a_function_is_the_one_that_was_wrapped(options):
    """An object that counts its calls is the same model after each of them."""

    class Counting:
        calls = 0

        def __call__(self, images):
            return None

    function = Counting()
    model = whymask.wrap(function, **options)
    before = model.fingerprint
    function.calls = 1
    assert model.fingerprint == before


def watched_with(images, levels):
    return images.mean(axis=(1, 2, 3)) / 255 * levels[0]


def test_geometries():
    def library(size, kind):
        """As another library resizes."""
        return Preprocessed([lambda image: image.resize((size, size), kind), lambda image: image.convert("RGB")])

    bicubic, bilinear = Image.Resampling.BICUBIC, Image.Resampling.BILINEAR
    made = [CentreCrop(32), CentreCrop(32, 0.9), CentreCrop(33), WholeImage(), WholeImage(500),
            WholeImage(size=(32, 32)), library(32, bicubic), library(32, bilinear), library(33, bicubic)]  # fmt: skip
    assert len({geometry.fingerprint for geometry in made}) == len(made)
    assert library(32, bicubic).fingerprint == library(32, bicubic).fingerprint


@pytest.mark.parametrize("which", [lambda image: max(image.size) < 224, lambda image: image.width < image.height,
                                   lambda image: image.width > image.height > 224])  # fmt: skip
def test_steps_that_differ_on_some_images_only(which):
    plain = Preprocessed([lambda image: image.resize((32, 32))])
    turned = Preprocessed([lambda image: (image.rotate(180) if which(image) else image).resize((32, 32))])
    assert plain.fingerprint != turned.fingerprint


def test_a_geometry_is_told_by_plain_values_only():
    """Whatever else it has would be printed with its address, which is another in each process."""

    @dataclass(frozen=True)
    class Own(CentreCrop):
        step: Any = None

    assert Own(np.int64(32), step=CentreCrop(8)).fingerprint == Own(32, step=CentreCrop(8)).fingerprint
    assert Own(32, step=CentreCrop(8)).fingerprint != Own(32, step=CentreCrop(9)).fingerprint
    with pytest.raises(TypeError, match="function"):
        _ = Own(32, step=bright).fingerprint


def bright(images, threshold=0.5, *, power=1):
    return (images.mean(axis=(1, 2, 3)) / 255 > threshold) ** power


class Bright:
    def __init__(self, threshold):
        self.threshold = threshold

    def __call__(self, images):
        return bright(images, self.threshold)

    score = __call__


def closed(threshold):
    return lambda images: bright(images, threshold)


def test_a_function():
    all_differ(
        lambda function=bright, **options: whymask.wrap(function, **options),
        {"size": 32}, {"size": (32, 48)},
        {"function": partial(bright, threshold=0.4)}, {"function": partial(bright, threshold=0.3)},
        {"function": partial(partial(bright, power=2), threshold=0.3)},
        {"function": closed(0.4)}, {"function": closed(0.3)},
        {"function": Bright(0.4)}, {"function": Bright(0.3)},
        {"function": Bright(0.4).score}, {"function": Bright(0.3).score},
        {"function": closed((0.4, 0.3))}, {"function": closed((0.3, 0.4))}, {"function": closed([[0.4], {"a": 1}])},
        {"function": closed(np.float32(0.6))}, {"function": closed(np.int64(2))}, {"function": closed(np.bool_(1))},
        {"function": lambda images: bright(images)},
        {"function": lambda images: 1 - bright(images)},
    )  # fmt: skip


def test_a_function_whose_variables_are_not_there_yet():
    def count(images):
        return later(images)

    whymask.wrap(count)
    later = len
    assert later


def test_an_onnx_file(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: whymask[onnx]")
    pytest.importorskip("onnx", reason="onnx is not installed")
    from models.test_onnx import quadrant_file

    plain, other = quadrant_file(tmp_path / "q.onnx"), quadrant_file(tmp_path / "p.onnx", softmax=True)
    all_differ(
        lambda file=plain, **options: whymask.load(file, **options),
        {"mean": (1, 0, 0)}, {"std": (255, 255, 254)}, {"crop": 0.9}, {"activation": "none"}, {"file": other},
        size=32, mean=(0, 0, 0), std=(255, 255, 255),
    )  # fmt: skip
    # A file has one layout and one size: those of others are of other files, but the options alone say it too.
    turned = quadrant_file(tmp_path / "n.onnx", layout="NHWC")
    options = {"size": 32, "mean": (0, 0, 0), "std": (255, 255, 255)}
    found = whymask.load(turned, layout="NHWC", **options).fingerprint
    assert found.split()[1] != whymask.load(plain, **options).fingerprint.split()[1]


@needs_httpx
def test_servers():
    from whymask.models.http import HttpModel
    from whymask.models.openai_chat import OpenAIChatModel

    all_differ(
        HttpModel, {"max_side": 99}, {"url": "http://127.0.0.1:9/w"}, {"headers": {"X-Model": "a"}},
        {"headers": {"X-Model": "b"}}, url="http://127.0.0.1:9/v",
    )  # fmt: skip
    url = "http://127.0.0.1:9/v"
    asked = [HttpModel(url, headers={"Authorization": key, "Cookie": key}).fingerprint for key in ("one", "two")]
    assert asked == [HttpModel(url).fingerprint] * 2  # who asks does not move a score
    tokens = {"choices": [{"logprobs": {"content": [{"top_logprobs": [{"token": "Yes", "logprob": -0.1}]}]}}]}
    with serving(lambda body: tokens) as server:
        all_differ(
            OpenAIChatModel, {"max_side": 99}, {"floor": 0.1}, {"floor": 0.0}, {"model": "b"}, {"system": "Be brief."},
            {"seed": 1}, {"max_pixels": 99}, {"image_format": "jpeg"}, model="a", base_url=server.url, api_key="",
        )  # fmt: skip
        found = [OpenAIChatModel("a", base_url=server.url, image_format=form).fingerprint for form in ("png", "webp")]
        assert found[0] == found[1]  # neither changes a pixel


@needs_transformers
def test_a_checkpoint_of_transformers(tmp_path):
    from models.test_hf import resnet, vit

    torch.manual_seed(0)
    models = {kind.__name__: kind()[0] for kind in (vit, resnet)}
    count = iter(range(99))

    def load(kind="resnet", heads=4, **changed):
        folder = tmp_path / str(next(count))
        model, processor = copy.deepcopy(models[kind]), {"vit": vit, "resnet": resnet}[kind]()[1]
        model.config.num_attention_heads = heads
        for name, value in changed.items():
            setattr(processor, name, value)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        return whymask.load(str(folder))

    all_differ(
        load, {"image_mean": [0.5, 0.5, 0.5]}, {"image_std": [0.5, 0.5, 0.5]}, {"rescale_factor": 1 / 127.5},
        {"crop_pct": 0.95}, {"size": {"shortest_edge": 72}}, {"resample": 2}, {"do_normalize": False},
    )  # fmt: skip
    all_differ(load, {"heads": 2}, kind="vit")


@needs_transformers
@pytest.mark.parametrize("family", ["qwen", "llava"])
def test_a_multimodal_model(family):
    from whymask.models.llava import Llava
    from whymask.models.qwen2_5_vl import Qwen25VL

    from models import tiny_mllm

    def make(
        template=None,
        word=None,
        most=None,
        side=None,
        cut=None,
        heads=None,
        ends=None,
        mean=None,
        used=False,
        **options,
    ):
        module, processor, words = getattr(tiny_mllm, family)()
        if template:
            words.chat_template += template
        if word:
            words.add_tokens([word])
        if most:
            words.model_max_length = most
        if side:
            words.padding_side = side
        if cut:
            words.truncation_side = cut
        if heads:
            module.config.text_config.num_attention_heads = heads
        if ends:
            module.generation_config.eos_token_id = ends
        if mean:
            processor.image_mean = mean
        if used:
            words("what do you see ?", truncation=True, max_length=2)
        return (Qwen25VL if family == "qwen" else Llava)(module, processor, words, name="tiny", **options)

    view = (
        [{"max_side": 224}, {"max_pixels": 1024}]
        if family == "qwen"
        else [{"pad": True}, {"max_side": 16}, {"max_side": 16, "pad": True}, {"max_side": 17}]
    )
    all_differ(
        make, {"template": " "}, {"word": "umbrella"}, {"most": 99}, {"side": "left"}, {"cut": "left"}, {"heads": 1},
        {"ends": [3]}, {"mean": [0.5, 0.5, 0.5]}, *view,
    )  # fmt: skip
    assert identity(make(used=True)) == identity(make())


@needs_transformers
@pytest.mark.parametrize("family", ["qwen", "llava"])
def test_the_precision_it_is_loaded_in_is_a_setting(family, tmp_path):
    from models import tiny_mllm

    tiny_mllm.save(getattr(tiny_mllm, family)(), tmp_path)
    loaded = [whymask.load(str(tmp_path), dtype=dtype) for dtype in ("fp32", "fp16", "bf16")]
    assert len({model.fingerprint.split()[1] for model in loaded}) == 1
    assert len({str(identity(model)) for model in loaded}) == 3


@needs_transformers
def test_a_tokenizer_written_in_python(tmp_path):
    """Its rules are the files it is saved as."""
    from transformers.models.ctrl.tokenization_ctrl import CTRLTokenizer

    from whymask.models.hf import tokenization

    def make(words=("a", "b", "ab</w>", "padding"), merges=("a b</w>",)):
        (tmp_path / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(["<unk>", *words])}))
        (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges))
        tokenizer = CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
        assert not tokenizer.is_fast
        return json.dumps(tokenization(tokenizer))

    found = [make(), make(("b", "a", "ab</w>", "padding")), make(("a", "b", "ab</w>", "truncation")),
             make(("a", "b", "ab</w>")), make(merges=("b a</w>",))]  # fmt: skip
    assert len(set(found)) == len(found)
    assert make() == found[0]


FRESH = """
import sys
import whymask
from models.test_fingerprint import bright, closed, deep

folder = sys.argv[1]
models = [
    whymask.wrap(deep(), size=32),
    whymask.wrap(bright),
    whymask.wrap(closed((1, 0.5))),
    whymask.load(f"{folder}/vit"),
    whymask.load(f"{folder}/clip", classes=["rocket", "tower"], templates=["a {}"]),
    whymask.load(f"{folder}/siglip", classes=["rocket", "tower"]),
    whymask.load(f"{folder}/naflex", classes=["rocket", "tower"]),
    whymask.load(f"{folder}/llava", max_side=16),
    whymask.load(f"{folder}/qwen"),
]
print(*(model.fingerprint for model in models), sep="\\n")
"""


@needs_transformers
def test_every_process_finds_the_same(tmp_path):
    from models import tiny_clip, tiny_mllm, tiny_siglip
    from models.test_hf import vit

    torch.manual_seed(0)
    tiny_mllm.save(vit(), tmp_path / "vit")
    tiny_mllm.save(tiny_mllm.llava(), tmp_path / "llava")
    tiny_mllm.save(tiny_mllm.qwen(), tmp_path / "qwen")
    tiny_clip.save(tmp_path / "clip")
    tiny_siglip.save(tmp_path / "siglip")
    tiny_siglip.save(tmp_path / "naflex", naflex=True)
    runs = []
    for seed in "12":  # of the order of sets
        own = {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path / seed)}
        command = [sys.executable, "-c", FRESH, str(tmp_path)]
        runs.append(subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True))
    first, second = (run.communicate()[0].splitlines() for run in runs)
    assert len(set(first)) == 9
    assert first == second


def test_a_model_of_the_package_is_the_same_when_loaded_again():
    pytest.importorskip("efficientnet_lite_pytorch", reason="the weights are not installed: whymask[lite]")
    both = [whymask.load("efficientnet-lite0", runtime="torch") for _ in "12"]
    assert identity(both[0]) == identity(both[1])
