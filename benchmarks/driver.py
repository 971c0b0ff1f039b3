"""What a step costs beside the model: n = 64, so up to 64 candidates, and a model that answers in no time.

A step is everything around one answer of the model: the search, the cache, the ledger, batching and the checks.
Then the share of the forward limit on a simulated device, which takes its time while the host goes on: forwards * time
of one image in a full batch / time of the searches, when the host waits for each forward and when replies are late. The
clock is the processor time of this process and the time it would have waited, so other work on the machine counts
little.

Run: python benchmarks/driver.py
"""

import time
from statistics import median

import numpy as np

from whymask.methods import Recipe, run
from whymask.search import Oracle, Problem, Search, drive
from whymask.search.oracle import Responses

N = 64
CENTROIDS = (np.argwhere(np.ones((8, 8))) + 0.5) / 8
ANSWERS = np.random.default_rng(0).random(10 * N)


def steps(recipe: str) -> list[float]:
    """Seconds before the first answer of the model, then between one and the next, then after the last."""
    ticks = []

    def respond(rows):
        ticks.append(time.perf_counter())
        return ANSWERS[: len(rows)]

    start = time.perf_counter()
    run(recipe, respond, N, centroids=CENTROIDS)
    return np.diff([start, *ticks, time.perf_counter()]).tolist()


BATCH = 256  # images
LAUNCH, IMAGE = 1e-3, 85e-6  # seconds that the device takes for a batch, and for each of its images besides
FULL = IMAGE + LAUNCH / BATCH
FILLS = {"trace": 1}  # by default methods search on three fills, the paper's on one


class Device:
    """A simulated device: forwards are computed one after the other, at a fixed speed.

    What searches are about is a set function: the weights (n,) of its regions.
    """

    def __init__(self, late: bool) -> None:
        self.late = late
        self.free = 0.0  # when it will have computed everything launched so far
        self.waited = 0.0  # seconds that the host would have waited

    def now(self) -> float:
        """The time, in seconds."""
        return time.process_time() + self.waited

    def __call__(self, pieces):
        """Launch a batch and wait for it, or return what waits for it."""
        images = sum(len(rows) for _, rows in pieces)
        end = self.free = max(self.free, self.now()) + LAUNCH + images * IMAGE

        def read():
            self.waited += max(0.0, end - self.now())
            return [(rows @ weights) ** 2 for weights, rows in pieces]

        return read if self.late else read()


def searches(recipe: str, count: int):
    """Searches over as many images; on every fill the weights of the regions are a bit different."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        weights = rng.dirichlet(np.full(N, 0.2)) + rng.dirichlet(np.full(N, 1.0), FILLS.get(recipe, 3)) / 5
        fills = list(weights / weights.sum(axis=1, keepdims=True))
        oracle = Oracle(*(Responses() for _ in fills))
        yield Search(Recipe(recipe), Problem(N, seed, CENTROIDS), oracle=oracle, fills=fills)


def share(recipe: str, count: int, late: bool) -> tuple[float, int]:
    """The share of the limit that searches together reach, and their forwards."""
    device = Device(late)
    start = device.now()
    found = dict(drive(searches(recipe, count), device, batch_size=BATCH))
    seconds = device.now() - start
    forwards = sum(result.ledger.mec for result in found.values())
    return forwards * FULL / seconds, forwards


if __name__ == "__main__":
    print("| search | start | first step (greedy: 64 candidates, both sides) | median step | whole search |")
    print("|---|---|---|---|---|")
    for recipe in ("greedy", "phasewin", "trace", "discs+swap"):
        runs = [steps(recipe) for _ in range(30)]
        start, first = median(one[0] for one in runs), median(one[1] for one in runs)
        typical = median(seconds for one in runs for seconds in one)
        total = median(sum(one) for one in runs)
        times = " | ".join(f"{seconds * 1e3:.2f} ms" for seconds in (start, first, typical, total))
        print(f"| {recipe} | {times} |")

    print("\n| search | images | forwards | share of the limit, waiting | overlapped |")
    print("|---|---|---|---|---|")
    for recipe in ("trace", "discs+swap", "smallest"):
        for count in (1, 16):
            runs = [(share(recipe, count, False), share(recipe, count, True)) for _ in range(5)]
            waiting, overlapped = (median(one[late][0] for one in runs) for late in (0, 1))
            print(f"| {recipe} | {count} | {runs[0][0][1]} | {waiting:.2f} | {overlapped:.2f} |", flush=True)
