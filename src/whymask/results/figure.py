"""The figure of one result: the evidence, the scores with and without it, and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.arrays import Bools, Floats
from whymask.images.imaging import Box
from whymask.metrics.curves import Curves
from whymask.results.base import ExplainedImage, Explanation
from whymask.results.plotting import (
    EVIDENCE,
    LINES,
    Width,
    bare,
    contour,
    fixed_scales,
    halo,
    inches,
    letters,
    small_text,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

(INSERTION, _), (DELETION, _) = LINES[:2]
TALLEST, WIDEST = 0.75, 2.0  # width / height of the photo's panel
HIGHEST, LOWEST = 1.4, 0.6  # height / width of the panel of what the model sees
TITLE = 1.05  # inches that the title of a panel needs
REMARK: dict[str, Any] = {"fontsize": 6.5, "color": "#333333"}
NUMBERED = 100  # of more regions, each is smaller than its number


@small_text
def mask_figure(
    result: Explanation, regions: Sequence[int], score: float, removed_score: float, verdict: str, width: Width
) -> Figure:
    """The verdict, the photo, its evidence, the image the model saw with only the evidence, and without it."""
    figure, axes = _panels(result.image, width, photos=2, halves=2, above=wrapped(verdict, letters(105, width)))
    photo, marked, kept, removed = axes
    bare(photo, result.image.photo)
    _frame(photo, result.image)
    photo.set_title(headline(result.image))
    show_evidence(marked, result.image, regions, result.names(regions) if result.n <= NUMBERED else ())
    marked.set_title(f"the evidence\n{len(regions)} of {result.n} regions")
    _show_halves((kept, removed), result.image, regions, f"{len(regions)} of {result.n}", (score, removed_score))
    _divide(axes, result)
    return figure


@small_text
def ordering_figure(
    result: Explanation, heat: Floats, first: Sequence[int], curves: Curves | None, width: Width
) -> Figure:
    """Every region's rank (H, W), the image with only the first regions, without them, and the curves of the replay."""
    image, prefix = result.image, len(first)
    figure, (photo, kept, removed, *plots) = _panels(image, width, photos=1, halves=2, plots=1 if curves else 0)
    _show_photo(photo, image, None)
    shown = bare(photo, image.on_photo(heat, outside=np.nan), cmap="cividis", vmin=0, vmax=1, alpha=0.6)
    photo.set_title(headline(image))
    below = photo.inset_axes((0.3, -0.1, 0.4, 0.05))  # takes no room of the photo, which stays as large as the others
    figure.colorbar(shown, cax=below, ticks=[], orientation="horizontal")
    for place, name, side in ((-0.06, "last", "right"), (1.06, "first", "left")):
        below.text(place, 0.4, name, transform=below.transAxes, ha=side, va="center", fontsize=6.5)
    below.set_xlabel(photo.get_xlabel(), **REMARK)  # below the colours, however tall the photo is
    photo.set_xlabel("")
    scores = (curves.insertion[prefix - 1], curves.deletion[prefix - 1]) if curves else ()
    _show_halves((kept, removed), image, first, f"the first {prefix}", scores)
    _divide((photo, kept, removed), result)
    if curves:
        _draw_curves(plots[0], curves, prefix)
    return figure


def repair_figure(
    result: Explanation, regions: Sequence[int], titles: tuple[str, str], below: str, verdict: str, width: Width
) -> Figure:
    """The verdict, what the model sees with the regions outlined, and the image with only them, each with a title."""
    from matplotlib.figure import Figure

    image = result.image
    question = result.provenance.get("question")
    above = wrapped(verdict, letters(90, width)) + (f"\n{wrapped(question, letters(80, width))}" if question else "")
    below = wrapped(below, letters(100, width))
    lines = above.count("\n") + below.count("\n") + max(title.count("\n") for title in titles)
    wide = inches(width)
    points = 9 if width == "page" else 7.5
    figure = Figure(figsize=(wide, wide / 2 * slope(image) + 0.6 + points / 60 * lines), layout="compressed")
    panels: Any = figure.subplots(1, 2)
    before, after = panels
    bare(before, image.canvas, interpolation="nearest")
    before.set(autoscale_on=False)
    bare(after, image.only(regions), interpolation="nearest")
    contour(before, image.pixels(regions), 1.4).set_path_effects(halo(2.2))
    _divide(panels, result)
    for axes, title in zip((before, after), titles, strict=True):
        axes.set_title(title, fontsize=points)
    figure.supxlabel(below, fontsize=points - 1)
    figure.suptitle(above, fontsize=points, weight="bold")
    return figure


