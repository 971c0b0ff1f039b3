import numpy as np
import pytest
from PIL import Image

import whymask
from whymask.views.figure import mask_figure, ordering_figure, save_figure

from models.tiny import lit, quadrants


def pixels(figure, tmp_path):
    with Image.open(save_figure(figure, tmp_path / "figure.png")) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("shape", [(32, 32), (40, 90), (90, 40), (1, 1), (500, 3)])
def test_mask_figure(tmp_path, shape):
    image = np.resize(lit(0, 64), (*shape, 3)).astype(np.uint8)
    model = quadrants(share=0.8)
    evidence = whymask.explain(image, model, regions="grid:4x4", k=4)
    figure = mask_figure(evidence)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0].startswith(evidence.target.label)
    assert f"{evidence.score:.2f}" in titles[1]
    assert f"{evidence.removed_score:.2f}" in titles[2]
    drawn = pixels(figure, tmp_path)
    assert (drawn[:5] == 255).all()  # nothing, a title least of all, is cut off at the border
    orange = (np.abs(drawn - [0xE6, 0x9F, 0x00]) < 30).all(axis=2)
    assert orange.any()  # the outline


def test_kept_and_removed_panels_show_what_the_model_saw():
    evidence = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=4, fill="#102030")
    _, kept, removed = (axes.get_images()[0].get_array() for axes in mask_figure(evidence).axes)
    outside = ~evidence.mask
    assert (kept[outside] == [0x10, 0x20, 0x30]).all()
    assert (removed[evidence.mask] == [0x10, 0x20, 0x30]).all()
    np.testing.assert_array_equal(kept[evidence.mask], evidence.scene.canvas[evidence.mask])


def test_ordering_figure(tmp_path):
    model = quadrants()
    ranking = whymask.explain(lit(0, 80), model, regions="grid:4x4", method="greedy")
    curves = whymask.replay(ranking, model)
    figure = ordering_figure(ranking, curves)
    plot = figure.axes[1]
    assert plot.get_xlim() == (0, 1)
    assert plot.get_ylim() == (0, 1.02)
    np.testing.assert_array_equal(plot.get_lines()[0].get_ydata(), curves.insertion_curve)
    np.testing.assert_array_equal(plot.get_lines()[1].get_ydata(), curves.deletion_curve)
    assert (pixels(figure, tmp_path)[:5] == 255).all()
