"""PhaseWin: screen all regions, then accept from a window of the best without screening again.

"Score" below is always the absolute F(P + e), never a difference, so every threshold is a ratio of F values.
"""

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import floor
from typing import Literal

import numpy as np

from whymask.arrays import Floats
from whymask.search.limits import Count, Fraction, NonNegative, Positive, Proportion, Weight
from whymask.search.objective import SUFF_NECC, AnyObjective, Objective
from whymask.search.protocol import Ask, Continuation, Problem, Selection, begin, extend, ranking
from whymask.search.stage import stage

TINY = 1e-12


@stage(
    "continuation",
    "places regions from a window of the best, and screens all of them only occasionally",
    cost=lambda n, p: n * (n + 1) // 3,
)
def phasewin(
    problem: Problem,
    selection: Selection | None = None,
    *,
    window_frac: Proportion = 0.3,
    window: Count | None = None,
    beta_del: Fraction = 0.05,
    alpha_sel: Fraction = 0.6,
    policy: Literal["BA", "LG", "T2"] = "BA",
    beta_win: Proportion = 0.99,
    eta_top2: Weight = 0.05,
    anneal: bool = False,
    hard_exit: bool = True,
    hard_delta: Positive = 0.02,
    hard_phi: Weight = 0.98,
    warm_start: NonNegative = 0,
    objective: AnyObjective = SUFF_NECC,
) -> Continuation:
    """Order all regions in phases, after the prefix of `selection` if there is one (Eq. 3).

    A phase opens with the best region of a full screening and screens once more. Regions under `beta_del` times the
    best score wait until the very end; those over `alpha_sel` times it feed a window of `window` regions
    (by default `window_frac` of the regions left after `warm_start` greedy steps). A window accepts by `policy`:
    BA all within `beta_win` of its best, LG its best, T2 its best two when within `eta_top2` of each other.
    `hard_exit` ends a phase whose growth slows by more than `hard_delta`, and refuses a region that falls below
    `hard_phi` of the one before. `anneal` defers a region on its way into the window with probability 1/2, once per
    phase.
    """
    objective = Objective.of(objective)
    placed, live, last = begin(problem, selection)
    rng = problem.rng() if anneal else None

    def screen(regions: Sequence[int]) -> Generator[Ask, Floats, Floats]:
        rows = extend(placed, regions, problem.n)
        last[regions] = scores = yield Ask(rows, objective, "continue", ranking(placed, last, selection))
        return scores

    for _ in range(min(warm_start, len(live))):
        placed.append(live.pop(int(np.argmax((yield from screen(live))))))

    width = max(1, floor(window_frac * len(live))) if window is None else max(1, min(window, len(live)))
    dead: list[int] = []
    while live:
        scores = yield from screen(live)
        if scores.max() <= 0:
            break
        opener = int(np.argmax(scores))
        placed.append(live.pop(opener))
        growth = Growth(scores[opener], hard_delta, hard_phi) if hard_exit else None
        if not live:
            break
        scores = yield from screen(live)
        if scores.max() <= 0:
            continue
        tau_del, tau_sel = beta_del * scores.max(), alpha_sel * scores.max()
        dead += [live[i] for i in np.flatnonzero(scores < tau_del)]
        pool = scores >= max(tau_del, tau_sel)
        ranked = [i for i in np.argsort(-scores, kind="stable") if pool[i]]
        middle = [live[i] for i in np.flatnonzero((scores >= tau_del) & ~pool)]
        tail = deque(live[i] for i in ranked)
        win = [tail.popleft() for _ in range(min(width, len(tail)))]
        deferred: set[int] = set()
        while win:
            scores = yield from screen(win)
            win, stop, accepted = _accept(win, scores, _chosen(scores, tau_sel, policy, beta_win, eta_top2), growth)
            placed += accepted
            if stop or not accepted:
                break
            _refill(win, tail, width, deferred, rng)
        live = [*win, *tail, *middle]

    for rest in (live, dead):
        if rest:
            scores = yield from screen(rest)
            placed += [rest[i] for i in np.argsort(-scores, kind="stable")]
    return ranking(placed, last, selection)


@dataclass
class Growth:
    """The last two scores accepted in a phase: the second-order test of the hard exit."""

    last: float
    delta: float
    phi: float
    before: float | None = None

    def verdict(self, score: float) -> Literal["accept", "accept and stop", "reject"]:
        """Whether growth slowed down so much that the phase ends, with or without this region."""
        if self.before is None:
            return "accept"
        slowing = self.last / max(TINY, score) - self.before / max(TINY, self.last)
        if slowing <= self.delta:
            return "accept"
        return "accept and stop" if score >= self.phi * self.last else "reject"

    def accept(self, score: float) -> None:
        """Remember an accepted score."""
        self.before, self.last = self.last, score


def _chosen(scores: Floats, tau_sel: float, policy: str, beta_win: float, eta_top2: float) -> set[int]:
    """The window positions the policy accepts on these scores."""
    if policy == "BA":
        return set(np.flatnonzero(scores >= max(tau_sel, beta_win * scores.max())).tolist())
    first, *others = np.argsort(-scores, kind="stable").tolist()
    if scores[first] < tau_sel:
        return set()
    if policy == "T2" and others and scores[others[0]] >= tau_sel:
        gap = (scores[first] - scores[others[0]]) / max(TINY, scores[first])
        if gap <= eta_top2:
            return {first, others[0]}
    return {first}


def _accept(
    win: list[int], scores: Floats, chosen: set[int], growth: Growth | None
) -> tuple[list[int], bool, list[int]]:
    """Walk the window in its own order: what stays in it, whether the phase ends, what was accepted."""
    keep: list[int] = []
    accepted: list[int] = []
    for i, region in enumerate(win):
        if i not in chosen:
            keep.append(region)
            continue
        verdict = growth.verdict(scores[i]) if growth else "accept"
        if verdict == "reject":
            return [*keep, *win[i:]], True, accepted
        accepted.append(region)
        if growth:
            growth.accept(scores[i])
        if verdict == "accept and stop":
            return [*keep, *win[i + 1 :]], True, accepted
    return keep, False, accepted


def _refill(win: list[int], tail: deque[int], width: int, deferred: set[int], rng: np.random.Generator | None) -> None:
    """Top the window up from the tail; with an rng, a coin sends each region back to the tail's end once."""
    while len(win) < width and tail:
        region = tail.popleft()
        if rng is not None and rng.random() < 0.5 and region not in deferred:
            deferred.add(region)
            tail.append(region)
        else:
            win.append(region)