def headline(image: ExplainedImage) -> str:
    """The answer and its score, in two lines."""
    return f"{wrapped(image.target.label, 26)}\nwhole image: {image.full_score:.2f}"


def said(answer: str, score: float | None, width: int = 40) -> str:
    """An answer of the model, with its probability where that is known."""
    return f'says "{wrapped(answer, width)}"' + ("" if score is None else f" ({score:.2f})")


def aspect(image: ExplainedImage) -> float:
    """Width / height of a panel that shows the photo."""
    height, width = image.photo.shape[:2]
    return float(min(WIDEST, max(TALLEST, width / height)))


def slope(image: ExplainedImage) -> float:
    """Height / width of a panel that shows what the model sees."""
    height, width = image.canvas.shape[:2]
    return float(min(HIGHEST, max(LOWEST, height / width)))


def show_evidence(axes: Axes, image: ExplainedImage, regions: Sequence[int], names: Sequence[int] = ()) -> None:
    """The photo with some regions outlined: each with its name, or all together where no names are given."""
    mask = image.pixels(regions)
    _show_photo(axes, image, mask)
    together = image.on_photo(mask) > 0
    if not names and together.any():
        contour(axes, together, 0.9)
    for region, name in zip(regions, names, strict=False):
        inside = image.on_photo(image.pixels([int(region)])) > 0
        rows, cols = np.nonzero(inside)
        if not len(rows):
            continue  # thinner than a pixel of the photo
        contour(axes, inside, 0.9)
        style: dict[str, Any] = {"color": EVIDENCE, "fontsize": 5.5, "weight": "bold", "ha": "center", "va": "center"}
        axes.text(cols.mean(), rows.mean(), str(name), clip_on=True, path_effects=halo(), **style)


def dimmed(image: ExplainedImage, mask: Bools) -> Floats:
    """(h, w, 3) the photo, darker where it is no evidence."""
    return np.where(image.on_photo(mask)[..., None] > 0, 1.0, 0.45) * image.photo


def _draw_curves(axes: Axes, curves: Curves, prefix: int) -> None:
    """Insertion and deletion over the area, on the fixed scale 0 to 1; a prefix of the ordering is marked."""
    axes.plot(curves.x, curves.insertion_curve, color=INSERTION, label=f"insertion, AUC {curves.insertion_auc:.2f}")
    label = f"deletion, AUC {curves.deletion_auc:.2f}"
    axes.plot(curves.x, curves.deletion_curve, color=DELETION, linestyle="--", label=label)
    area = curves.areas[prefix - 1]
    axes.axvline(area, color="#777777", linewidth=0.8, linestyle=":")
    axes.plot([area], [curves.insertion[prefix - 1]], "o", color=INSERTION, markersize=4, clip_on=False)
    axes.plot([area], [curves.deletion[prefix - 1]], "o", color=DELETION, markersize=4, clip_on=False)
    fixed_scales(axes, "share of the area")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 0.98), borderpad=0)


def _panels(
    image: ExplainedImage, width: Width, *, photos: int, halves: int, plots: int = 0, above: str = ""
) -> tuple[Figure, list[Axes]]:
    """Panels and text above them: a row on a page, two in a row in a column.

    First those that show the photo, then those that show what the model sees of it at the same scale, then square ones.
    """
    from matplotlib.figure import Figure

    rows, wide, shown = (1 if width == "page" else 2), inches(width), aspect(image)
    outer_left, outer_right, top, bottom = frame(image)
    left, right, *_ = _seen(image)
    left, right = max(left, outer_left), min(right, outer_right)
    if rows == 1:  # no panel is narrower than its title
        others = photos * shown + plots
        half = max((right - left) / (bottom - top), others * TITLE / (wide - halves * TITLE))
        ratios = [shown] * photos + [half] * halves + [1.0] * plots
        margin = (half * (bottom - top) - (right - left)) / 2
        sides, high = (left - margin, right + margin), wide / sum(ratios)
    else:  # below each other panels have one scale where they have one width: all have the photo's shape
        ratios, sides, high = [1.0, 1.0], (outer_left, outer_right), wide / shown
    text = 0.17 * (above.count("\n") + 1) if above else 0.0
    figure = Figure(figsize=(wide, high + 0.62 * rows + text), layout="compressed")
    if above:
        figure.suptitle(above, fontsize=8, weight="bold")
    grid: Any = figure.subplots(rows, len(ratios), width_ratios=ratios, squeeze=False)
    panels = list(grid.flat)
    used = photos + halves + plots
    for axes in panels[used:]:
        axes.set_axis_off()
    for axes in panels[photos : photos + halves]:
        axes.set(xlim=sides, ylim=(bottom, top))
    return figure, panels[:used]


