"""Several results of one image side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.errors import WhymaskError
from whymask.results import EvidenceMask, EvidenceMasks, ExplainedImage, Explanation, Ordering, Repair
from whymask.results.figure import aspect, headline, said, show_evidence, slope
from whymask.results.plotting import LINES, WIDTH, bare, fixed_scales, small_text, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

BELOW = 2.1  # inches: the height of the curves


@small_text
def compare_figure(explanations: Sequence[EvidenceMask | Ordering]) -> Figure:
    """Several methods on one image: the evidence each of them shows, and their curves in common axes.

    An ordering shows the prefix that keeps 80 % of the whole score. Its delta AUC is its insertion AUC less that of
    the first ordering; positive means that the target's score is recovered earlier. A mask is a point: its area and its
    score.
    """
    image = common_image(explanations)
    panel = min(WIDTH / len(explanations), 2.4 * aspect(image))
    figure, above, tops, below = _panels(len(explanations), panel / aspect(image) + 0.9)
    insertion, deletion = below.subplots(1, 2, sharey=True)
    reference = next((one.curves for one in explanations if isinstance(one, Ordering) and one.curves), None)
    for axes, one, (colour, line) in zip(tops, explanations, cycle(LINES), strict=False):
        regions = one.regions if isinstance(one, EvidenceMask) else one.order[: one.prefix]
        show_evidence(axes, one.image, regions)
        method = wrapped(str(one.provenance["method"]), 60)
        area = float(one.image.partition.areas[list(regions)].sum())
        size = f"{len(regions)} of {one.n} regions ({area:.0%})"
        lines = [method, size]
        if isinstance(one, EvidenceMask):
            lines = [method, f"{size}: {one.score:.2f}"]
            insertion.plot([area], [one.score], "o", clip_on=False, color=colour, label=method)
            deletion.plot([area], [one.removed_score], "o", clip_on=False, color=colour)
        elif one.curves and reference:
            auc = one.curves.insertion_auc
            gain = f"AUC {auc:.3f}" if one.curves is reference else f"\u0394AUC {auc - reference.insertion_auc:+.3f}"
            lines = [method, f"{size}: {one.curves.insertion[one.prefix - 1]:.2f}", gain]
            style: dict[str, Any] = {"color": colour, "linestyle": line}
            insertion.plot(one.curves.x, one.curves.insertion_curve, label=method, **style)
            deletion.plot(one.curves.x, one.curves.deletion_curve, **style)
        axes.set_title("\n".join(lines))
    fixed_scales(insertion, "share of the area inserted")
    fixed_scales(deletion, "share of the area deleted")
    deletion.set_ylabel("")
    if insertion.get_legend_handles_labels()[0]:
        insertion.legend(frameon=False, loc="lower right")
    above.suptitle(headline(image).replace("\n", ", "), fontsize=8.5)
    return figure


@small_text
def repair_panel(repairs: Sequence[Repair]) -> Figure:
    """Several methods on one wrong answer: the image, each method's best mask with its answer, and their curves.

    The curve of a full search is the wanted answer's score as its regions enter, with a dot on every prefix that is
    answered as wanted; a mask method is one point, filled where it repairs.
    """
    image = common_image(repairs)
    columns = 1 + len(repairs)
    figure, above, tops, below = _panels(columns, WIDTH / columns * slope(image) + 0.75)
    bare(tops[0], image.canvas, interpolation="nearest")
    wanted = f'"{wrapped(image.target.label, 20)}"'
    tops[0].set_title(
        f"whole image\n{wanted} {image.full_score:.2f}\n{said(repairs[0].given, repairs[0].given_score, 18)}"
    )
    curves = below.subplots()
    for axes, repair, (colour, line) in zip(tops[1:], repairs, cycle(LINES), strict=False):
        method = wrapped(str(repair.provenance["method"]), 60)
        bare(axes, repair.image.only(repair.regions), interpolation="nearest")
        axes.set_title(f"{method}\n{len(repair.regions)} of {repair.n} regions, {repair.area:.0%}\n{repair.says(18)}")
        if repair.order:
            areas = np.cumsum(repair.image.partition.areas[list(repair.order)])
            x, y = np.append(0, areas), np.append(image.blank_score, repair.scores)
            curves.plot(x, y, color=colour, linestyle=line, label=method)
            right = np.flatnonzero(repair.right)
            if right.size:  # an empty line that is not clipped can make the layout collapse
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


def common_image(explanations: Sequence[Explanation]) -> ExplainedImage:
    """What all of them explain; raises an error where that is not the same."""
    if not explanations:
        raise WhymaskError("there is nothing to compare: pass at least one explanation.")
    first = explanations[0].image
    for one in explanations:
        if isinstance(one, EvidenceMasks):
            raise WhymaskError("a result with masks for several answers cannot be compared: pass its masks one by one.")
        if not np.array_equal(one.image.canvas, first.canvas) or one.target != first.target:
            raise WhymaskError("only explanations of one image and one answer can be compared.")
    return first


def _panels(columns: int, height: float) -> tuple[Figure, SubFigure, Sequence[Axes], SubFigure]:
    """A figure, its upper part of this height, a row of panels in it, and the lower part for curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height + BELOW), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[height, BELOW])
    above, below = halves
    return figure, above, above.subplots(1, columns, squeeze=False)[0], below
