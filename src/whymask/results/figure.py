"""Figures: what was kept, what the model scores then, and how the score moves.

Built without pyplot, so that making a picture needs no screen and leaves no global state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from io import BytesIO
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
from PIL import Image

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError, unknown
from whymask.images.imaging import Box
from whymask.metrics.curves import Curves
from whymask.results.base import ExplainedImage
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering
from whymask.utils.files import atomic
from whymask.utils.text import displayed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart by every kind of colour vision.
EVIDENCE = "#E69F00"
INSERTION = "#0072B2"
DELETION = "#D55E00"
LINES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#000000", (0, (4, 1, 1, 1, 1, 1))))
WIDTH = 7.2  # inches: a page's two columns, with text that is readable there
TALLEST, WIDEST = 0.75, 2.0  # width / height of the photo's panel
FORMATS = ("png", "pdf", "svg")
LONGEST = 300  # characters of a label, question or answer

P = ParamSpec("P")
R = TypeVar("R")


def small_text(make: Callable[P, R]) -> Callable[P, R]:
    """Figures are as wide as a page, so their text is as small as a caption's."""

    @wraps(make)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        from matplotlib import rc_context

        with rc_context({"font.size": 7.5, "axes.titlesize": 7.5, "axes.linewidth": 0.6, "lines.linewidth": 1.3}):
            return make(*args, **kwargs)

    return styled


@small_text
def mask_figure(evidence: EvidenceMask) -> Figure:
    """The photo, its evidence, the image the model saw with only the evidence, and without it."""
    image = evidence.image
    figure, (photo, marked, kept, removed) = _panels(image, photos=2, squares=2)
    bare(photo, image.photo)
    _frame(photo, image)
    photo.set_title(_headline(image))
    _show_evidence(marked, evidence)
    marked.set_title(f"the evidence\n{len(evidence.regions)} of {evidence.n} regions")
    _show_halves(kept, removed, evidence, evidence.score, evidence.removed_score)
    return figure


@small_text
def ordering_figure(ordering: Ordering) -> Figure:
    """Every region's rank, the image with only the first regions, without them, and both curves of the replay."""
    image, curves, prefix = ordering.image, ordering.curves, ordering.prefix
    figure, (photo, kept, removed, *plots) = _panels(image, photos=1, squares=3 if curves else 2)
    _show_photo(photo, image, None)
    heat = np.full(image.photo.shape[:2], np.nan)
    _on_photo(heat, ordering.heatmap(), image.box)
    shown = bare(photo, heat, cmap="cividis", vmin=0, vmax=1, alpha=0.6)
    photo.set_title(_headline(image))
    bar = figure.colorbar(shown, ax=photo, ticks=[0, 1], fraction=0.046, pad=0.03)
    bar.ax.set_yticklabels(["last", "first"], fontsize=6.5)
    scores = (curves.insertion[prefix - 1], curves.deletion[prefix - 1]) if curves else (None, None)
    _show_halves(kept, removed, ordering, *scores)
    if curves:
        draw_curves(plots[0], curves, prefix)
    return figure


@small_text
def compare_figure(explanations: Sequence[EvidenceMask | Ordering]) -> Figure:
    """Several methods on one image: the evidence each of them shows, and their curves in common axes.

    An ordering shows the prefix that keeps 80 % of the whole score. Its delta AUC is its insertion AUC less that of
    the first ordering; positive means that the target's score is recovered earlier. A mask is a point: its area and its
    score.
    """
    from matplotlib.figure import Figure

    image = common_image(explanations)
    curves = [one.curves for one in explanations if isinstance(one, Ordering) and one.curves]
    aspect = _aspect(image)
    columns = len(explanations)
    panel = min(WIDTH / columns, 2.4 * aspect)
    height = panel / aspect + 0.9
    figure = Figure(figsize=(WIDTH, height + 2.1), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[height, 2.1])
    above, below = halves
    tops: Any = above.subplots(1, columns, squeeze=False)[0]
    insertion, deletion = below.subplots(1, 2, sharey=True)
    for axes, one, (colour, line) in zip(tops, explanations, cycle(LINES), strict=False):
        _show_evidence(axes, one, numbers=False)
        method = wrapped(str(one.provenance["method"]), 60)
        regions = _chosen(one)
        area = float(one.image.partition.areas[list(regions)].sum())
        score = _score(one)
        lines = [
            method,
            f"{len(regions)} of {one.n} regions ({area:.0%})" + ("" if score is None else f": {score:.2f}"),
        ]
        if isinstance(one, Ordering) and one.curves:
            gain = one.curves.insertion_auc - curves[0].insertion_auc
            lines.append(f"AUC {one.curves.insertion_auc:.3f}" if one.curves is curves[0] else f"\u0394AUC {gain:+.3f}")
            style: dict[str, Any] = {"color": colour, "linestyle": line}
            insertion.plot(one.curves.x, one.curves.insertion_curve, label=method, **style)
            deletion.plot(one.curves.x, one.curves.deletion_curve, **style)
        elif isinstance(one, EvidenceMask):
            insertion.plot([area], [one.score], "o", clip_on=False, color=colour, label=method)
            deletion.plot([area], [one.removed_score], "o", clip_on=False, color=colour)
        axes.set_title("\n".join(lines))
    fixed_scales(insertion, "share of the area inserted")
    fixed_scales(deletion, "share of the area deleted")
    deletion.set_ylabel("")
    if insertion.get_legend_handles_labels()[0]:
        insertion.legend(frameon=False, loc="lower right")
    above.suptitle(_headline(image).replace("\n", ", "), fontsize=8.5)
    return figure