def _show_halves(
    panels: Sequence[Axes], image: ExplainedImage, regions: Sequence[int], which: str, scores: Sequence[float]
) -> None:
    """The image with only some regions, and without them, where it lies on the photo; each with its score, if known."""
    mask = image.pixels(regions)
    titles = f"only {which} ({mask.mean():.0%})", f"without them ({1 - mask.mean():.0%})"
    for axes, title, score in zip_longest(panels, titles, scores):
        axes.set_title(title if score is None else f"{title}\n{score:.2f}")
    left, right, top, bottom = _seen(image)
    shown = image.only(regions), np.where(mask[..., None], image.fill, image.canvas)
    for axes, pixels in zip(panels, shown, strict=True):
        limits = axes.get_xlim(), axes.get_ylim()
        bare(axes, pixels, extent=(left, right, bottom, top))
        axes.set(xlim=limits[0], ylim=limits[1])


def _show_photo(axes: Axes, image: ExplainedImage, mask: Bools | None) -> None:
    """The whole photo; what the model does not see of it is faded, and what is no evidence is dimmed."""
    seen = image.on_photo(np.ones(image.canvas.shape[:2])) > 0
    shown = image.photo.astype(float)
    faded = 0.25 * shown + 0.75 * 255
    if mask is not None:
        shown = dimmed(image, mask)
    bare(axes, np.where(seen[..., None], shown, faded).clip(0, 255).astype(np.uint8))
    _frame(axes, image)
    if seen.mean() < 0.999:
        axes.set_xlabel("faded: not seen by the model", **REMARK)


def _divide(panels: Sequence[Axes], result: Explanation) -> None:
    """A line between images that were explained together, on whatever shows all of them."""
    for axes in panels:
        begin, end, *_ = axes.get_images()[0].get_extent()
        for _, left, *_ in result.panels[1:]:
            share = left / result.image.canvas.shape[1]
            axes.axvline(begin + share * (end - begin), color="white", linewidth=2)


def _seen(image: ExplainedImage) -> tuple[float, float, float, float]:
    """(left, right, top, bottom) of what the model sees, in pixels of the photo, the first of which is around 0."""
    height, width = image.photo.shape[:2]
    left, top, right, bottom = image.box
    return left * width - 0.5, right * width - 0.5, top * height - 0.5, bottom * height - 0.5


def frame(image: ExplainedImage) -> tuple[float, float, float, float]:
    """(left, right, top, bottom) of what a panel shows of the photo, in its pixels: all of it, as a rule.

    Of a panorama or a very tall photo it is the part around what the model sees: a panel has only so much room.
    """
    height, width = image.photo.shape[:2]
    if WIDEST * height >= width >= TALLEST * height:
        return -0.5, width - 0.5, -0.5, height - 0.5
    left, right, top, bottom = window(width, height, image.box)
    return left - 0.5, right - 0.5, top - 0.5, bottom - 0.5


def _frame(axes: Axes, image: ExplainedImage) -> None:
    left, right, top, bottom = frame(image)
    axes.set(xlim=(left, right), ylim=(bottom, top))


def window(width: int, height: int, box: Box) -> tuple[float, float, float, float]:
    """(left, right, top, bottom) of the part of a photo that has the shape of a panel and holds what the model sees."""
    left, top, right, bottom = np.multiply(box, (width, height, width, height)).tolist()
    if width > WIDEST * height:
        wide = max(right - left, WIDEST * height)
        high = wide / WIDEST
    else:
        high = max(bottom - top, width / TALLEST)
        wide = high * TALLEST
    return *_span((left + right) / 2, wide, width), *_span((top + bottom) / 2, high, height)


def _span(centre: float, length: float, whole: float) -> tuple[float, float]:
    """`length` around the centre, moved into 0 ... `whole`; around the middle of that where it is longer."""
    middle = min(max(centre, length / 2), whole - length / 2) if length < whole else whole / 2
    return middle - length / 2, middle + length / 2
