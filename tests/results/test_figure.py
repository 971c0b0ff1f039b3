import sys
from types import ModuleType

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask.results.plotting import save_figure

from models.tiny import lit, quadrants


def pixels(figure, tmp_path):
    with Image.open(save_figure(figure, tmp_path / "figure.png")) as image:
        return np.asarray(image.convert("RGB")).astype(int)


@pytest.mark.parametrize("shape", [(32, 32), (40, 90), (90, 40), (1, 1), (500, 3)])
def test_mask_figure(tmp_path, shape):
    image = np.resize(lit(0, 64), (*shape, 3)).astype(np.uint8)
    model = quadrants(share=0.8)
    evidence = whymask.explain(image, model, regions="grid:4x4", k=4)
    figure = evidence.figure()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0].startswith(evidence.target.label)
    assert f"{evidence.score:.2f}" in titles[2]
    assert f"{evidence.removed_score:.2f}" in titles[3]
    drawn = pixels(figure, tmp_path)
    assert (drawn[:5] == 255).all()  # nothing, a title least of all, is cut off at the border
    assert drawn.shape[0] < 800
    orange = (np.abs(drawn - [0xE6, 0x9F, 0x00]) < 30).all(axis=2)
    assert orange.any()  # the outline


def drawn_photo(axes):
    return np.asarray(axes.get_images()[0].get_array()).astype(int)


def test_the_photo_shows_what_is_kept_dimmed_and_not_seen():
    """Region 1 of a 2 x 2 grid, top right, on the central half of a 200 x 100 photo."""
    photo = np.full((100, 200, 3), 100, dtype=np.uint8)
    evidence = whymask.explain(photo, quadrants(share=0.5), regions="grid:2x2", k=1, target="ne")
    assert evidence.regions == (1,)
    figure = evidence.figure()
    assert (drawn_photo(figure.axes[0]) == 100).all()  # the original as it is
    shown = drawn_photo(figure.axes[1])  # 256 x 128 for viewing; the model sees x 96-160, y 32-96
    assert shown.shape == (128, 256, 3)
    assert (shown[34:62, 130:158] == 100).all()  # the evidence as it is
    assert (shown[34:62, 98:126] == 45).all()  # seen, but no evidence: dimmed
    assert (shown[66:94, 130:158] == 45).all()
    assert (shown[:30] > 200).all()  # not seen: faded
    assert (shown[:, :94] > 200).all()
    assert "not seen" in figure.axes[1].get_xlabel()
    (number,) = figure.axes[1].texts
    assert number.get_text() == "1"
    assert number.get_position() == pytest.approx((143.5, 47.5), abs=1)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == f"top right\nwhole image: {evidence.image.full_score:.2f}"
    assert titles[1] == "the evidence\n1 of 4 regions"
    assert titles[2] == f"only 1 of 4 (25%)\n{evidence.score:.2f}"
    assert titles[3] == f"without them (75%)\n{evidence.removed_score:.2f}"


def test_nothing_is_faded_when_all_is_seen():
    evidence = whymask.explain(lit(0), quadrants(), regions="grid:2x2", k=1)
    assert evidence.figure().axes[1].get_xlabel() == ""


def test_a_panorama_is_framed_around_what_the_model_sees():
    evidence = whymask.explain(np.zeros((40, 800, 3), np.uint8), quadrants(), regions="grid:2x2", k=1)
    axes = evidence.figure().axes[0]
    left, right = axes.get_xlim()
    assert (right - left) / abs(np.diff(axes.get_ylim())[0]) == pytest.approx(2)
    assert (left + right) / 2 == pytest.approx(384)  # the middle of 768


def test_long_names_are_wrapped():
    model = quadrants()
    model.labels[0] = "a very long name of a class that nobody would ever say aloud"
    figure = whymask.explain(lit(0), model, regions="grid:2x2", k=1).figure()
    assert max(map(len, figure.axes[0].get_title().splitlines())) <= 26


