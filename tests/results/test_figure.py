import re
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

import whymask
from whymask.models.base import Target
from whymask.results.plotting import encoded, save_figure

from models.tiny import lit, quadrants
from views.spoken import answers, spoken


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
    assert (left + right) / 2 == pytest.approx(383.5)  # the middle of 768 pixels, the first of which is around 0


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
    photo, kept, removed, plot = figure.axes
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
    (colours,) = photo.child_axes
    assert [text.get_text() for text in colours.texts] == ["last", "first"]
    assert (pixels(figure, tmp_path)[:5] == 255).all()


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("shape", [(100, 100), (100, 200), (133, 100)])
def test_what_is_said_of_the_photo_is_below_its_colours(shape, width):
    photo = np.resize(lit(0, 64), (*shape, 3)).astype(np.uint8)
    ranking = whymask.explain(photo, quadrants(share=0.5), regions="grid:2x2", method="greedy")
    figure = ranking.figure(width=width)
    figure.draw_without_rendering()
    (colours,) = figure.axes[0].child_axes
    (below,) = (label for label in figure.findobj(Text) if "not seen" in label.get_text())
    assert all(below.get_window_extent().y1 <= part.get_window_extent().y0 for part in (colours, *colours.texts))


def test_regions_too_small_for_their_numbers_have_none():
    for regions, numbers in (("grid:10x10", 4), ("grid:11x11", 0)):
        evidence = whymask.explain(lit(0), quadrants(), regions=regions, k=4)
        assert sum(text.get_text() != "" for text in evidence.figure().axes[1].texts) == numbers


def test_an_ordering_without_a_replay_has_no_scores_to_show():
    ranking = whymask.explain(lit(0), quadrants(), regions="grid:4x4", method="greedy")
    titles = [axes.get_title() for axes in ranking.figure().axes]
    assert titles[1:3] == ["only the first 8 (50%)", "without them (50%)"]
    assert len(titles) == 3  # the photo, with them, without them


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_savefig(tmp_path, ranking, kind, start):
    assert ranking.savefig(tmp_path / f"ranking.{kind}").read_bytes().startswith(start)


def test_savefig_names_the_kinds_there_are(tmp_path, ranking):
    with pytest.raises(whymask.WhymaskError, match=r"did you mean '\.png'"):
        ranking.savefig(tmp_path / "ranking.pgn")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def of_every_kind():
    """A result of every kind, on a photo of which the model sees the middle."""
    model, photo = quadrants(share=0.5), np.resize(lit(0, 96), (60, 96, 3)).astype(np.uint8)
    ranking = whymask.explain(photo, model, regions="grid:4x4", method="greedy")
    words = spoken()
    return {
        "mask": whymask.explain(photo, model, regions="grid:4x4", k=4, null=["se"]),
        "ordering": ranking.with_curves(whymask.replay(ranking, model)),
        "repair": whymask.repair(photo, model, want="se", method="greedy", regions="grid:4x4"),
        "answers": answers(3),
        "words": replace(words, text=words.text.replace("\N{FOX FACE}", "-")),  # which no font of figures has
    }


KINDS = ["mask", "ordering", "repair", "answers", "words"]


def scales(figure):
    """Inches that a pixel of the photo has, across and down, in every panel that shows the photo or a part of it."""
    figure.draw_without_rendering()
    found = []
    for axes in figure.axes:
        if axes.get_images():
            (x0, y0), (x1, y1) = axes.transData.transform([(0, 0), (1, 1)])
            found.append((x1 - x0, y0 - y1))
    return np.array(found) / figure.dpi


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("kind", ["mask", "ordering"])
def test_the_crop_and_the_photo_have_one_scale(of_every_kind, kind, width):
    """And the crop lies in its panel where it lies on the photo."""
    result = of_every_kind[kind]
    figure = result.figure(width)
    found = scales(figure)
    assert len(found) == {"mask": 4, "ordering": 3}[kind]
    np.testing.assert_allclose(found, found[0, 0], rtol=1e-3)
    height, wide = result.image.photo.shape[:2]
    left, top, right, bottom = result.image.box
    extent = [left * wide - 0.5, right * wide - 0.5, bottom * height - 0.5, top * height - 0.5]
    assert figure.axes[-2 if kind == "mask" else 1].get_images()[0].get_extent() == pytest.approx(extent)


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("kind", KINDS)
def test_figures_for_papers(of_every_kind, kind, width):
    """As wide as they should be, nothing outside; text and lines as vectors, the photo as pixels."""
    figure = of_every_kind[kind].figure(width)
    inches = {"page": 7.2, "column": 3.4}[width]
    pdf = encoded(figure, "pdf")
    shown = figure.get_tightbbox()
    assert -0.01 <= shown.x0 < shown.x1 <= inches + 0.01
    assert b"/Subtype /Image" in pdf
    assert b"/FontFile2" in pdf  # TrueType
    assert b"/Type3" not in pdf
    ((across, high),) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    assert float(across) == pytest.approx(72 * inches, abs=0.5)
    assert float(high) == pytest.approx(72 * shown.height, abs=8)  # no empty part


