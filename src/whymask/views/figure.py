"""Figures: what was kept, what the model scores then, and how the score moves.

Built without pyplot, so that making a picture needs no screen and leaves no global state.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from whymask.imaging import Box
from whymask.metrics.curves import Curves
from whymask.objective import Bools, Floats
from whymask.results import EvidenceMask, Ordering, Scene, atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart by every kind of colour vision.
EVIDENCE = "#E69F00"
INSERTION = "#0072B2"
DELETION = "#D55E00"
MUTED = "#666666"


def mask_figure(evidence: EvidenceMask) -> Figure:
    """The photo with its evidence, the image the model saw with only the evidence, and without it."""
    scene = evidence.scene
    figure, (photo, kept, removed) = _panels(3, scene)
    _show_photo(photo, scene, evidence.mask)
    photo.set_title(f"{scene.target.label}\nwhole image: {scene.full_score:.2f}")
    mask = evidence.mask[..., None]
    _show(kept, np.where(mask, scene.canvas, scene.fill))
    kept.set_title(f"only {len(evidence.regions)} of {evidence.n} regions ({evidence.area:.0%})\n{evidence.score:.2f}")
    _show(removed, np.where(mask, scene.fill, scene.canvas))
    removed.set_title(f"everything else ({1 - evidence.area:.0%})\n{evidence.removed_score:.2f}")
    return figure


def ordering_figure(ordering: Ordering, curves: Curves) -> Figure:
    """The photo with every region's rank, and both curves of the replay."""
    scene = ordering.scene
    figure, (photo, plot) = _panels(2, scene)
    _show_photo(photo, scene, None)
    heat = np.full((*scene.photo.shape[:2],), np.nan)
    _on_photo(heat, ordering.heatmap(), scene.box)
    shown = _show(photo, heat, cmap="cividis", vmin=0, vmax=1, alpha=0.6)
    photo.set_title(f"{scene.target.label}\nwhole image: {scene.full_score:.2f}")
    bar = figure.colorbar(shown, ax=photo, ticks=[1 / ordering.n, 1], fraction=0.046, pad=0.03)
    bar.ax.set_yticklabels(["last", "first"])
    draw_curves(plot, curves)
    return figure


def draw_curves(axes: Axes, curves: Curves) -> None:
    """Insertion and deletion over the area, on the fixed scale 0 to 1."""
    axes.plot(curves.x, curves.insertion_curve, color=INSERTION, label=f"insertion, AUC {curves.insertion_auc:.2f}")
    axes.plot(
        curves.x,
        curves.deletion_curve,
        color=DELETION,
        linestyle="--",
        label=f"deletion, AUC {curves.deletion_auc:.2f}",
    )
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of the area inserted / deleted", ylabel="score")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="best", fontsize=9)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG; an interrupted save leaves no file."""
    with atomic(path) as file:
        figure.savefig(file, format="png", dpi=150)
    return path


def _panels(count: int, scene: Scene) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    height, width = scene.photo.shape[:2]
    first = min(2.0, max(0.6, width / height))
    figure = Figure(figsize=(3.4 * (first + count - 1) + 0.4, 4.3), layout="compressed")
    axes: Any = figure.subplots(1, count, width_ratios=[first] + [1.0] * (count - 1), squeeze=False)[0]
    return figure, list(axes)


def _show(axes: Axes, image: Any, **style: Any) -> Any:
    """An image without ticks or frame."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(image, **style)


def _show_photo(axes: Axes, scene: Scene, mask: Bools | None) -> None:
    """The whole photo; the part the model does not see is greyed and named, the evidence outlined."""
    seen = np.zeros(scene.photo.shape[:2])
    _on_photo(seen, np.ones(scene.canvas.shape[:2]), scene.box)
    shown = scene.photo.astype(float)
    grey = 0.35 * shown.mean(axis=2, keepdims=True) + 150
    if mask is not None:
        kept = np.zeros(scene.photo.shape[:2])
        _on_photo(kept, mask.astype(float), scene.box)
        dimmed = 0.45 * shown
        shown = np.where(kept[..., None] > 0, shown, dimmed)
    _show(axes, np.where(seen[..., None] > 0, shown, grey).clip(0, 255).astype(np.uint8))
    if mask is not None:
        axes.contour(kept, levels=[0.5], colors=[EVIDENCE], linewidths=1.6)
    if seen.mean() < 0.999:
        height, width = scene.photo.shape[:2]
        axes.text(
            0.01 * width, 0.985 * height, "grey: not seen by the model", fontsize=7, color=MUTED, ha="left", va="bottom"
        )


def _on_photo(target: Floats, values: Floats, box: Box) -> None:
    """Paint values on the model's grid into the part of the photo that the model sees."""
    height, width = target.shape
    left, right = round(box[0] * width), max(round(box[2] * width), round(box[0] * width) + 1)
    top, bottom = round(box[1] * height), max(round(box[3] * height), round(box[1] * height) + 1)
    stretched = Image.fromarray(values.astype(np.float32)).resize(
        (right - left, bottom - top), Image.Resampling.NEAREST
    )
    target[top:bottom, left:right] = np.asarray(stretched)[: height - top, : width - left]
