"""What a step costs beside the model: n = 64, so up to 64 candidates, and a model that answers in no time.

A step is everything around one answer of the model: the search, the cache, the ledger, batching and the checks.
Run: python benchmarks/driver.py
"""

import time
from statistics import median

import numpy as np

from whymask.methods import run

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
