"""The figure of several masks: a text with coloured words, or answers, each with its evidence on the photo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.results.base import ExplainedImage
from whymask.results.figure import aspect
from whymask.results.mask import EvidenceMask
from whymask.results.plotting import Width, bare, contour, halo, inches, letters, small_text, wrapped
from whymask.results.words import Word

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C564B", "#666666")
"""Told apart by colour-blind readers; the ninth mask has the first colour again."""
GREY = "#8a8a8a"
COLUMNS, LINE = 4, 0.2  # panels a row; height of a line of text, in inches
LETTERS = 78  # of the text, in a line


@small_text
def masks_figure(
    image: ExplainedImage, each: Sequence[EvidenceMask], text: str | None, words: Sequence[Word], width: Width
) -> Figure:
    """The text with coloured words, the bars of what supports each, and a panel for every mask."""
    from matplotlib.figure import Figure

    count = max(1, len(each))
    columns = min(letters(COLUMNS, width), count)
    rows = ceil(count / columns)
    slope = 1 / aspect(image)
    across = letters(LETTERS, width)
    lines = _lines(text or "", words, across) if words else []
    above = LINE * 1.6 * len(lines) + (0.1 if lines else 0)
    panel = inches(width) / max(columns, 2) * slope + 0.45
    figure = Figure(figsize=(inches(width), above + rows * panel), layout="constrained")
    parts: Any = figure.subfigures(2 if lines else 1, 1, height_ratios=[above, rows * panel] if lines else None)
    if lines:
        _draw_text(parts[0].subplots(), lines, text or "", words, across)
    grid: Any = (parts[1] if lines else parts).subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(each) :]:
        axes.set_axis_off()
    for number, (axes, mask) in enumerate(zip(grid.flat, each, strict=False)):
        _draw_mask(axes, image, mask, COLOURS[number % len(COLOURS)], _name(words, mask))
    return figure


def _name(words: Sequence[Word], mask: EvidenceMask) -> str:
    return next((word.text for word in words if word.mask is mask), mask.target.label)


def _draw_mask(axes: Axes, image: ExplainedImage, mask: EvidenceMask, colour: str, name: str) -> None:
    """The photo with the evidence in its own brightness and outlined, the rest darker."""
    inside = image.on_photo(mask.mask) > 0
    shown = np.where(inside[..., None], 1.0, 0.4) * image.photo
    bare(axes, shown.astype(np.uint8))
    axes.set(autoscale_on=False)
    contour(axes, inside, 1.2, colour).set_path_effects(halo(2.0))
    scores = f"{mask.full_score:.2f} whole, {mask.score:.2f} these, {mask.blank_score:.2f} blank"
    axes.set_title(wrapped(name, 24), color=colour, weight="bold")
    axes.set_xlabel(f"{scores}\n{mask.verdict.code.replace('_', ' ')}", fontsize=6)


def _lines(text: str, words: Sequence[Word], across: int) -> list[tuple[int, int]]:
    """(first, last + 1) characters of each line that the text is broken into: between words, where they fit."""
    lines, start = [], 0
    for word in words:
        if word.end - start > across and word.start > start:
            lines.append((start, word.start))
            start = word.start
    whole = [*lines, (start, len(text))]
    return [(place, min(place + across, last)) for first, last in whole for place in range(first, last, across)]


def _draw_text(axes: Axes, lines: Sequence[tuple[int, int]], text: str, words: Sequence[Word], across: int) -> None:
    """The text in a fixed grid of letters; under each word a bar, filled as far as the image supports the word."""
    axes.set(xlim=(0, across), ylim=(len(lines), 0))
    axes.set_axis_off()
    masked = (word for word in words if word.mask is not None)
    colours = {id(word): COLOURS[number % len(COLOURS)] for number, word in enumerate(masked)}
    letters = {place: word for word in words for place in range(word.start, word.end)}
    style: dict[str, Any] = {"family": "monospace", "fontsize": 10.5, "va": "center", "ha": "center"}
    bar: dict[str, Any] = {"linewidth": 2.5, "solid_capstyle": "butt"}
    for row, (first, last) in enumerate(lines):
        for place in range(first, last):
            word = letters.get(place)
            colour = _colour(word, colours)
            weight = "bold" if word and word.mask is not None else "normal"
            axes.text(place - first + 0.5, row + 0.35, text[place], color=colour, weight=weight, **style)
        for word in words:
            left, right = max(word.start, first) - first, min(word.end, last) - first
            if word.role != "function" and left < right:
                for share, shade in ((1.0, "#dddddd"), (word.support, _colour(word, colours))):
                    axes.plot([left, left + (right - left) * share], [row + 0.78] * 2, color=shade, **bar)


def _colour(word: Word | None, colours: Mapping[int, str]) -> str:
    """The colour of a word's mask; grey for words that the image does not support, black for everything else."""
    if word is None or word.role == "function":
        return "#222222"
    return colours.get(id(word), GREY)
