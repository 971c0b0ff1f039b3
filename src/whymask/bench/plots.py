"""Plots of the numbers of a run: the tail of a gap, and what a larger budget or mask gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from whymask.bench.lettering import TITLE, fitted, legend
from whymask.bench.table import COLUMNS, Cell, Line
from whymask.bench.tail import LARGE, Gap
from whymask.results.plotting import LINES, WIDTH, small_text
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
    _whole_numbers(ranked)
    mean, median = (f"{value:z.4f}".replace("-", "\u2212") for value in (gaps.mean(), np.median(gaps)))
    means = f"{gap.theirs} \u2212 {gap.ours}: mean {mean}, median {median}"
    held = np.cumsum(gaps.clip(0)) / max(gaps.clip(0).sum(), np.finfo(float).tiny)
    x = np.arange(len(gaps) + 1) / len(gaps)
    shares.plot(x, np.append(0, held), color=LINES[0][0])
    if gap.share:
        shares.plot([gap.share], [gap.held], "o", color=LINES[1][0], clip_on=False)
    shares.plot([0, 1], [0, 1], color="#777777", linewidth=0.8, linestyle=":")
    shares.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="share of the samples", ylabel="share of the positive gap")
    for axes, title in ((ranked, means), (shares, _held(gap))):
        axes.set_title(fitted(title, 0.44 * WIDTH, TITLE))
    return figure


def _held(gap: Gap) -> str:
    count, of = int((gap.gaps > LARGE).sum()), len(gap.gaps)
    if not count:
        return f"no gap above {LARGE}"
    hold, samples = "holds" if count == 1 else "hold", "sample" if of == 1 else "samples"
    return f"{count} of {of} {samples} (gap > {LARGE}) {hold} {gap.held:.0%} of the positive gap"


@small_text
def curves_plot(panels: Sequence[Panel]) -> Figure:
    """Lines through means with their intervals, and their names above."""
    from matplotlib.lines import Line2D

    figure, made = _panels(len(panels))
    styles = {name: _style(i) for i, name in enumerate(dict.fromkeys(name for panel in panels for name in panel.lines))}
    for axes, panel in zip(made, panels, strict=True):
        for name, points in panel.lines.items():
            means = np.array([point.cell.mean for point in points])
            ends = [[point.cell.low for point in points], [point.cell.high for point in points]]
            x = [point.x for point in points]
            axes.errorbar(x, means, np.abs(ends - means), capsize=2, elinewidth=0.8, **styles[name])
        axes.set(xlabel=panel.x, ylabel=panel.y)
        _whole_numbers(axes)
    entries = [(Line2D([], [], **style), name) for name, style in styles.items()]
    wide, high = figure.get_size_inches()
    figure.set_size_inches(wide, high + legend(figure, entries, 0.95 * wide, loc="outside upper center"))
    return figure


def _style(i: int) -> dict[str, Any]:
    """The style of the i-th line; where colours recur, markers differ."""
    colour, line = LINES[i % len(LINES)]
    marker = MARKERS[(i + i // len(LINES)) % len(MARKERS)]
    return {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


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
    """A page-wide figure of panels side by side, four of them in two rows; one panel is half as wide."""
    from matplotlib.figure import Figure

    columns = count if count < 4 else 2
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH if count > 1 else WIDTH / 2, HEIGHT * rows), layout="constrained")
    made = [figure.add_subplot(rows, columns, 1 + i) for i in range(count)]
    for axes in made:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, made


def k_plot(block: Sequence[Line]) -> Figure | None:
    """The deciding number and the forwards of rows that differ in k only; None where there are none."""
    groups = _named([(lines[0].row.settings["method"], lines) for lines in varied(block, "k")], ("k",))
    return curves_plot(_by_parameter(groups, "k", lambda line: _value(line, "k"))) if groups else None


def budget_plot(block: Sequence[Line]) -> Figure | None:
    """What more forwards gain; None where no row shows it.

    Rows that differ in the masks sampled a round (M) or in the number of rounds (R) only, over all masks sampled; and
    masks whose score was recorded after several numbers of forwards, over these.
    """
    found = []
    for name, fixed in (("samples", "M varied, R = {rounds}"), ("rounds", "R varied, M = {samples}")):
        for lines in varied(block, name):
            settings = lines[0].row.settings
            found.append((f"{settings['method']}: {fixed.format(**settings['parameters'])}", lines))
    groups = _named(found, ("samples", "rounds"))
    sampled = "masks sampled, M \u00d7 R"
    panels = _by_parameter(groups, sampled, lambda line: _value(line, "samples") * _value(line, "rounds"))
    budgets = {line.row.method: points for line in block if len(points := by_forwards(line)) > 1}
    if budgets:
        panels.append(Panel("forwards", COLUMNS["score"].name, budgets))
    return curves_plot(panels) if panels else None


def varied(block: Sequence[Line], name: str) -> list[list[Line]]:
    """The rows that differ in one parameter only, one for each of its values, sorted by it."""
    groups: dict[str, dict[int, Line]] = {}
    for line in block:
        others = _settings(line, (name,))
        if _column(line) and isinstance(line.row.settings.get("parameters", {}).get(name), int):
            groups.setdefault(digest(others), {}).setdefault(_value(line, name), line)
    return [[lines[value] for value in sorted(lines)] for lines in groups.values() if len(lines) > 1]


def _settings(line: Line, without: Sequence[str]) -> dict[str, Any]:
    """The settings and parameters of a row except some; budgets are left out, as they change no result."""
    settings = {name: value for name, value in line.row.settings.items() if name not in ("parameters", "budgets")}
    parameters = line.row.settings.get("parameters", {})
    return {**settings, **{name: value for name, value in parameters.items() if name not in without}}


def _named(groups: Sequence[tuple[str, list[Line]]], varied: Sequence[str]) -> dict[str, list[Line]]:
    """Groups by their names; to a name that recurs, the settings in which its groups differ are added."""
    made: dict[str, list[Line]] = {}
    for name, lines in groups:
        alike = [_settings(other[0], varied) for twin, other in groups if twin == name]
        own = _settings(lines[0], varied)
        differing = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        detail = ", ".join(f"{key} = {own[key]}" for key in differing if not isinstance(own[key], Mapping))
        full = f"{name}, {detail}" if detail else name
        made[f"{full} ({lines[0].row.method}, ...)" if full in made else full] = lines
    return made


def _by_parameter(groups: Mapping[str, list[Line]], x: str, at: Callable[[Line], float]) -> list[Panel]:
    """The deciding numbers, and the forwards, over what rows differ in."""
    columns = dict.fromkeys(_column(lines[0]) for lines in groups.values())
    decided = {column: {name: of for name, of in groups.items() if _column(of[0]) == column} for column in columns}
    return [
        Panel(x, COLUMNS[column].name, {
            name: [Point(at(line), line.cells[column]) for line in lines if column in line.cells]
            for name, lines in shown.items()
        })
        for column, shown in [*decided.items(), *([("mec", groups)] if groups else [])]
    ]  # fmt: skip


def _value(line: Line, name: str) -> int:
    return int(line.row.settings["parameters"][name])


def _column(line: Line) -> str:
    """The number that a curve shows of a row: the one that decides, where the row has it."""
    return next((name for name in (line.row.emphasis, "insertion_auc", "score") if name in line.cells), "")


def by_forwards(line: Line) -> list[Point]:
    """The score of a mask by the number of forwards."""
    found = [Point(int(name.removeprefix("score@")), cell) for name, cell in line.cells.items() if "score@" in name]
    return sorted(found, key=lambda point: point.x)
