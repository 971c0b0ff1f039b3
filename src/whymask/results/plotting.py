"""The style of figures, and how they are saved and shown.

Figures are built without pyplot, so that making one needs no display and leaves no global state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
from PIL import Image

from whymask.arrays import Bools
from whymask.errors import unknown
from whymask.utils.files import atomic
from whymask.utils.text import displayed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with colour vision deficiencies can distinguish.
EVIDENCE = "#E69F00"
LINES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#000000", (0, (4, 1, 1, 1, 1, 1))))
Width = Literal["page", "column"]
WIDTHS: dict[str, float] = {"page": 7.2, "column": 3.4}  # inches: a page of two columns, and one of them
WIDTH = WIDTHS["page"]
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


def wrapped(text: str, width: int) -> str:
    """A label, question or answer in lines for a figure: no control characters, no formulas, not too long."""
    shown = displayed(text[: LONGEST + 1])
    shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}\u2026"
    return fill(shown.replace("$", r"\$"), width)


def inches(width: Width) -> float:
    """The width of a figure."""
    if width not in WIDTHS:
        raise unknown("width of a figure", width, WIDTHS)
    return WIDTHS[width]


def letters(count: int, width: Width) -> int:
    """How many letters fit in this width, if `count` fit across a page."""
    return round(count * inches(width) / WIDTH)


def bare(axes: Axes, image: Any, **style: Any) -> Any:
    """An image without ticks or frame."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes.imshow(image, **style)


def contour(axes: Axes, inside: Bools, width: float, colour: str = EVIDENCE) -> Any:
    """The border of the True pixels (H, W); padded, so that a border at the image's edge is drawn too."""
    height, length = inside.shape
    padded = np.pad(inside, 1)
    return axes.contour(padded, levels=[0.5], colors=[colour], linewidths=width, extent=(-1, length, -1, height))


def halo(width: float = 1.4) -> list[Any]:
    """A dark outline, so that a number or a line is visible on any background."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="black")]


def fixed_scales(axes: Axes, what: str) -> None:
    """Scores over the area, both from 0 to 1."""
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel=what, ylabel="score")
    axes.spines[["top", "right"]].set_visible(False)


def encoded(figure: Figure, kind: str, dpi: int = 220) -> bytes:
    """A figure as a PNG, or as vectors as a PDF or SVG: as wide as it was made, as high as what it shows.

    The same figure gives the same bytes, without a date. Fonts are embedded as TrueType, as publishers ask for.
    """
    from matplotlib import rc_context
    from matplotlib.transforms import Bbox

    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    file = BytesIO()
    with rc_context({"pdf.fonttype": 42, "svg.hashsalt": "whymask"}):
        figure.draw_without_rendering()  # lays it out
        figure.set_layout_engine("none")  # once: what is cut off must stay where it is
        shown, edge = figure.get_tightbbox(), 0.04
        part = Bbox.from_extents(0, shown.y0 - edge, figure.get_figwidth(), shown.y1 + edge)
        figure.savefig(file, format=kind, dpi=dpi if kind == "png" else 300, metadata=undated, bbox_inches=part)
    return file.getvalue()


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG, PDF or SVG; an interrupted save leaves no file."""
    kind = path.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise unknown("kind of picture", path.suffix or path.name, [f".{name}" for name in FORMATS])
    with atomic(path) as file:
        file.write(encoded(figure, kind))
    return path


def show_figure(figure: Figure) -> None:
    """Show a figure in the system's image viewer."""
    Image.open(BytesIO(encoded(figure, "png"))).show(title="whymask")
