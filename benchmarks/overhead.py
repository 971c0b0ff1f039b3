"""What explaining costs beside the model's forwards, on a CPU.

`explain` is timed as a user calls it, from the file to the result, and the time inside the model's forward is taken
out of it: what is left is reading the photo, the partition, composing the masked inputs, the search and the driver.
Run: python benchmarks/overhead.py
"""

import time
from statistics import median

from skimage.data import data_dir

import whymask

PHOTOS = ("camera.png", "coffee.png", "rocket.jpg")
METHODS = ("trace", "discs+swap", "copair", "copair+phasewin")


class Timed:
    """A model's `score` that adds up its seconds."""

    def __init__(self, score) -> None:
        self.score, self.seconds = score, 0.0

    def __call__(self, inputs, targets):
        start = time.perf_counter()
        try:
            return self.score(inputs, targets)
        finally:
            self.seconds += time.perf_counter() - start


if __name__ == "__main__":
    print("| runtime | method | forwards | wall s | outside the forwards |\n|---|---|---|---|---|")
    for runtime in ("onnx", "torch"):
        model = whymask.load("efficientnet-lite0", runtime=runtime)
        model.score = timed = Timed(model.score)
        for _ in range(3):  # imports, first-use costs, the batch size
            whymask.explain(f"{data_dir}/chelsea.png", model)
        for method in METHODS:
            rows = []
            for photo in PHOTOS:
                timed.seconds, start = 0.0, time.perf_counter()
                result = whymask.explain(f"{data_dir}/{photo}", model, method=method)
                wall = time.perf_counter() - start
                rows.append((1 - timed.seconds / wall, wall, result.ledger.mec))
            share, wall, forwards = (median(column) for column in zip(*rows, strict=True))
            print(f"| {runtime} | {method} | {forwards} | {wall:.1f} | {share:.1%} |", flush=True)