def common_image(explanations: Sequence[EvidenceMask | Ordering]) -> ExplainedImage:
    """What all of them explain; refused where that is not the same."""
    if not explanations:
        raise WhymaskError("there is nothing to compare: pass at least one explanation.")
    first = explanations[0].image
    for one in explanations:
        if not np.array_equal(one.image.canvas, first.canvas) or one.target != first.target:
            raise WhymaskError("only explanations of one image and one answer can be compared.")
    return first


def _chosen(explanation: EvidenceMask | Ordering) -> tuple[int, ...]:
    """The regions of a mask, or of the prefix of an ordering that its figures look at."""
    return explanation.regions if isinstance(explanation, EvidenceMask) else explanation.order[: explanation.prefix]


def _score(explanation: EvidenceMask | Ordering) -> float | None:
    """What the chosen regions keep, where that is known."""
    if isinstance(explanation, EvidenceMask):
        return explanation.score
    return None if explanation.curves is None else float(explanation.curves.insertion[explanation.prefix - 1])


def _headline(image: ExplainedImage) -> str:
    return f"{wrapped(image.target.label, 26)}\nwhole image: {image.full_score:.2f}"


def wrapped(text: str, width: int) -> str:
    """A label, question or answer in lines for a figure: no control characters, no formulas, not too long."""
    shown = displayed(text[: LONGEST + 1])
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}\u2026"
    return fill(shown.replace("$", r"\$"), width)


def draw_curves(axes: Axes, curves: Curves, prefix: int | None = None) -> None:
    """Insertion and deletion over the area, on the fixed scale 0 to 1; a prefix of the ordering is marked."""
    axes.plot(curves.x, curves.insertion_curve, color=INSERTION, label=f"insertion, AUC {curves.insertion_auc:.2f}")
    axes.plot(
        curves.x,
        curves.deletion_curve,
        color=DELETION,
        linestyle="--",
        label=f"deletion, AUC {curves.deletion_auc:.2f}",
    )
    if prefix is not None:
        area = curves.areas[prefix - 1]
        axes.axvline(area, color="#777777", linewidth=0.8, linestyle=":")
        axes.plot([area], [curves.insertion[prefix - 1]], "o", color=INSERTION, markersize=4, clip_on=False)
        axes.plot([area], [curves.deletion[prefix - 1]], "o", color=DELETION, markersize=4, clip_on=False)
    fixed_scales(axes, "share of the area")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 0.98), borderpad=0)


def fixed_scales(axes: Axes, what: str) -> None:
    """Scores over the area, both from 0 to 1."""
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel=what, ylabel="score")
    axes.spines[["top", "right"]].set_visible(False)


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG, PDF or SVG; an interrupted save leaves no file."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise unknown("kind of picture", path.suffix or path.name, [f".{name}" for name in FORMATS])
    with atomic(path) as file:
        figure.savefig(file, format=kind, dpi=220)
    return path


def show_figure(figure: Figure) -> None:
    """Below the cell of a notebook, elsewhere in the system's image viewer."""
    png = BytesIO()
    figure.savefig(png, format="png", dpi=220)
    try:
        from IPython import get_ipython
        from IPython.display import Image as Picture
        from IPython.display import display
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if shell is None:
        Image.open(png).show(title="whymask")
    else:
        display(Picture(png.getvalue(), width=int(100 * WIDTH)))


def _aspect(image: ExplainedImage) -> float:
    height, width = image.photo.shape[:2]
    return float(min(WIDEST, max(TALLEST, width / height)))


