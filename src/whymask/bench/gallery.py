"""The paper's qualitative figures: a row for every sample, a column for every method, and the curves beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.bench.evidence import Evidence
from whymask.bench.lettering import LEADING, TEXT, TITLE, fitted, legend
from whymask.results.figure import HIGHEST, show_evidence
from whymask.results.plotting import LINES, WIDTH, bare, fixed_scales, small_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = 1.2  # width of the panel of the curves, in those of the others
GAP, EDGE = 0.09, 0.12  # inches between panels, and at the edge of the page
LEFT, BELOW = 0.5, 0.36  # inches for the numbers and names of the curves' axes
SHORT = 4  # methods, from which on there is little room
REPAIRED, WRONG = LINES[2][0], LINES[1][0]  # green and vermilion, which colour-blind readers can tell apart
GREY = "#777777"


@small_text
def comparison(rows: Sequence[Sequence[Evidence]], against: str) -> Figure:
    """Each row a sample: the image, what each method shows as its evidence, and the insertion curves.

    Delta AUC is a method's insertion AUC less that of `against`; positive means that the score is recovered earlier.
    """
    figure, panels, room = _grid(rows)
    for found, (photo, *shown, curves) in zip(rows, panels, strict=True):
        image = found[0].image
        bare(photo, image.photo)
        whole = f"whole{' image' if len(found) < SHORT else ''}: {image.full_score:.2f}"
        _write(photo, [found[0].question or "", image.target.label, whole], room)
        reference = next((one for one in found if one.method == against and one.curves), None)
        for axes, one, (colour, line) in zip(shown, found, LINES, strict=False):
            show_evidence(axes, one.image, one.regions)
            _write(axes, [_size(one, one.regions, one.area, len(found)), *_numbers(one, reference)], room)
            if one.curves:
                curves.plot(one.curves.x, one.curves.insertion_curve, color=colour, linestyle=line)
            else:
                curves.plot([one.area], [one.record["score"]], "o", color=colour, clip_on=False)
        photo.set(xlim=shown[0].get_xlim(), ylim=shown[0].get_ylim())  # of a panorama, the same part
        fixed_scales(curves, "area inserted")
    _place(figure, panels, room, _methods(rows[0]))
    return figure


def _numbers(one: Evidence, reference: Evidence | None) -> list[str]:
    if one.curves is None:
        return [f"score {one.record['score']:.3f}"]
    auc = f"AUC {one.record['insertion_auc']:.3f}"
    if reference is None or one is reference:
        return [auc]
    gain = f"{one.record['insertion_auc'] - reference.record['insertion_auc']:+z.3f}"
    return [auc, f"\u0394AUC {gain}".replace("-", "\u2212")]


@small_text
def repairs(rows: Sequence[Sequence[Evidence]]) -> Figure:
    """Each row a wrong answer: the image, what each method kept of it with the new answer, and the curves.

    The curve of an ordering is the score of the wanted answer as its regions enter, with a dot on every prefix that is
    answered as wanted; a mask is one point, filled where it repairs.
    """
    figure, panels, room = _grid(rows)
    for found, (photo, *shown, curves) in zip(rows, panels, strict=True):
        image, first = found[0].image, found[0]
        wanted = f'"{image.target.label}"'
        bare(photo, image.photo)
        _write(photo, [first.question or "", _says(first.record["given"]), f"{wanted} {image.full_score:.2f}"], room)
        for axes, one, (colour, line) in zip(shown, found, LINES, strict=False):
            bare(axes, image.only(one.tried), interpolation="nearest")
            size = _size(one, one.tried, one.tried_area, len(found))
            _write(axes, [size, _says(one.record["answer"]), f"{wanted} {one.tried_score:.2f}"], room)
            axes.xaxis.label.set_color(REPAIRED if one.record["repaired"] else WRONG)
            _draw_repair(curves, one, {"color": colour, "linestyle": line})
        curves.axhline(image.full_score, color=GREY, linewidth=0.8, linestyle=":")
        fixed_scales(curves, "area kept")
        named = fitted(f"score of {wanted}", CURVES * room, TITLE)
        curves.set_ylabel("wanted score" if "\n" in named else named)
    _place(figure, panels, room, [*_methods(rows[0]), *_signs(rows[0])])
    return figure


def _says(answer: str) -> str:
    return f'says "{answer}"'


def _size(one: Evidence, regions: Sequence[int], area: float, methods: int) -> str:
    return f"{len(regions)} of {one.image.partition.n}{' regions' if methods < SHORT else ''} ({area:.0%})"


def _draw_repair(axes: Axes, one: Evidence, style: dict[str, Any]) -> None:
    if one.curves is None:
        face = style["color"] if one.record["repaired"] else "white"
        point = {**style, "linestyle": "none", "marker": "o", "markerfacecolor": face, "markersize": 6}
        axes.plot([one.tried_area], [one.tried_score], clip_on=False, **point)
        return
    axes.plot(one.curves.x, one.curves.insertion_curve, **style)
    if right := one.record["right"]:
        y = one.curves.insertion_curve[right]
        axes.plot(one.curves.x[right], y, "o", color=style["color"], markersize=3, clip_on=False)


def _methods(found: Sequence[Evidence]) -> list[tuple[Any, str]]:
    """The legend of the methods: a line each, or a dot where it returns a mask."""
    from matplotlib.lines import Line2D

    dot: dict[str, Any] = {"linestyle": "none", "marker": "o"}
    return [
        (Line2D([], [], color=colour, **({"linestyle": line} if one.curves else dot)), one.method)
        for one, (colour, line) in zip(found, LINES, strict=False)
    ]


def _signs(found: Sequence[Evidence]) -> list[tuple[Any, str]]:
    """The legend of what repair figures show beside the methods."""
    from matplotlib.lines import Line2D

    def sign(marker: str, colour: str, **style: Any) -> Any:
        return Line2D([], [], linestyle="none", marker=marker, color=colour, **style)

    orderings, masks = any(one.curves for one in found), any(one.curves is None for one in found)
    return [
        *([(sign("o", GREY, markersize=3), "prefix that repairs")] if orderings else []),
        *([(sign("o", GREY, markerfacecolor="white"), "mask that does not repair")] if masks else []),
        (Line2D([], [], color=GREY, linewidth=0.8, linestyle=":"), "whole image"),
        (sign("s", REPAIRED, markersize=5), "caption: repaired"),
        (sign("s", WRONG, markersize=5), "caption: not repaired"),
    ]


def _grid(rows: Sequence[Sequence[Evidence]]) -> tuple[Figure, list[list[Axes]], float]:
    """Panels that are placed later, the names of the methods above the first row; and inches of a panel's width."""
    from matplotlib.figure import Figure

    methods = [one.method for one in rows[0]]
    room = (WIDTH - 2 * EDGE - LEFT - len(methods) * GAP) / (1 + len(methods) + CURVES)
    figure = Figure()
    panels = [[figure.add_axes((0, 0, 1, 1)) for _ in range(len(methods) + 2)] for _ in rows]
    for axes, title in zip(panels[0], ["image", *methods], strict=False):
        axes.set_title(fitted(title, room, TITLE, bold=True), weight="bold", pad=4)
    return figure, panels, room


