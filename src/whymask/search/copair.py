"""CoPAIR: score coarse spatial groups and their pairs, and start from the best (Eqs. 6-12)."""

import warnings
from itertools import combinations
from math import ceil, sqrt

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError
from whymask.search.limits import Count, NonNegative, Positive, Share
from whymask.search.objective import SUFFICIENCY, AnyObjective, Objective
from whymask.search.protocol import Ask, Initialiser, Problem, Selection
from whymask.search.stage import stage

ROUNDING = 1e-9  # areas are sums of shares: do not let their rounding decide the cap


@stage(
    "mask",
    "the best coarse group or pair of groups of regions",
    cost=lambda n, p: 107,  # 16 groups and 91 pairs of 14 of them, at n = 61 ... 68
)
def copair(
    problem: Problem,
    *,
    coarse_scale: Positive = 2.0,
    coarse_min: Count = 8,
    coarse_max: Count = 32,
    centroid_seed: NonNegative = 0,
    kmeans_max_iter: Count = 50,
    pool_size: Count | None = None,
    pool_frac: Share = 0.15,
    pool_min: Count = 10,
    pool_reserve: NonNegative = 4,
    pair_gain: float = 0.05,
    min_sufficiency: float = 0.1,
    min_area: Share = 0.0,
    max_area: Share = 0.2,
    max_groups: Count = 3,
    init_objective: AnyObjective = SUFFICIENCY,
) -> Initialiser:
    """The best coarse group or pair of groups, with a third group when that is not sufficient.

    The area of every candidate C_0, also of a single group, lies in [min_area, max_area]; pairs and third groups whose
    area does not are not scored. Where neither a group nor a pair fits, the candidate is the best single group.
    The mask is C_0 before release: its size follows from the groups.
    """
    if problem.centroids is None:
        raise WhymaskError("copair groups regions by position: pass centroids, an (n, 2) array of (x/W, y/H).")
    if coarse_max < coarse_min:
        raise WhymaskError("copair needs coarse_min <= coarse_max.")
    n = problem.n
    areas = np.full(n, 1 / n) if problem.areas is None else problem.areas
    objective = Objective.of(init_objective)
    count = coarse_count(n, coarse_scale, coarse_min, coarse_max)
    groups = coarse_groups(problem.centroids, count, centroid_seed, kmeans_max_iter)
    if pool_size is None:
        pool_size = max(pool_min, ceil(pool_frac * len(groups) - ROUNDING)) + pool_reserve

    def fits(masks: Bools) -> Bools:
        covered = masks @ areas
        return (covered >= min_area - ROUNDING) & (covered <= max_area + ROUNDING)

    fitting = fits(groups)
    singles = yield Ask(groups, objective, "init", Selection(groups[np.argmax(fitting)]), divisible=True)
    fitting = fitting[: len(singles)]
    pool = np.argsort(-singles, kind="stable")[:pool_size]  # Eq. 9
    top = int(np.argmax(np.where(fitting, singles, -np.inf) if fitting.any() else singles))
    single = best = Selection(groups[top], float(singles[top]))  # G_s

    first, second = np.array(list(combinations(sorted(pool.tolist()), 2)), dtype=int).reshape(-1, 2).T
    pairs = groups[first] | groups[second]
    pairs = pairs[fits(pairs)] if max_groups >= 2 else pairs[:0]
    if len(pairs):
        scores = yield Ask(pairs, objective, "init", single, divisible=True)
        alone = fitting.any() and singles[top] >= min_sufficiency and scores.max() - singles[top] < pair_gain
        best = single if alone else Selection.best(pairs, scores)  # Eqs. 10 and 11

    members = sum(bool((best.mask & group).any()) for group in groups)
    if best.score is not None and best.score < min_sufficiency and members < max_groups:
        more = groups[sorted(pool)]
        thirds = best.mask | more[~(best.mask & more).any(axis=1)]
        thirds = thirds[fits(thirds)]
        if len(thirds):
            scores = yield Ask(thirds, objective, "init", best)
            best = Selection.best(thirds, scores)  # Eq. 12
    return best


def coarse_count(n: int, scale: float = 2.0, least: int = 8, most: int = 32) -> int:
    """c = clip(round(scale * sqrt(n)), least, most), and no more than there are regions (Eq. 7)."""
    return min(n, int(np.clip(round(scale * sqrt(n)), least, most)))


def coarse_groups(centroids: Floats, count: int, seed: int = 0, max_iter: int = 50) -> Bools:
    """k-means groups of the region centroids (n, 2), as masks (c, n) that partition the regions (Eq. 6).

    Regions are taken in (y, x) order, so the groups do not depend on how the partition numbers them; groups are
    numbered by first appearance in that order, and groups left empty are dropped.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    order = np.lexsort((centroids[:, 0], centroids[:, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # coinciding centroids: fewer groups, dropped below
        labels = KMeans(count, n_init=1, random_state=seed, max_iter=max_iter).fit(centroids[order]).labels_
    names = list(dict.fromkeys(labels.tolist()))
    groups = np.zeros((len(names), len(centroids)), dtype=bool)
    groups[[names.index(label) for label in labels.tolist()], order] = True
    return groups
