import sys
from types import SimpleNamespace

import numpy as np
import pytest

import whymask
from whymask import WhymaskError

from models.tiny import lit, quadrants

FOUND = {"k": 4, "regions": "grid:4x4"}


@pytest.fixture
def stand_in(monkeypatch):
    """What shap's constructor takes, without shap."""
    monkeypatch.setitem(
        sys.modules, "shap", SimpleNamespace(Explanation=lambda values, **more: SimpleNamespace(values=values, **more))
    )


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("method", ["discs+swap", "greedy"])
def test_values_are_the_heatmap_in_the_shapes_of_an_image_explainer(method):
    settings = FOUND if method == "discs+swap" else {"regions": "grid:4x4"}
    found = whymask.explain(lit(2), quadrants(), method=method, **settings)
    one = found.to_shap()
    assert one.values.shape == (1, 32, 32, 3, 1)
    np.testing.assert_allclose(one.values.sum(axis=(0, 3, 4)), found.heatmap())
    np.testing.assert_array_equal(one.data, found.image.canvas[None])
    assert one.output_names == ["bottom left"]
    assert one.base_values.tolist() == [[found.blank_score]]


def test_shap_plots_it():
    shap = pytest.importorskip("shap", reason="shap is not installed: its packages are too large for the tests")
    import matplotlib.pyplot as plt

    one = whymask.explain(lit(2), quadrants(), **FOUND).to_shap()
    assert isinstance(one, shap.Explanation)
    shap.plots.image(one, show=False)
    drawn = plt.gcf().axes[1].images[-1].get_array()
    plt.close("all")
    np.testing.assert_allclose(drawn[:16].max(), 0)
    np.testing.assert_allclose(drawn[16:, :16].min(), 1)


def test_without_shap_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(WhymaskError, match="to_shap needs shap: pip install shap"):
        whymask.explain(lit(2), quadrants(), **FOUND).to_shap()
