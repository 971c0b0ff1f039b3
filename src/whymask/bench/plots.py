"""Plots of the numbers of a run: the tail of a gap, and what a larger budget or mask gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.bench.table import COLUMNS, Cell, Line
from whymask.bench.tail import LARGE, Gap
from whymask.results.plotting import LINES, WIDTH, small_text, wrapped
from whymask.utils.digest import digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.6  # inches
MARKERS = "os^Dv"


@small_text
def tail_plot(gap: Gap) -> Figure:
    """The gaps of all samples from the largest to the smallest, and which share of the positive ones they hold."""
    figure, (ranked, shares) = _panels(2)
    gaps = np.sort(gap.gaps)[::-1]
    colours = np.where(gaps > LARGE, LINES[1][0], LINES[0][0])
    ranked.bar(np.arange(1, len(gaps) + 1), gaps, width=1.0, color=colours, linewidth=0)
    ranked.axhline(LARGE, color="#777777", linewidth=0.8, linestyle=":")
    ranked.axhline(0, color="black", linewidth=0.6)
    ranked.set(xlim=(0.5, len(gaps) + 0.5), xlabel="samples by their gap", ylabel="gap in insertion AUC")
    ranked.set_title(f"{gap.theirs} \u2212 {gap.ours}: mean {gap.gaps.mean():.4f}, median {np.median(gap.gaps):.4f}")
    held = np.cumsum(gaps.clip(0)) / max(gaps.clip(0).sum(), np.finfo(float).tiny)
    x = np.arange(len(gaps) + 1) / len(gaps)
    shares.plot(x, np.append(0, held), color=LINES[0][0])
    shares.plot([gap.share], [gap.held], "o", color=LINES[1][0], clip_on=False)
    shares.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":")
    shares.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of the samples", ylabel="share of the positive gap")
    shares.set_title(f"gap > {LARGE}: {gap.share:.1%} of the samples hold {gap.held:.1%} of it")
    return figure


@small_text
def curves_plot(panels: Sequence[Panel]) -> Figure:
    """Lines through means with their intervals, and their names above: once, where all panels have the same lines."""
    figure, made = _panels(len(panels))
    same = all(panel.lines.keys() == panels[0].lines.keys() for panel in panels)
    for axes, panel in zip(made, panels, strict=True):
        for i, (name, points) in enumerate(panel.lines.items()):
            (colour, line), means = LINES[i], np.array([point.cell.mean for point in points])
            ends = [[point.cell.low for point in points], [point.cell.high for point in points]]
            style: dict[str, Any] = {"color": colour, "linestyle": line, "marker": MARKERS[i], "markersize": 4}
            x = [point.x for point in points]
            axes.errorbar(x, means, np.abs(ends - means), capsize=2, elinewidth=0.8, label=wrapped(name, 60), **style)
        axes.set(xlabel=panel.x, ylabel=panel.y)
        if not same:
            axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    if same:
        handles, names = made[0].get_legend_handles_labels()
        figure.legend(handles, names, frameon=False, loc="outside upper center", ncols=2)
    return figure


@dataclass(frozen=True)
class Point:
    """A mean with its interval."""

    x: float
    cell: Cell


@dataclass(frozen=True)
class Panel:
    """The lines of one panel by their names, and what its axes show."""

    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH if count > 1 else WIDTH / 2, HEIGHT), layout="constrained")
    made: Any = figure.subplots(1, count, squeeze=False)[0]
    for axes in made:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(made)


def k_plot(block: Sequence[Line]) -> Figure | None:
    """The deciding number and the forwards of rows that differ in k only; None where there are none."""
    groups = {lines[0].row.settings["method"]: lines for lines in varied(block, "k")}
    return curves_plot(_by_parameter(groups, "k", lambda line: _value(line, "k"))) if groups else None


def budget_plot(block: Sequence[Line]) -> Figure | None:
    """What more forwards gain; None where no row shows it.

    Rows that differ in the masks sampled a round (M) or in the number of rounds (R) only, over all masks sampled; and
    masks whose score was recorded after several numbers of forwards, over these.
    """
    groups = {}
    for name, told in (("samples", "M varied, R = {rounds}"), ("rounds", "R varied, M = {samples}")):
        for lines in varied(block, name):
            settings = lines[0].row.settings
            groups[f"{settings['method']}: {told.format(**settings['parameters'])}"] = lines
    sampled = "masks sampled, M \u00d7 R"
    panels = _by_parameter(groups, sampled, lambda line: _value(line, "samples") * _value(line, "rounds"))
    budgets = {line.row.method: points for line in block if len(points := _budgets(line)) > 1}
    if budgets:
        panels.append(Panel("forwards", COLUMNS["score"].name, dict([*budgets.items()][: len(LINES)])))
    return curves_plot(panels) if panels else None


def varied(block: Sequence[Line], name: str) -> list[list[Line]]:
    """The rows that differ in one parameter only, sorted by it."""
    groups: dict[str, list[Line]] = {}
    for line in block:
        settings = dict(line.row.settings)
        parameters = dict(settings.get("parameters", {}))
        if _column(line) and isinstance(parameters.pop(name, None), int):
            groups.setdefault(digest({**settings, "parameters": parameters}), []).append(line)
    return [sorted(lines, key=lambda line: _value(line, name)) for lines in groups.values() if len(lines) > 1]


def _by_parameter(groups: Mapping[str, list[Line]], x: str, at: Callable[[Line], float]) -> list[Panel]:
    """The deciding number, and the forwards, over what rows differ in."""
    shown = dict([*groups.items()][: len(LINES)])
    columns = [_column(lines[0]) for lines in shown.values()][:1]
    return [
        Panel(x, COLUMNS[column].name, {
            name: [Point(at(line), line.cells[column]) for line in lines if column in line.cells]
            for name, lines in shown.items()
        })
        for column in (*columns, *(["mec"] if columns else []))
    ]  # fmt: skip


def _value(line: Line, name: str) -> int:
    return int(line.row.settings["parameters"][name])


def _column(line: Line) -> str:
    """The number that a curve shows of a row: the one that decides, where the row has it."""
    return next((name for name in (line.row.emphasis, "insertion_auc", "score") if name in line.cells), "")


def _budgets(line: Line) -> list[Point]:
    """The score of a mask after so many forwards."""
    found = [Point(int(name.removeprefix("score@")), cell) for name, cell in line.cells.items() if "score@" in name]
    return sorted(found, key=lambda point: point.x)
