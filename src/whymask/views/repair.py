"""Before and after a repair, both as the model sees them."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.views.figure import EVIDENCE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from whymask.repaired import Repair


def repair_figure(repair: Repair) -> Figure:
    """The original with its answer and probability, and the image with only the kept regions and its answer."""
    from matplotlib.figure import Figure

    scene, mask = repair.scene, repair.mask
    height, width = mask.shape
    figure = Figure(figsize=(7.2, 3.6 * min(1.4, max(0.6, height / width)) + 0.7), layout="compressed")
    panels: Any = figure.subplots(1, 2)
    before, after = panels
    for axes, image in ((before, scene.canvas), (after, np.where(mask[..., None], scene.canvas, scene.fill))):
        axes.imshow(image, interpolation="nearest")
        axes.set(xticks=[], yticks=[], autoscale_on=False)
        axes.spines[:].set_visible(False)
    # Padded, so that a border at the image's edge is a border too.
    before.contour(np.pad(mask, 1), levels=[0.5], colors=[EVIDENCE], linewidths=1.4, extent=(-1, width, -1, height))
    before.set_title(f"whole image\n{_said(repair.given, repair.given_score)}", fontsize=9)
    kept = f"only {len(repair.regions)} of {repair.n} regions, {repair.area:.0%} of the image"
    # The wanted answer's probability belongs to what is said only where that is the wanted answer.
    said = _said(repair.answer, repair.score if repair.repaired else None)
    wanted = "" if repair.repaired else f', "{scene.target.label}" {repair.score:.2f}'
    after.set_title(f"{kept}\n{said}{wanted}", fontsize=9)
    if question := repair.provenance.get("question"):
        figure.suptitle(fill(question, 80), fontsize=10)
    return figure


def _said(answer: str, score: float | None) -> str:
    return f'says "{fill(answer, 40)}"' + ("" if score is None else f" ({score:.2f})")