def _write(axes: Axes, texts: Sequence[str], room: float) -> None:
    """Text below a panel."""
    lines = "\n".join(fitted(text, room, TEXT) for text in texts if text)
    axes.set_xlabel(lines, fontsize=TEXT, labelpad=3)


def _place(figure: Figure, panels: Sequence[Sequence[Axes]], room: float, entries: Sequence[tuple[Any, str]]) -> None:
    """Put everything where it belongs, in inches: rows are as high as their panels and texts, the legend is below."""
    side = CURVES * room
    shapes = [max(_slope(axes) for axes in line[:-1]) for line in panels]
    texts = [_height([axes.get_xlabel() for axes in line[:-1]], TEXT) for line in panels]
    rows = [max(room * shape + text, side + BELOW) + EDGE for shape, text in zip(shapes, texts, strict=True)]
    top = EDGE + _height([axes.get_title() for axes in panels[0]], TITLE)
    low = EDGE + legend(figure, entries, WIDTH - 2 * EDGE, loc="lower center", bbox_to_anchor=(0.5, 0.0))
    height = top + sum(rows) + low
    figure.set_size_inches(WIDTH, height)
    for i, (line, shape) in enumerate(zip(panels, shapes, strict=True)):
        y = height - top - sum(rows[:i])

        def rectangle(x: float, wide: float, high: float, y: float = y) -> tuple[float, float, float, float]:
            return x / WIDTH, (y - high) / height, wide / WIDTH, high / height

        *shown, curves = line
        for j, axes in enumerate(shown):
            axes.set_position(rectangle(EDGE + j * (room + GAP), room, room * shape))
            axes.set_anchor("N")
        curves.set_position(rectangle(WIDTH - EDGE - side, side, side))
        curves.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        curves.yaxis.labelpad = 2
        if i < len(panels) - 1:  # axes are named once
            curves.set_xlabel("")


def _slope(axes: Axes) -> float:
    """Height / width of what a panel shows."""
    return float(min(HIGHEST, abs(np.diff(axes.get_ylim()) / np.diff(axes.get_xlim()))[0]))


def _height(texts: Sequence[str], size: float) -> float:
    """Inches of texts side by side."""
    return (max(text.count("\n") for text in texts) + 1) * size * LEADING + 0.1
