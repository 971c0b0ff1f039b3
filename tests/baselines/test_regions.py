import numpy as np
import pytest

from whymask import WhymaskError
from whymask.baselines.regions import by_map, by_values
from whymask.methods import run

from search.functions import problem

LABELS = np.array([[0, 0, 1], [2, 2, 1]], dtype=np.int32)


def test_a_map_orders_regions_by_its_mean_over_each():
    importance = np.array([[9.0, 0.0, 4.0], [4.5, 4.5, 4.0]])  # means 4.5, 4, 4.5: not the sums, not the maxima
    ranking = by_map(problem(3, labels=LABELS), importance)
    assert ranking.order == (0, 2, 1)
    assert ranking.map is importance


def test_values_become_a_map_and_ties_go_to_the_lowest_index():
    ranking = by_values(problem(3, labels=LABELS), np.array([1.0, 2.0, 2.0]))
    assert ranking.order == (1, 2, 0)
    np.testing.assert_array_equal(ranking.map, [[1, 1, 2], [2, 2, 2]])
    assert by_values(problem(2), np.zeros(2)).map is None


def test_a_map_that_is_not_finite_is_refused():
    with pytest.raises(WhymaskError, match="fp32"):
        by_map(problem(3, labels=LABELS), np.full((2, 3), np.nan))


@pytest.mark.parametrize("method", ["rise", "hsic"])
def test_pixel_methods_need_an_image(method):
    with pytest.raises(WhymaskError, match="explains an image"):
        run(method, lambda rows: rows.mean(axis=1), 4)
