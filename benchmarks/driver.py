"""What the driver itself costs a step: greedy at n = 64, so 64 candidates, both sides, and no model.

A step is everything between two answers of the model: the search, the cache, the ledger, the checks.
Run: python benchmarks/driver.py
"""

import time
from statistics import median

import numpy as np

from whymask.search import Problem, Recipe, Search

N = 64


def steps(recipe: str) -> list[tuple[int, float]]:
    """(images asked for, seconds) of each step of one search whose model answers in no time."""
    search = Search(Recipe(recipe), Problem(N))
    timed = []
    while search.result is None:
        responses = np.random.default_rng(len(timed)).random(len(search.question.send))
        asked = len(search.question.keys)
        start = time.perf_counter()
        search.answer(responses)
        timed.append((asked, time.perf_counter() - start))
    return timed


if __name__ == "__main__":
    for recipe in ("greedy", "phasewin", "trace"):
        runs = [steps(recipe) for _ in range(20)]
        first = median(run[0][1] for run in runs)
        typical = median(seconds for run in runs for _, seconds in run)
        images = sum(asked for asked, _ in runs[0])
        total = median(sum(seconds for _, seconds in run) for run in runs)
        print(
            f"{recipe:9} first step {first * 1e3:.3f} ms ({runs[0][0][0]} images), median step {typical * 1e3:.3f} ms, "
            f"whole search {total * 1e3:.1f} ms ({total / images * 1e6:.2f} us an image)"
        )
