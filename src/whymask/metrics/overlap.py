"""How much two sets of regions agree."""

from collections import Counter
from collections.abc import Collection, Sequence

from whymask.errors import WhymaskError


def overlap(chosen: Collection[int], reference: Collection[int]) -> float:
    """The share of `reference` that `chosen` contains.

    >>> overlap([1, 2, 3], [2, 3, 4, 5])
    0.5
    """
    if not reference:
        raise WhymaskError("the overlap with an empty set is undefined.")
    return len(set(chosen) & set(reference)) / len(set(reference))


def jaccard(a: Collection[int], b: Collection[int]) -> float:
    """Size of the intersection over size of the union; 1 for two empty sets.

    >>> jaccard([1, 2, 3], [2, 3, 4])
    0.5
    """
    union = set(a) | set(b)
    return len(set(a) & set(b)) / len(union) if union else 1.0


def top_overlap(order: Sequence[int], reference: Collection[int]) -> tuple[float, float]:
    """The paper's topA_of_kB_vs_kA: overlap and Jaccard of a kA mask with the first A regions of a kB mask.

    `order` is the internal order of the larger mask, `reference` the smaller mask; A is its size.

    >>> top_overlap([4, 7, 1, 9], [1, 4])
    (0.5, 0.3333333333333333)
    """
    if len(order) < len(reference):
        raise WhymaskError(f"the top {len(reference)} of an order of {len(order)} regions does not exist.")
    top = list(order)[: len(reference)]
    return overlap(top, reference), jaccard(top, reference)


def recurrence(choices: Sequence[Collection[int]]) -> dict[int, float]:
    """How often each region is chosen, most frequent first: 1 for a region in every choice.

    >>> recurrence([[1, 2], [2, 3], [2, 1]])
    {2: 1.0, 1: 0.6666666666666666, 3: 0.3333333333333333}
    """
    counts = Counter(region for choice in choices for region in set(choice))
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {region: count / len(choices) for region, count in by_count}
