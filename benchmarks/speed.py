"""How close explaining comes to the speed of the bare model, and to a plain implementation.

Share of the forward limit = forwards * time of one image at the bare model's best batch size / wall time of the search.
Weights are random where the real ones are not at hand: speed does not depend on them. Everything is warmed up first.

Run: python benchmarks/speed.py [--device cuda --dtype fp16] [--photo FILE ...]
"""

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from skimage.data import data_dir

import whymask
from whymask.explainer.case import Case
from whymask.explainer.responder import Responder
from whymask.images.imaging import CentreCrop
from whymask.methods import Recipe
from whymask.models.zero_shot import ZeroShot
from whymask.search import drive


def resnet101(device: str, dtype: str):
    """torchvision's ResNet-101, random weights."""
    from whymask.models import zoo

    model = zoo.load("torchvision:resnet101", pretrained=False, device=device, dtype=dtype)
    for name, parameter in model.module.named_parameters():
        if name.endswith("bn3.weight"):
            parameter.fill_(0.1)  # random residual branches would overflow in fp16
    return model


def clip_vit_l14(device: str, dtype: str):
    """CLIP ViT-L/14 and 1,000 class texts, random weights."""
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, patch_size=14,
        projection_dim=768,
    )  # fmt: skip

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = CLIPVisionModelWithProjection(config)

        def forward(self, pixels):
            return self.model(pixel_values=pixels).image_embeds

    return ZeroShot(
        Features(),
        embed=lambda texts: np.random.default_rng(len(texts[0])).normal(size=(len(texts), 768)).astype(np.float32),
        scale=100.0,
        geometry=CentreCrop(224),
        classes=[f"class {i}" for i in range(1000)],
        templates=["{}"],
        mean=(122.8, 116.7, 104.1),
        std=(68.5, 66.6, 70.3),
        name="clip-vit-large-patch14",
        fingerprint="speed",
        device=device,
        dtype=dtype,
    )


def lite0(device: str, dtype: str):
    """EfficientNet-lite0, its real weights."""
    return whymask.load("efficientnet-lite0", device=device, dtype=dtype)


MODELS = {"efficientnet-lite0": lite0, "resnet101": resnet101, "clip-vit-l14": clip_vit_l14}


def on_cuda(model) -> bool:
    """Whether the model runs on a GPU."""
    return model.settings["device"].startswith("cuda")


def wait(model) -> None:
    """Let the device finish."""
    if on_cuda(model):
        torch.cuda.synchronize()


def forward_of(model, size: int):
    """A function that runs the bare module or session on `size` images that lie ready, and returns its seconds."""
    shape = (3, *model.encode(np.zeros((224, 224, 3), dtype=np.uint8)).shape[1:])
    if hasattr(model, "module"):
        forward, device, dtype, layout = model.module, model.device, model.dtype, torch.channels_last
    else:
        forward, device, dtype, layout = model._run, "cpu", torch.float32, torch.contiguous_format
    inputs = torch.randn(size, *shape, device=device, dtype=dtype).contiguous(memory_format=layout)

    def run() -> float:
        wait(model)
        start = time.perf_counter()
        with torch.inference_mode():
            forward(inputs)
        wait(model)
        return time.perf_counter() - start

    return run


def best_size(model, sizes: list[int]) -> int:
    """The batch size with the most images per second."""
    times = {}
    for size in sizes:
        run = forward_of(model, size)
        times[size] = median([run() for _ in range(12)][2:]) / size
    return min(times, key=times.get)


