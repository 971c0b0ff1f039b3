"""Methods that use gradients, plain and with memory_saving: median seconds and, on CUDA, the most memory in use.

EfficientNet-lite0 in fp32, and the real multimodal architectures with random weights. Memory does not depend on how
often a method repeats its steps, seconds do.

Run: python benchmarks/memory_saving.py --device cuda [--models lite0 qwen llava] [--quick] | --tiny
"""

import argparse
import time
from statistics import median
from typing import Any

import torch
from mllm_speed import QUESTION, Subject
from skimage.data import data_dir

import whymask

PHOTOS = ("camera.png", "coffee.png", "rocket.jpg", "astronaut.png", "chelsea.png")

# The methods of each model, with the parameters of --quick: fewer repetitions that hold as much at a time.
MULTIMODAL = {"llava-cam": {"copies": 4}, "igos++": {"iterations": 1, "ig_steps": 2}}
METHODS: dict[str, dict[str, dict[str, Any]]] = {
    "lite0": {
        "gradient": {}, "integrated-gradients": {}, "ig2": {"steps": 4}, "grad-cam": {}, "igos++": {"iterations": 1},
    },
    "qwen": MULTIMODAL,
    "llava": MULTIMODAL,
}  # fmt: skip


def loaded(name: str, options: argparse.Namespace) -> Any:
    """One of METHODS on the device."""
    if name == "lite0":
        return whymask.load("efficientnet-lite0", device=options.device, runtime="torch")
    return Subject(name, argparse.Namespace(device=options.device, tiny=options.tiny, batch=1)).wrapped()


def measured(explainer: whymask.Explainer, photo: str, asked: dict[str, str], cuda: bool) -> tuple[float, float]:
    """Seconds, and MiB beyond what was held before, of one explanation."""
    held = 0
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    start = time.perf_counter()
    explainer.explain(f"{data_dir}/{photo}", **asked)  # its scores are on the host: the device has finished
    seconds = time.perf_counter() - start
    return seconds, (torch.cuda.max_memory_allocated() - held) / 2**20 if cuda else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", choices=list(METHODS), help="all, or with --tiny the multimodal ones")
    parser.add_argument("--methods", nargs="+", help="only these")
    parser.add_argument("--quick", action="store_true", help="one photo, few repetitions: the same memory")
    parser.add_argument("--tiny", action="store_true", help="small multimodal models, --quick: to see the script run")
    options = parser.parse_args()
    quick = options.quick or options.tiny
    print("| model | method | s | MiB | s, saving | MiB, saving |\n|---|---|---|---|---|---|")
    for name in options.models or (["qwen", "llava"] if options.tiny else METHODS):
        model = loaded(name, options)
        asked = {} if name == "lite0" else {"question": QUESTION, "target": "Yes"}
        for method, fewer in METHODS[name].items():
            if options.methods and method not in options.methods:
                continue
            cells = []
            for saving in (False, True):
                params = {"memory_saving": saving} | (fewer if quick else {})
                explainer = whymask.Explainer(model, method=method, params=params)
                photos = PHOTOS[:1] if quick else PHOTOS
                rows = [measured(explainer, photo, asked, options.device.startswith("cuda")) for photo in photos]
                seconds, mebibytes = zip(*rows, strict=True)
                cells += [f"{median(seconds):.2f}", f"{max(mebibytes):.0f}"]
            print(f"| {name} | {method} | {' | '.join(cells)} |", flush=True)
        del model, explainer  # before the next one is built
