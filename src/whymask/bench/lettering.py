"""Text in figures that are laid out in inches: how wide it is, and where its lines end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.results.plotting import LONGEST
from whymask.utils.text import displayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT, TITLE = 6.5, 7.5  # points: below panels, and elsewhere
LEADING = 1.2 / 72  # inches from line to line, by point
MOST = 8  # lines of one text


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Inches of a line of text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72


def fitted(text: str, inches: float, size: float, *, bold: bool = False) -> str:
    """A name, question or answer in lines that fit: no control characters, no formulas, not too long.

    Lines end at blanks and after signs such as a plus, inside a word only where that alone does not fit.
    """

    def fits(line: str) -> bool:
        return width(line.rstrip(), size, bold=bold) <= inches

    lines = [""]
    for word in re.findall(r"[^\s+/_-]*[+/_-]*\s*", displayed(text[:LONGEST])):
        if not fits(lines[-1] + word) and lines[-1]:
            lines.append("")
        while not fits(word):
            room = next((n for n in range(len(word) - 1, 1, -1) if fits(word[:n])), 1)
            lines[-1:], word = [word[:room], ""], word[room:]
        lines[-1] += word
    cut = len(text) > LONGEST or len(lines) > MOST
    shown = "\n".join(line.rstrip() for line in lines[:MOST]) + ("\u2026" if cut else "")
    return shown.replace("$", r"\$")


def legend(figure: Figure, entries: Sequence[tuple[Any, str]], inches: float, **place: Any) -> float:
    """(handle, name) in as many columns as fit into this width in inches; returns the height of the legend."""
    handle = 4.8 * TITLE / 72  # a handle and the spaces beside it
    names = [fitted(name, inches - handle, TITLE) for _, name in entries]
    wide = [handle + max(width(line, TITLE) for line in name.splitlines() or [""]) for name in names]
    fitting = (n for n in range(len(names), 1, -1) if sum(map(max, np.array_split(wide, n))) <= inches)
    columns = next(fitting, 1)
    shown = [f" {name}" if name.startswith("_") else name for name in names]  # matplotlib hides names with a "_" first
    figure.legend([one for one, _ in entries], shown, ncols=columns, frameon=False, borderaxespad=0.3, **place)
    rows, tallest = -(-len(names) // columns), max(name.count("\n") for name in names) + 1
    return (rows * (tallest * LEADING + 0.5 / 72) + 0.8 / 72) * TITLE