def searched(model, recipe: str, photos: list, size: int | None) -> tuple[float, int, float, float]:
    """(seconds of the searches, forwards, seconds of all partitions, bare seconds an image) for photos together.

    With a `size`, one bare forward of that size is timed after each of the search's own batches and taken out of its
    seconds: a shared machine's speed drifts, so both must be measured at the same time. On CUDA that would slow the
    search down (clocks and caches), so there the bare model is timed directly before and after.
    """
    cases, partition_seconds = [], 0.0
    for photo in photos:
        start = time.perf_counter()
        cases.append(Case.of(photo, model, target=0))
        partition_seconds += time.perf_counter() - start
    respond, run = Responder(), forward_of(model, size) if size else None
    between: list[float] = []
    around: list[float] = []

    def measured(parts):
        answers = respond(parts)
        if run and not on_cuda(model):
            between.append(run())
        return answers

    def surround():
        if run and on_cuda(model):
            around.extend([run() for _ in range(12)][2:])

    surround()
    wait(model)
    start = time.perf_counter()
    searches = [case.start(Recipe(recipe)) for case in cases]
    sizes = cases[0].batching
    found = dict(drive(searches, measured, batch_size=lambda: sizes.size))
    wait(model)
    seconds = time.perf_counter() - start - sum(between)
    surround()
    bare = between + around
    forwards = sum(result.ledger.mec for result in found.values())
    return seconds, forwards, partition_seconds, sum(bare) / max(1, len(bare)) / (size or 1)


def plain(model, photo, seconds: float) -> float:
    """Seconds a forward of a plain implementation: mask the uint8 photo, PIL preprocessing per mask, batches of 32.

    It runs on torch also where the model does not: on the module that was made into another runtime's file.
    """
    model = getattr(model, "source", None) or model
    case = Case.of(photo, model, target=0)
    canvas, labels = case.bound.canvas, case.partition.labels
    size = canvas.shape[0]
    rng = np.random.default_rng(0)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        batch = []
        for _ in range(32):
            kept = (rng.random(case.partition.n) < 0.5)[labels]
            image = Image.fromarray((canvas * kept[..., None]).astype(np.uint8)).resize((size, size), Image.BICUBIC)
            pixels = (np.asarray(image, dtype=np.float32) - model.mean.numpy()) / model.std.numpy()
            batch.append(torch.from_numpy(pixels.transpose(2, 0, 1)))
        with torch.inference_mode():
            logits = model.module(torch.stack(batch).to(model.device, model.dtype))
            logits.float().softmax(dim=1).cpu()
        done += 32
    return (time.perf_counter() - start) / done


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=["efficientnet-lite0"], choices=MODELS)
    parser.add_argument("--methods", nargs="+", default=["greedy", "phasewin", "trace"])
    parser.add_argument("--photos", nargs="+", type=Path, default=[Path(data_dir) / "camera.png"])
    parser.add_argument("--together", nargs="+", type=int, default=[1])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32")
    parser.add_argument("--plain", action="store_true", help="compare with a plain implementation")
    options = parser.parse_args()
    sizes = [64, 128, 256, 512] if options.device == "cuda" else [1, 2, 4, 8, 16, 32]
    print(
        "| model | method | photos | forwards | ms per forward | bare ms (batch) | share of the limit | partition s |"
    )
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in options.models:
        model = MODELS[name](options.device, options.dtype)
        size = best_size(model, sizes)
        for together in options.together:
            photos = [options.photos[i % len(options.photos)] for i in range(together)]
            for method in options.methods:
                if options.device == "cuda":
                    searched(model, method, photos, None)  # plans and records every batch shape
                seconds, forwards, partition_seconds, limit = searched(model, method, photos, size)
                print(
                    f"| {name} | {method} | {together} | {forwards} | {seconds / forwards * 1e3:.3f} | "
                    f"{limit * 1e3:.3f} ({size}) | {forwards * limit / seconds:.2f} | {partition_seconds:.2f} |",
                    flush=True,
                )
        if options.plain:
            ours = searched(model, "greedy", options.photos[:1], None)
            theirs = plain(model, options.photos[0], 10)
            print(f"\n{name}: a plain implementation takes {theirs * 1e3:.2f} ms per forward, "
                  f"{theirs / (ours[0] / ours[1]):.1f} times ours.\n", flush=True)  # fmt: skip
