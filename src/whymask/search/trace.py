"""TRACE: cross-entropy search over masks of exactly k regions (Eqs. 13-17)."""

from dataclasses import replace
from math import ceil
from typing import Annotated

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.search.limits import Count, In, Positive, Proportion, Share
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection, check_k
from whymask.search.stage import stage


@stage(
    "mask", "cross-entropy search for the best mask of exactly k regions", cost=lambda n, p: p["rounds"] * p["samples"]
)
def trace(
    problem: Problem,
    *,
    k: Count = 8,
    rounds: Count = 5,
    samples: Count = 32,
    elite_ratio: Proportion = 0.2,
    update_rate: Share = 0.7,
    temperature: Positive = 1.0,
    smoothing: Share = 0.05,
    epsilon: Annotated[float, In(0, 0.5, "()")] = 1e-4,
    logit_bound: Positive = 8.0,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """The best of rounds * samples masks drawn from a distribution that learns from its elite.

    A mask drawn twice is scored from the cache and counts twice among the elite. The logits before each round
    and after the last are kept in the seed.
    """
    n = problem.n
    check_k(k, n)
    objective = Objective.of(init_objective)
    # The slack undoes binary rounding (ceil(0.2 * 35) is 7) and must not leave the elite empty.
    elite_count = max(1, ceil(elite_ratio * samples - 1e-9))
    rng = problem.rng()
    logits = [np.zeros(n)]
    best: Selection | None = None
    for _ in range(rounds):
        masks = gumbel_top_k(logits[-1] / temperature, k, samples, rng)
        stop_here = best or Selection(masks[0], logits=np.array(logits))
        scores = yield Ask(masks, objective, "init", stop_here, divisible=True)
        elite = np.argsort(-scores, kind="stable")[:elite_count]
        inclusion = masks[elite].mean(axis=0)
        target = (1 - smoothing) * inclusion + smoothing * k / n  # Eq. 16
        target = np.clip(target, epsilon, 1 - epsilon)
        update = (1 - update_rate) * logits[-1] + update_rate * np.log(target / (1 - target))
        logits.append(np.clip(update, -logit_bound, logit_bound))  # Eq. 17
        if best is None or best.score is None or scores.max() > best.score:
            best = Selection.best(masks, scores)
        best = replace(best, logits=np.array(logits))
    assert best is not None
    return best


def gumbel_top_k(logits: Floats, k: int, samples: int, rng: np.random.Generator) -> Bools:
    """`samples` masks (samples, n) of exactly k regions: the k largest of logits + Gumbel noise (Eq. 14)."""
    noisy = logits + rng.gumbel(size=(samples, len(logits)))
    masks = np.zeros(noisy.shape, dtype=bool)
    np.put_along_axis(masks, np.argpartition(-noisy, k - 1, axis=1)[:, :k], True, axis=1)
    return masks
