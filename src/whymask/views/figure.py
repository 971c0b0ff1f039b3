"""Figures: what was kept, what the model scores then, and how the score moves.

Built without pyplot, so that making a picture needs no screen and leaves no global state.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
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
TALLEST, WIDEST = 0.75, 2.0  # width / height of the photo's panel


def mask_figure(evidence: EvidenceMask) -> Figure:
    """The photo with its evidence, the image the model saw with only the evidence, and without it."""
    scene = evidence.scene
    figure, (photo, kept, removed) = _panels(3, scene)
    _show_photo(photo, scene, evidence.mask)
    for region, name in zip(evidence.regions, evidence.names(evidence.regions), strict=True):
        _outline(photo, scene, region, name)
    photo.set_title(_headline(scene))
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
    heat = np.full(scene.photo.shape[:2], np.nan)
    _on_photo(heat, ordering.heatmap(), scene.box)
    shown = _show(photo, heat, cmap="cividis", vmin=0, vmax=1, alpha=0.6)
    photo.set_title(_headline(scene))
    bar = figure.colorbar(shown, ax=photo, ticks=[0, 1], fraction=0.046, pad=0.03)
    bar.ax.set_yticklabels(["last", "first"])
    draw_curves(plot, curves)
    return figure


def _headline(scene: Scene) -> str:
    return f"{fill(scene.target.label, 26)}\nwhole image: {scene.full_score:.2f}"


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
    first = min(WIDEST, max(TALLEST, width / height))
    figure = Figure(figsize=(3.4 * (first + count - 1) + 0.4, 4.3), layout="compressed")
    axes: Any = figure.subplots(1, count, width_ratios=[first] + [1.0] * (count - 1), squeeze=False)[0]
    return figure, list(axes)


def _show(axes: Axes, image: Any, **style: Any) -> Any:
    """An image without ticks or frame."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(image, **style)


def _show_photo(axes: Axes, scene: Scene, mask: Bools | None) -> None:
    """The whole photo; what the model does not see of it is faded, and what is no evidence is dimmed."""
    seen = np.zeros(scene.photo.shape[:2])
    _on_photo(seen, np.ones(scene.canvas.shape[:2]), scene.box)
    shown = scene.photo.astype(float)
    faded = 0.25 * shown + 0.75 * 255
    if mask is not None:
        kept = np.zeros(seen.shape)
        _on_photo(kept, mask.astype(float), scene.box)
        shown = np.where(kept[..., None] > 0, shown, 0.45 * shown)
    _show(axes, np.where(seen[..., None] > 0, shown, faded).clip(0, 255).astype(np.uint8))
    _frame(axes, scene)
    if seen.mean() < 0.999:
        axes.set_xlabel("faded: not seen by the model", fontsize=8, color="#333333")


def _frame(axes: Axes, scene: Scene) -> None:
    """Of a panorama or a very tall photo, show the part around what the model sees: a panel has only so much room."""
    height, width = scene.photo.shape[:2]
    left, top, right, bottom = np.multiply(scene.box, (width, height, width, height)).tolist()
    if WIDEST * height >= width >= TALLEST * height:
        return
    if width > WIDEST * height:
        wide = max(right - left, WIDEST * height)
        high = wide / WIDEST
    else:
        high = max(bottom - top, width / TALLEST)
        wide = high * TALLEST
    x = min(max((left + right) / 2, wide / 2), max(width - wide / 2, wide / 2)) if wide < width else width / 2
    y = min(max((top + bottom) / 2, high / 2), max(height - high / 2, high / 2)) if high < height else height / 2
    axes.set(xlim=(x - wide / 2, x + wide / 2), ylim=(y + high / 2, y - high / 2))


def _outline(axes: Axes, scene: Scene, region: int, name: int) -> None:
    """One region's border and its number."""
    height, width = scene.photo.shape[:2]
    inside = np.zeros((height, width))
    _on_photo(inside, (scene.partition.labels == region).astype(float), scene.box)
    rows, cols = np.nonzero(inside)
    if not len(rows):
        return  # thinner than a pixel of the photo
    extent = (-1, width, -1, height)  # of the padded array: a border at the photo's edge is a border too
    axes.contour(np.pad(inside, 1), levels=[0.5], colors=[EVIDENCE], linewidths=1.4, extent=extent)
    style: dict[str, Any] = {"color": EVIDENCE, "fontsize": 8, "weight": "bold", "ha": "center", "va": "center"}
    axes.text(cols.mean(), rows.mean(), str(name), clip_on=True, path_effects=_halo(), **style)


def _halo() -> list[Any]:
    """A dark rim, so that a number is readable on any ground."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2, foreground="black")]


def _on_photo(target: Floats, values: Floats, box: Box) -> None:
    """Paint values on the model's grid into the part of the photo that the model sees."""
    height, width = target.shape
    left, right = round(box[0] * width), max(round(box[2] * width), round(box[0] * width) + 1)
    top, bottom = round(box[1] * height), max(round(box[3] * height), round(box[1] * height) + 1)
    stretched = Image.fromarray(values.astype(np.float32)).resize(
        (right - left, bottom - top), Image.Resampling.NEAREST
    )
    target[top:bottom, left:right] = np.asarray(stretched)[: height - top, : width - left]