def test_a_figure_is_one_file_and_the_same_every_time(of_every_kind, tmp_path):
    mask = of_every_kind["mask"]
    svg, again = (mask.savefig(tmp_path / f"{i}.svg", width="column").read_text() for i in range(2))
    assert svg == again
    assert "data:image/png;base64," in svg
    assert svg.count("<path") > 10
    assert not re.search(r"(?:href|src)=\"(?!#|data:)", svg)
    pdf, again = (mask.savefig(tmp_path / f"{i}.pdf").read_bytes() for i in range(2))
    assert pdf == again


def test_an_unknown_width_is_an_error(of_every_kind, tmp_path):
    with pytest.raises(whymask.WhymaskError, match="did you mean 'column'"):
        of_every_kind["ordering"].savefig(tmp_path / "figure.pdf", width="colunm")


@pytest.mark.parametrize("kind", KINDS)
def test_a_caption_has_all_numbers(of_every_kind, kind):
    result = of_every_kind[kind]
    caption = result.caption()
    masks = {"mask": [result], "repair": [result], "ordering": []}.get(
        kind, result if kind in ("answers", "words") else []
    )
    scores = [result.full_score, result.blank_score] if kind == "ordering" else []
    for mask in masks:
        scores += [mask.full_score, mask.score, mask.removed_score, mask.blank_score]
        assert f"{len(mask.regions)} of 16 regions ({mask.area:.1%} of what the model sees)" in caption
    if kind in ("mask", "repair"):
        controls = result.controls
        scores += [controls.flat, controls.shuffled, *controls.fills.values(), *controls.null.values()]
        assert result.verdict.sentence in caption
    for score in scores:
        assert f"{score:.2f}" in caption
    if kind == "ordering":
        for auc in (result.curves.insertion_auc, result.curves.deletion_auc):
            assert f"{auc:.3f}" in caption
    for name in ("model", "method", "regions", "fill"):
        assert str(result.provenance[name]) in caption
    assert f"{result.ledger.mec} forwards." in caption
    assert "\n" not in caption


def test_the_caption_of_a_text_names_words_without_evidence(of_every_kind):
    caption = of_every_kind["words"].caption()
    assert "\u201ctenth\u201d has none: it scores 0.50 on the whole image and 0.45 on a blank one." in caption
    assert "asked \u201cCount.\u201d" in caption


def test_a_caption_holds_no_control_characters(of_every_kind):
    mask = of_every_kind["mask"]
    image = replace(mask.image, target=Target(0, "tri\u202epod\x07"))
    assert not set("\u202e\x07") & set(replace(mask, image=image).caption())


def test_show_in_a_notebook(monkeypatch, ranking):
    shown = []
    notebook = ModuleType("IPython")
    notebook.get_ipython = lambda: SimpleNamespace(kernel="a kernel")
    display = ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    ranking.show()
    assert shown == [ranking]


@pytest.mark.parametrize("shell", [None, "a shell in a terminal"])
def test_show_in_a_terminal(monkeypatch, ranking, shell):
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    titles = []
    monkeypatch.setattr(Image.Image, "show", lambda self, title: titles.append((self.format, title)))
    ranking.show()
    assert titles == [("PNG", "whymask")]


def test_show_elsewhere(monkeypatch, ranking):
    monkeypatch.setitem(sys.modules, "IPython", None)
    titles = []
    monkeypatch.setattr(Image.Image, "show", lambda self, title: titles.append((self.format, title)))
    ranking.show()
    assert titles == [("PNG", "whymask")]