def test_kept_and_removed_panels_show_what_the_model_saw():
    evidence = whymask.explain(lit(0), quadrants(), regions="grid:4x4", k=4, fill="#102030")
    _, _, kept, removed = (axes.get_images()[0].get_array() for axes in evidence.figure().axes)
    outside = ~evidence.mask
    assert (kept[outside] == [0x10, 0x20, 0x30]).all()
    assert (removed[evidence.mask] == [0x10, 0x20, 0x30]).all()
    np.testing.assert_array_equal(removed[outside], evidence.image.canvas[outside])
    np.testing.assert_array_equal(kept[evidence.mask], evidence.image.canvas[evidence.mask])


@pytest.fixture(scope="module")
def ranking():
    model = quadrants()
    found = whymask.explain(lit(0, 80), model, regions="grid:4x4", method="greedy")
    return found.with_curves(whymask.replay(found, model))


def test_ordering_figure(tmp_path, ranking):
    curves = ranking.curves
    figure = ranking.figure()
    photo, kept, removed, plot, bar = figure.axes
    assert plot.get_xlim() == (0, 1)
    assert plot.get_ylim() == (0, 1.02)
    insertion, deletion, prefix, *points = plot.get_lines()
    np.testing.assert_array_equal(insertion.get_ydata(), curves.insertion_curve)
    np.testing.assert_array_equal(deletion.get_ydata(), curves.deletion_curve)
    for line in (insertion, deletion):
        np.testing.assert_array_equal(line.get_xdata(), curves.x)
    t = ranking.prefix
    assert set(prefix.get_xdata()) == {curves.areas[t - 1]}
    assert [point.get_ydata()[0] for point in points] == [curves.insertion[t - 1], curves.deletion[t - 1]]
    assert kept.get_title() == f"only the first {t} ({curves.areas[t - 1]:.0%})\n{curves.insertion[t - 1]:.2f}"
    assert removed.get_title().endswith(f"\n{curves.deletion[t - 1]:.2f}")
    legend = [text.get_text() for text in plot.get_legend().get_texts()]
    assert legend == [f"insertion, AUC {curves.insertion_auc:.2f}", f"deletion, AUC {curves.deletion_auc:.2f}"]
    heat = np.asarray(photo.get_images()[1].get_array())
    assert heat[10, 10] > heat[-10, -10]
    assert heat.max() == 1
    assert [tick.get_text() for tick in bar.get_yticklabels()] == ["last", "first"]
    assert (pixels(figure, tmp_path)[:5] == 255).all()


def test_an_ordering_without_a_replay_has_no_scores_to_show():
    ranking = whymask.explain(lit(0), quadrants(), regions="grid:4x4", method="greedy")
    titles = [axes.get_title() for axes in ranking.figure().axes]
    assert titles[1:3] == ["only the first 8 (50%)", "without them (50%)"]
    assert len(titles) == 4  # the photo and its colours, with them, without them


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_savefig(tmp_path, ranking, kind, start):
    assert ranking.savefig(tmp_path / f"ranking.{kind}").read_bytes().startswith(start)


def test_savefig_names_the_kinds_there_are(tmp_path, ranking):
    with pytest.raises(whymask.WhymaskError, match=r"did you mean '\.png'"):
        ranking.savefig(tmp_path / "ranking.pgn")
    assert list(tmp_path.iterdir()) == []


def test_show_in_a_notebook(monkeypatch, ranking):
    shown = []
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: "a shell"
    display = ModuleType("IPython.display")
    display.Image = lambda data, width: data
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    ranking.show()
    assert shown[0].startswith(b"\x89PNG")


def test_show_elsewhere(monkeypatch, ranking):
    monkeypatch.setitem(sys.modules, "IPython", None)
    titles = []
    monkeypatch.setattr(Image.Image, "show", lambda self, title: titles.append((self.format, title)))
    ranking.show()
    assert titles == [("PNG", "whymask")]
