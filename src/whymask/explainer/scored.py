"""The sets that a search has scored, for its result."""

from collections.abc import Collection, Sequence

import numpy as np

from whymask.explainer.responder import Filled
from whymask.models.base import named
from whymask.results.scored import ScoredSets
from whymask.search.driver import SearchResult
from whymask.search.objective import PIXEL_MASK, OverFills, over_fills, unpack


def scored_sets(
    found: SearchResult, fills: Sequence[Filled], how: OverFills, order: Sequence[int], prefixes: Collection[int]
) -> ScoredSets | None:
    """Sets that a search has asked for on every fill, as many as a result keeps.

    What other searches of the same case have asked for does not count: a result does not depend on them.

    Args:
        found: the search.
        fills: of its case.
        how: the scores on several fills are combined.
        order: regions, the evidence first.
        prefixes: how many of them are evidence; of an ordering any number.
    """
    asked = sorted(set.intersection(*map(set, found.asked))) if found.asked else []
    keys = [key for key in asked if not key.startswith(PIXEL_MASK)]
    if not keys:
        return None
    known, case = [filled.responses for filled in fills], fills[0].case
    scores = over_fills(np.array([[one.scores[key] for key in keys] for one in known]), how)
    answers = np.array([[one.answers.get(key, -1) for one in known] for key in keys])
    rows = unpack(keys, case.partition.n)
    return ScoredSets.of(rows, scores, answers, lambda top: named(case.model, top), order, prefixes)