def _panels(image: ExplainedImage, *, photos: int, squares: int) -> tuple[Figure, list[Axes]]:
    """A row of panels, as wide as a page: first those with the photo's shape, then square ones."""
    from matplotlib.figure import Figure

    ratios = [_aspect(image)] * photos + [1.0] * squares
    figure = Figure(figsize=(WIDTH, WIDTH / sum(ratios) + 0.62), layout="compressed")
    axes: Any = figure.subplots(1, photos + squares, width_ratios=ratios, squeeze=False)[0]
    return figure, list(axes)


def _show_halves(
    kept: Axes, removed: Axes, explanation: EvidenceMask | Ordering, score: float | None, rest: float | None
) -> None:
    """The image with only the chosen regions, and without them, each with its score where that is known."""
    image, regions = explanation.image, _chosen(explanation)
    mask = image.partition.pixels(np.isin(np.arange(explanation.n), regions))[..., None]
    area = float(mask.mean())
    which = f"{len(regions)} of {explanation.n}" if explanation.kind == "mask" else f"the first {len(regions)}"
    bare(kept, np.where(mask, image.canvas, image.fill))
    kept.set_title(f"only {which} ({area:.0%})" + ("" if score is None else f"\n{score:.2f}"))
    bare(removed, np.where(mask, image.fill, image.canvas))
    removed.set_title(f"without them ({1 - area:.0%})" + ("" if rest is None else f"\n{rest:.2f}"))


def _show_evidence(axes: Axes, explanation: EvidenceMask | Ordering, *, numbers: bool = True) -> None:
    """The photo with the chosen regions outlined."""
    image, regions = explanation.image, _chosen(explanation)
    _show_photo(axes, image, image.partition.pixels(np.isin(np.arange(explanation.n), regions)))
    for region, name in zip(regions, explanation.names(regions), strict=True):
        _outline(axes, image, region, str(name) if numbers else "")


def bare(axes: Axes, image: Any, **style: Any) -> Any:
    """An image without ticks or frame."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(image, **style)


def _show_photo(axes: Axes, image: ExplainedImage, mask: Bools | None) -> None:
    """The whole photo; what the model does not see of it is faded, and what is no evidence is dimmed."""
    seen = np.zeros(image.photo.shape[:2])
    _on_photo(seen, np.ones(image.canvas.shape[:2]), image.box)
    shown = image.photo.astype(float)
    faded = 0.25 * shown + 0.75 * 255
    if mask is not None:
        kept = np.zeros(seen.shape)
        _on_photo(kept, mask.astype(float), image.box)
        shown = np.where(kept[..., None] > 0, shown, 0.45 * shown)
    bare(axes, np.where(seen[..., None] > 0, shown, faded).clip(0, 255).astype(np.uint8))
    _frame(axes, image)
    if seen.mean() < 0.999:
        axes.set_xlabel("faded: not seen by the model", fontsize=6.5, color="#333333")


def _frame(axes: Axes, image: ExplainedImage) -> None:
    """Of a panorama or a very tall photo, show the part around what the model sees: a panel has only so much room."""
    height, width = image.photo.shape[:2]
    left, top, right, bottom = np.multiply(image.box, (width, height, width, height)).tolist()
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


def _outline(axes: Axes, image: ExplainedImage, region: int, name: str) -> None:
    """One region's border and its name."""
    height, width = image.photo.shape[:2]
    inside = np.zeros((height, width))
    _on_photo(inside, (image.partition.labels == region).astype(float), image.box)
    rows, cols = np.nonzero(inside)
    if not len(rows):
        return  # thinner than a pixel of the photo
    extent = (-1, width, -1, height)  # of the padded array: a border at the photo's edge is a border too
    axes.contour(np.pad(inside, 1), levels=[0.5], colors=[EVIDENCE], linewidths=0.9, extent=extent)
    style: dict[str, Any] = {"color": EVIDENCE, "fontsize": 5.5, "weight": "bold", "ha": "center", "va": "center"}
    axes.text(cols.mean(), rows.mean(), name, clip_on=True, path_effects=halo(), **style)


def halo(width: float = 1.4) -> list[Any]:
    """A dark rim, so that a number or a line stands out on any ground."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="black")]


def _on_photo(target: Floats, values: Floats, box: Box) -> None:
    """Paint values on the model's grid into the part of the photo that the model sees."""
    height, width = target.shape
    left, right = round(box[0] * width), max(round(box[2] * width), round(box[0] * width) + 1)
    top, bottom = round(box[1] * height), max(round(box[3] * height), round(box[1] * height) + 1)
    stretched = Image.fromarray(values.astype(np.float32)).resize(
        (right - left, bottom - top), Image.Resampling.NEAREST
    )
    target[top:bottom, left:right] = np.asarray(stretched)[: height - top, : width - left]
