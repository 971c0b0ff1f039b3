"""lean: Greedy that asks only what can still change the order."""

from __future__ import annotations

import numpy as np

from whymask.errors import WhymaskError, whole
from whymask.objective import SUFF_NECC, SUFFICIENCY
from whymask.search.protocol import Ask, Continuation, Problem, Ranking, Seed, extend, first_guess, mask_of, ranking

TAIL = 4  # regions looked at where both sides are settled: only harmful ones must still be told apart


def lean(
    problem: Problem, seed: Seed | None = None, *, window: int | None = None, settled: float = 0.02
) -> Continuation:
    """Order all regions by 0.5 Suff + 0.5 Necc, after the prefix of `seed`, for a part of Greedy's forwards.

    Once the rest of the image scores at most a share `settled` of the whole, removing more cannot tell regions apart,
    and only sufficiency is asked. Once the kept part also scores within that share of the best seen, only the few
    regions with the largest last gains are looked at. Before that all regions are scored again at every step, or the
    `window` of largest last gains. The first step always looks at all.
    """
    if window is not None:
        whole("window", window, 1)
    if not 0 <= settled < 1:
        raise WhymaskError(f"settled must lie in [0, 1), not {settled}.")
    n = problem.n
    placed = list(seed.prefix) if seed else []
    live = [region for region in range(n) if region not in placed]
    gain = first_guess(problem, seed)
    here, everything = mask_of(placed, n), np.ones(n, dtype=bool)
    yield Ask(np.stack([here, everything]), SUFF_NECC, "continue", ranking(placed, gain, seed))
    response = problem.archive.response
    kept, rest, full = response(here), response(~here), response(everything)
    best, gone, count = full, False, len(live)
    while live:
        some = sorted(sorted(live, key=lambda region: -gain[region])[:count])
        objective = SUFFICIENCY if gone else SUFF_NECC
        now = objective.combine(np.array([[kept], [rest]])[: len(objective.sides)])
        scores = yield Ask(extend(placed, some, n), objective, "continue", ranking(placed, gain, seed))
        gain[some] = scores - now
        placed.append(some[int(np.argmax(scores))])
        live.remove(placed[-1])
        here[placed[-1]] = True
        kept, rest = response(here), rest if gone else response(~here)
        best, gone = max(best, kept), gone or rest <= settled * full
        flat = gone and kept >= (1 - settled) * best
        count = TAIL if flat else window or len(live)
    return Ranking(tuple(placed), seed)
