"""What explaining costs beside the model's forwards, on a CPU.

`explain` is timed as a user calls it, from the file to the result, and the time inside the module's forward is taken
out of it: what is left is reading the photo, the partition, composing the masked inputs, the search and the driver.
Run: python benchmarks/overhead.py
"""

import time
from statistics import median

from skimage.data import data_dir

import whymask

PHOTOS = ("camera.png", "coffee.png", "rocket.jpg")
METHODS = ("trace", "copair", "copair+phasewin")


class Timed:
    """A module that adds up the seconds of its forwards."""

    def __init__(self, module) -> None:
        self.module, self.seconds = module, 0.0

    def __call__(self, inputs):
        start = time.perf_counter()
        try:
            return self.module(inputs)
        finally:
            self.seconds += time.perf_counter() - start


if __name__ == "__main__":
    model = whymask.load("efficientnet-lite0")
    model.module = timed = Timed(model.module)
    whymask.explain(f"{data_dir}/chelsea.png", model)  # imports and first-use costs
    print("| method | forwards | wall s | beside the forwards |\n|---|---|---|---|")
    for method in METHODS:
        rows = []
        for photo in PHOTOS:
            timed.seconds, start = 0.0, time.perf_counter()
            result = whymask.explain(f"{data_dir}/{photo}", model, method=method)
            wall = time.perf_counter() - start
            rows.append((1 - timed.seconds / wall, wall, result.ledger.mec))
        share, wall, forwards = (median(column) for column in zip(*rows, strict=True))
        print(f"| {method} | {forwards} | {wall:.1f} | {share:.1%} |", flush=True)
