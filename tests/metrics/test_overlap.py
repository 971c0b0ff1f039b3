import pytest

from whymask import WhymaskError
from whymask.metrics.overlap import jaccard, overlap, recurrence, top_overlap


def test_overlap_and_jaccard():
    assert overlap([1, 2, 3, 4], [3, 4, 5, 6]) == 0.5
    assert jaccard([1, 2, 3, 4], [3, 4, 5, 6]) == pytest.approx(1 / 3)
    assert jaccard([], []) == 1
    with pytest.raises(WhymaskError, match="empty"):
        overlap([1], [])


def test_top4_of_k6_vs_k4():
    assert top_overlap([5, 0, 9, 2, 7, 1], [0, 1, 2, 3]) == (0.5, pytest.approx(2 / 6))
    with pytest.raises(WhymaskError, match="top 3"):
        top_overlap([1, 2], [1, 2, 3])


def test_recurrence():
    assert recurrence([[3, 1], [1, 2], [1, 3], [1, 4]]) == {1: 1.0, 3: 0.5, 2: 0.25, 4: 0.25}
