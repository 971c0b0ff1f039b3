"""Methods that use gradients, plain and with memory_saving: median seconds and, on CUDA, the most memory in use.

Run: python benchmarks/memory_saving.py --device cuda
"""

import argparse
import time
from statistics import median

import torch
from skimage.data import data_dir

import whymask

PHOTOS = ("camera.png", "coffee.png", "rocket.jpg", "astronaut.png", "chelsea.png")
METHODS = ("gradient", "integrated-gradients", "ig2", "grad-cam")


def measured(explainer: whymask.Explainer, photo: str, cuda: bool) -> tuple[float, float]:
    """Seconds, and MiB beyond what was held before, of one explanation."""
    held = 0
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    start = time.perf_counter()
    explainer.explain(f"{data_dir}/{photo}")  # its scores are on the host: the device has finished
    seconds = time.perf_counter() - start
    return seconds, (torch.cuda.max_memory_allocated() - held) / 2**20 if cuda else float("nan")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    options = parser.parse_args()
    model = whymask.load("efficientnet-lite0", device=options.device, runtime="torch")
    print("| method | s | MiB | s, saving | MiB, saving |\n|---|---|---|---|---|")
    for method in options.methods:
        cells = []
        for saving in (False, True):
            explainer = whymask.Explainer(model, method=method, params={"memory_saving": saving})
            rows = [measured(explainer, photo, options.device.startswith("cuda")) for photo in PHOTOS]
            cells += [f"{median(seconds for seconds, _ in rows):.2f}", f"{max(mebibytes for _, mebibytes in rows):.0f}"]
        print(f"| {method} | {' | '.join(cells)} |", flush=True)
