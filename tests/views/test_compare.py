from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.results.plotting import save_figure
from whymask.views.compare import compare_figure, repair_panel

from models.talker import BRIGHT, Talker
from models.tiny import lit, quadrants

MISLED = {"question": "Is there a dog?", "want": "No", "regions": "grid:2x2"}


def pixels(figure, tmp_path):
    with Image.open(save_figure(figure, tmp_path / "figure.png")) as image:
        return np.asarray(image.convert("RGB"))


@pytest.fixture(scope="module")
def rankings():
    """Two orderings and a mask of one image."""
    model = quadrants()
    image = lit(0, 80)
    found = [whymask.explain(image, model, regions="grid:4x4", method=name) for name in ("greedy", "copair+greedy")]
    found = [one.with_curves(whymask.replay(one, model)) for one in found]
    return [*found, whymask.explain(image, model, regions="grid:4x4", method="trace", k=4)]


def test_compare_figure(tmp_path, rankings):
    first, second, mask = rankings
    figure = compare_figure(rankings)
    tops, (insertion, deletion) = figure.axes[:3], figure.axes[3:]
    assert [axes.get_title().splitlines()[0] for axes in tops] == ["greedy", "copair+greedy", "trace"]
    gain = second.curves.insertion_auc - first.curves.insertion_auc
    assert tops[0].get_title().endswith(f"AUC {first.curves.insertion_auc:.3f}")
    assert tops[1].get_title().endswith(f"\u0394AUC {gain:+.3f}")
    assert "AUC" not in tops[2].get_title()
    np.testing.assert_array_equal(insertion.get_lines()[1].get_ydata(), second.curves.insertion_curve)
    np.testing.assert_array_equal(deletion.get_lines()[1].get_ydata(), second.curves.deletion_curve)
    assert insertion.get_lines()[2].get_xydata().tolist() == [[mask.area, mask.score]]
    styles = {(line.get_color(), line.get_linestyle()) for line in insertion.get_lines()}
    assert len(styles) == 3
    assert insertion.get_ylim() == (0, 1.02)
    assert (pixels(figure, tmp_path)[:5] == 255).all()


def test_only_explanations_of_one_image_are_compared(rankings):
    other = whymask.explain(lit(1, 80), quadrants(), regions="grid:4x4", k=4)
    with pytest.raises(whymask.WhymaskError, match="one image"):
        compare_figure([rankings[0], other])
    with pytest.raises(whymask.WhymaskError, match="at least one"):
        compare_figure([])


def test_methods_side_by_side(tmp_path):
    repairs = [whymask.repair(BRIGHT, Talker(), method=method, **MISLED) for method in ("greedy", "occlusion", "trace")]
    figure = repair_panel(repairs)
    original, *panels, curves = figure.axes
    assert original.get_title() == 'whole image\n"No" 0.38\nsays "Yes" (0.62)'
    for axes, fixed in zip(panels, repairs, strict=True):
        method, kept, said = axes.get_title().split("\n")
        assert method == fixed.provenance["method"]
        assert kept == f"{len(fixed.regions)} of 4 regions, {fixed.area:.0%}"
        assert said == f'says "No" ({fixed.score:.2f})'
        np.testing.assert_array_equal(np.asarray(axes.get_images()[0].get_array())[..., 0] > 0, fixed.mask)
    lines = curves.get_lines()
    for (line, dots), fixed in zip((lines[0:2], lines[2:4]), repairs, strict=False):
        np.testing.assert_allclose(line.get_ydata(), [fixed.image.blank_score, *fixed.scores])
        assert len(dots.get_xdata()) == sum(fixed.right) > 0
    assert lines[4].get_xydata().tolist() == [[repairs[2].area, repairs[2].score]]
    assert curves.get_xlim() == (0, 1)
    assert (pixels(figure, tmp_path)[:4] == 255).all()  # no title is cut off


def test_only_repairs_of_one_answer_stand_side_by_side():
    other = whymask.repair(np.zeros_like(BRIGHT), Talker(), **{**MISLED, "want": "Yes"})
    with pytest.raises(WhymaskError, match="one image and one answer"):
        repair_panel([whymask.repair(BRIGHT, Talker(), **MISLED), other])


def test_repairs_on_other_regions_are_drawn_on_their_own():
    """The curve of a search over 16 regions, beside one over 4, ends at the whole area."""
    repairs = [
        whymask.repair(BRIGHT, Talker(), method="greedy", **MISLED | {"regions": f"grid:{g}x{g}"}) for g in (2, 4)
    ]
    lines = repair_panel(repairs).axes[-1].get_lines()
    assert [len(lines[i].get_xdata()) for i in (0, 2)] == [5, 17]
    np.testing.assert_allclose(lines[2].get_xdata(), np.arange(17) / 16)


def test_a_search_none_of_whose_prefixes_repairs(tmp_path):
    fixed = whymask.repair(BRIGHT, Talker(), method="greedy", **MISLED)
    figure = repair_panel([replace(fixed, right=(False,) * len(fixed.right))])
    pixels(figure, tmp_path)  # a layout that collapses is a warning, and that an error
    curve, shown, whole = figure.axes[-1].get_lines()
    assert (len(curve.get_xdata()), shown.get_label(), whole.get_label()) == (5, 'says "No"', "whole image")
