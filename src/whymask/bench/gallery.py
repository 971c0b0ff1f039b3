"""The paper's qualitative figures: a row for every sample, a column for every method, and the curves beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whymask.bench.evidence import Evidence
from whymask.results.figure import headline, show_evidence, slope
from whymask.results.plotting import LINES, WIDTH, bare, fixed_scales, small_text, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES = 1.25  # width of the panel of the curves, in those of the others
TEXT, LETTER = 6.5, 0.053  # points of the text below panels, and inches of one of its letters
REPAIRED, WRONG = LINES[2][0], LINES[1][0]  # green and vermilion, which are told apart


@small_text
def comparison(rows: Sequence[Sequence[Evidence]], against: str) -> Figure:
    """Each row a sample: the image, what each method shows as its evidence, and the insertion curves.

    Delta AUC is a method's insertion AUC less that of `against`; positive means that the score is recovered earlier.
    """
    figure, panels = _grid(rows, below=0.5)
    for found, (photo, *shown, curves) in zip(rows, panels, strict=True):
        bare(photo, found[0].image.photo)
        photo.set_xlabel(headline(found[0].image))
        reference = next((one for one in found if one.method == against and one.curves), None)
        for axes, one, (colour, line) in zip(shown, found, LINES, strict=False):
            show_evidence(axes, one.image, one.regions)
            size = f"{len(one.regions)} of {one.image.partition.n} regions ({one.area:.0%})"
            axes.set_xlabel("\n".join([size, *_numbers(one, reference)]))
            if one.curves:
                curves.plot(one.curves.x, one.curves.insertion_curve, color=colour, linestyle=line, label=one.method)
            else:
                curves.plot([one.area], [one.record["score"]], "o", color=colour, clip_on=False, label=one.method)
        fixed_scales(curves, "share of the area inserted")
    _legend(figure, panels, rows)
    return figure


def _numbers(one: Evidence, reference: Evidence | None) -> list[str]:
    if one.curves is None:
        return [f"score {one.record['score']:.3f}"]
    auc = f"AUC {one.record['insertion_auc']:.3f}"
    if reference is None or one is reference:
        return [auc]
    gain = f"{one.record['insertion_auc'] - reference.record['insertion_auc']:+.3f}"
    return [auc, f"\u0394AUC {gain}".replace("-", "\u2212")]


@small_text
def repairs(rows: Sequence[Sequence[Evidence]]) -> Figure:
    """Each row a wrong answer: the image, what each method kept of it with the new answer, and the curves.

    The curve of an ordering is the score of the wanted answer as its regions enter, with a dot on every prefix that is
    answered as wanted; a mask is one point, filled where it repairs.
    """
    figure, panels = _grid(rows, below=0.6)
    room = int(WIDTH / (1 + len(rows[0]) + CURVES) / LETTER)
    for found, (photo, *shown, curves) in zip(rows, panels, strict=True):
        image, first = found[0].image, found[0]
        wanted = f'"{wrapped(image.target.label, room - 7)}"'
        bare(photo, image.photo)
        asked = [wrapped(first.question, room)] if first.question else []
        photo.set_xlabel("\n".join([*asked, _says(first.record["given"], room), f"{wanted} {image.full_score:.2f}"]))
        for axes, one, (colour, line) in zip(shown, found, LINES, strict=False):
            bare(axes, image.only(one.tried), interpolation="nearest")
            fixed = bool(one.record["repaired"])
            size = f"{len(one.tried)} of {image.partition.n} regions ({one.tried_area:.0%})"
            answer = _says(one.record["answer"], room)
            axes.set_xlabel(f"{size}\n{answer}\n{wanted} {one.tried_score:.2f}", color=REPAIRED if fixed else WRONG)
            _draw_repair(curves, one, {"color": colour, "linestyle": line, "label": one.method})
        curves.axhline(image.full_score, color="#777777", linewidth=0.8, linestyle=":")
        fixed_scales(curves, "share of the area kept")
        curves.set_ylabel(f"score of {wanted}")
    _legend(figure, panels, rows)
    return figure


def _says(answer: str, room: int) -> str:
    return wrapped(f'says "{answer}"', room)


def _draw_repair(axes: Axes, one: Evidence, style: dict[str, Any]) -> None:
    if one.curves is None:
        face = style["color"] if one.record["repaired"] else "white"
        point = {**style, "linestyle": "none", "marker": "o", "markerfacecolor": face, "markersize": 6}
        axes.plot([one.tried_area], [one.tried_score], clip_on=False, **point)
        return
    axes.plot(one.curves.x, one.curves.insertion_curve, **style)
    right = one.record["right"]
    y = one.curves.insertion_curve[right]
    axes.plot(one.curves.x[right], y, "o", color=style["color"], markersize=3, clip_on=False)


def _grid(rows: Sequence[Sequence[Evidence]], below: float) -> tuple[Figure, list[list[Axes]]]:
    """A page-wide figure of panels, the names of the methods above the first row; `below` inches of text a row."""
    from matplotlib.figure import Figure

    methods = [one.method for one in rows[0]]
    ratios = [1.0] * (1 + len(methods)) + [CURVES]
    heights = [WIDTH / sum(ratios) * slope(found[0].image) + below for found in rows]
    figure = Figure(figsize=(WIDTH, sum(heights) + 0.5), layout="constrained")
    made: Any = figure.subplots(len(rows), len(ratios), width_ratios=ratios, height_ratios=heights, squeeze=False)
    panels: list[list[Axes]] = [list(line) for line in made]
    for axes, title in zip(panels[0], ["image", *(wrapped(name, 60) for name in methods)], strict=False):
        axes.set_title(title, weight="bold")
    for line in panels:
        line[-1].set_box_aspect(1)
        for axes in line[:-1]:
            axes.xaxis.label.set_fontsize(TEXT)
    return figure, panels


def _legend(figure: Figure, panels: Sequence[Sequence[Axes]], rows: Sequence[Sequence[Evidence]]) -> None:
    """The methods' colours once, below all rows; axes are named once too."""
    for line in panels[:-1]:
        line[-1].set_xlabel("")
    handles, labels = panels[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(rows[0]), frameon=False)
