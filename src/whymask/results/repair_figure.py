"""Repairs as the model sees them: before and after, and several methods side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.results.figure import EVIDENCE, LINES, WIDTH, bare, common_image, fixed_scales, halo, small_text, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from whymask.results.base import ExplainedImage
    from whymask.results.repair import Repair

HIGHEST, LOWEST = 1.4, 0.6  # height / width of an image's panel


def repair_figure(repair: Repair) -> Figure:
    """The original with its answer and probability, and the image with only the kept regions and its answer.

    Below them the wanted answer's score on both and on an empty image: where that has it too, the regions prove little.
    """
    from matplotlib.figure import Figure

    image, mask = repair.image, repair.mask
    height, width = mask.shape
    figure = Figure(figsize=(WIDTH, WIDTH / 2 * _slope(image) + 0.8), layout="compressed")
    panels: Any = figure.subplots(1, 2)
    before, after = panels
    bare(before, image.canvas, interpolation="nearest")
    before.set(autoscale_on=False)
    _show_kept(after, repair)
    # Padded, so that a border at the image's edge is a border too.
    extent = (-1, width, -1, height)
    border = before.contour(np.pad(mask, 1), levels=[0.5], colors=[EVIDENCE], linewidths=1.4, extent=extent)
    border.set_path_effects(halo(2.2))
    before.set_title(f"whole image\n{_said(repair.given, repair.given_score)}", fontsize=9)
    kept = f"only {len(repair.regions)} of {repair.n} regions, {repair.area:.0%} of the image"
    after.set_title(f"{kept}\n{_verdict(repair, 40)}", fontsize=9)
    scores = (
        f'"{repair.target.label}" scores {image.full_score:.2f} on the whole image, '
        f"{repair.score:.2f} on these regions and {image.blank_score:.2f} on an empty image"
    )
    figure.supxlabel(wrapped(scores, 100), fontsize=8)
    if question := repair.provenance.get("question"):
        figure.suptitle(wrapped(question, 80), fontsize=10)
    return figure


@small_text
def repair_panel(repairs: Sequence[Repair]) -> Figure:
    """Several methods on one wrong answer: the image, each method's best mask with its answer, and their curves.

    The curve of a full search is the wanted answer's score as its regions enter, with a dot on every prefix that is
    answered as wanted; a mask method is one point, filled where it repairs.
    """
    from matplotlib.figure import Figure

    image = common_image(repairs)
    columns = 1 + len(repairs)
    height = WIDTH / columns * _slope(image) + 0.75
    figure = Figure(figsize=(WIDTH, height + 2.1), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[height, 2.1])
    above, below = halves
    tops: Any = above.subplots(1, columns, squeeze=False)[0]
    bare(tops[0], image.canvas, interpolation="nearest")
    wanted = f'"{wrapped(image.target.label, 20)}"'
    tops[0].set_title(
        f"whole image\n{wanted} {image.full_score:.2f}\n{_said(repairs[0].given, repairs[0].given_score, 18)}"
    )
    curves = below.subplots()
    for axes, repair, (colour, line) in zip(tops[1:], repairs, cycle(LINES), strict=False):
        method = wrapped(str(repair.provenance["method"]), 60)
        _show_kept(axes, repair)
        axes.set_title(
            f"{method}\n{len(repair.regions)} of {repair.n} regions, {repair.area:.0%}\n{_verdict(repair, 18)}"
        )
        if repair.order:
            areas = np.cumsum(image.partition.areas[list(repair.order)])
            x, y = np.append(0, areas), np.append(image.blank_score, repair.scores)
            curves.plot(x, y, color=colour, linestyle=line, label=method)
            right = np.flatnonzero(repair.right)
            curves.plot(areas[right], y[1 + right], "o", color=colour, markersize=3, clip_on=False)
        else:
            face = colour if repair.repaired else "white"
            curves.plot([repair.area], [repair.score], "o", color=colour, markerfacecolor=face, markersize=6,
                        clip_on=False, label=method)  # fmt: skip
    if any(repair.order for repair in repairs):
        curves.plot([], [], "o", color="#777777", markersize=3, label=f"says {wanted}")
    curves.axhline(image.full_score, color="#777777", linewidth=0.8, linestyle=":", label="whole image")
    fixed_scales(curves, "share of the area kept")
    curves.set_ylabel(f"score of {wanted}")
    curves.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    question = repairs[0].provenance.get("question")
    above.suptitle(wrapped(question or f"wanted: {image.target.label}", 90), fontsize=8.5)
    return figure


def _slope(image: ExplainedImage) -> float:
    height, width = image.canvas.shape[:2]
    return float(min(HIGHEST, max(LOWEST, height / width)))


def _show_kept(axes: Axes, repair: Repair) -> None:
    """What the model sees of the kept regions."""
    image = repair.image
    bare(axes, np.where(repair.mask[..., None], image.canvas, image.fill), interpolation="nearest")


def _verdict(repair: Repair, width: int) -> str:
    """What it says now; the wanted answer's probability belongs to that only where it is the wanted answer."""
    if repair.repaired:
        return _said(repair.answer, repair.score, width)
    return f'{_said(repair.answer, None, width)}, "{wrapped(repair.target.label, width)}" {repair.score:.2f}'


def _said(answer: str, score: float | None, width: int = 40) -> str:
    return f'says "{wrapped(answer, width)}"' + ("" if score is None else f" ({score:.2f})")
