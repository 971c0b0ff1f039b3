"""Uncertainty of a share."""

from math import sqrt
from statistics import NormalDist


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of `count` samples; it has a width even where all samples agree."""
    z = NormalDist().inv_cdf(0.975)
    scale = 1 + z**2 / count
    centre = (share + z**2 / (2 * count)) / scale
    half = z / scale * sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, centre - half), min(1.0, centre + half)
