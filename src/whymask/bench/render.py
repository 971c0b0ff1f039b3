"""A table as Markdown, LaTeX, CSV or JSON."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any

from whymask.bench.table import PROFILE, Cell, Column, Line, Table, in_order

DASH = "—"
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LEGEND = (
    "Means over samples with bootstrap 95 % intervals, shares of samples with Wilson's. @30 and @50 are the highest "
    f"score up to that area, MEC counts distinct masked images, {DASH} is what a method does not have; methods are "
    "ranked by the bold column."
)
REPAIRED = (
    "Of wrong answers: Repair Rate is the share that the mask, or a prefix of the ordering, repairs, failed counts the "
    "rest, AMCR is the mean of the smallest area whose removal repairs (1 where none does), CSR@10 the share where "
    "that is at most 10 %, kept is the area of the mask, or of the shortest prefix that repairs."
)
GRADIENTS = "* uses gradients first, which are not counted; the forwards that follow are."
SHOWN = (
    "On object is the share of the mask, or of the first regions of an ordering (as many as masks usually have), that "
    "lies on the true objects; object area, their share of the image, is what chance would give."
)
BUDGETS = "Score@B is the score of the mask that the same search returns after B forwards."
FILLS = "Columns that name a fill: what was found with the fill of the search, measured on that one."
ENOUGH = "Enough is the share of samples with a mask that reaches its goal, regions the size of the mask."
PAIRED = "Differences to {against} on the same samples; {stars} by a paired sign-flip test."


@dataclass(frozen=True)
class Grid:
    """A printed table: (text, whether it stands out)."""

    title: str
    header: list[tuple[str, bool]]
    body: list[list[tuple[str, bool]]]


def as_markdown(table: Table, *, profile: bool = False) -> str:
    """For reading."""
    lines = []
    for grid in grids(table, profile):
        lines += [f"### {grid.title}", ""]
        for i, row in enumerate([grid.header, *grid.body]):
            lines.append("| " + " | ".join(_bold(text) if strong else text for text, strong in row) + " |")
            if i == 0:
                lines.append("|---" * len(row) + "|")
        lines.append("")
    return "\n".join([*lines, *notes(table), ""])


def as_latex(table: Table, *, profile: bool = False) -> str:
    """For a paper, with booktabs."""
    lines = [f"% {note}" for note in notes(table)]
    for grid in grids(table, profile):
        lines += [f"% {grid.title}", rf"\begin{{tabular}}{{l{'c' * (len(grid.header) - 1)}}}", r"\toprule"]
        for i, row in enumerate([grid.header, *grid.body]):
            cells = [rf"\textbf{{{_tex(text)}}}" if strong else _tex(text) for text, strong in row]
            lines.append(" & ".join(cells) + r" \\")
            if i == 0:
                lines.append(r"\midrule")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def as_csv(table: Table) -> str:
    """One line per number."""
    text = StringIO()
    names = ["model", "split", "method", "samples", "failed", "column", "mean", "low", "high",
             "difference", "difference_low", "difference_high", "p"]  # fmt: skip
    out = csv.writer(text, lineterminator="\n")
    out.writerow(names)
    for line in table.lines:
        for column, cell in line.cells.items():
            gap = line.differences.get(column)
            paired = ["", "", "", ""] if gap is None else [gap.mean, gap.low, gap.high, gap.p]
            about = [*line.row.names, cell.samples, line.failed, column]
            out.writerow([*about, cell.mean, cell.low, cell.high, *paired])
    return text.getvalue()


def as_json(table: Table) -> str:
    """Everything."""
    rows = [
        {
            "model": line.row.model,
            "split": line.row.split,
            "method": line.row.method,
            "samples": len(line.samples),
            "seeds": list(line.seeds),
            "failed": line.failed,
            "emphasis": line.row.emphasis,
            "columns": {name: vars(cell) for name, cell in line.cells.items()},
            "differences": {name: vars(cell) for name, cell in line.differences.items()},
            "settings": line.row.settings,
        }
        for line in table.lines
    ]
    about = {"records": table.hash, "against": table.against, "skipped": table.skipped}
    return json.dumps({**about, "rows": rows}, indent=2)


FORMATS: Mapping[str, Callable[..., str]] = {"md": as_markdown, "latex": as_latex, "csv": as_csv, "json": as_json}


def grids(table: Table, profile: bool = False) -> list[Grid]:
    """The tables of every model and split: the methods, then their differences and their seeds where there are any."""
    made = []
    for block in table.blocks:
        made.append(methods_grid(block, profile))
        if any(line.differences for line in block):
            made.append(_differences_grid(block, table.against))
        if any(line.spread for line in block):
            made.append(_seeds_grid(block))
    return made


def methods_grid(block: list[Line], profile: bool = False) -> Grid:
    """A row per method of one model and split."""
    shown = _columns((line.cells for line in block), profile)
    emphasis = block[0].row.emphasis
    best = _best(block, emphasis)
    body = []
    for line in block:
        failed = f" ({line.failed} failed)" if line.failed else ""
        uneven = f" ({len(line.samples)})" if len({len(one.samples) for one in block}) > 1 else ""
        cells = [(f"{line.row.method}{uneven}{failed}", False)]
        for name, column in shown.items():
            cell = line.cells.get(name)
            mixed = "*" if name == "mec" and cell is not None and line.row.needs == "gradients" else ""
            cells.append((_mean(cell, column, line) + mixed, name == emphasis and line is best))
        body.append(cells)
    return Grid(_title(block), _header("method", shown, emphasis), body)


def _differences_grid(block: list[Line], against: str | None) -> Grid:
    compared = [line for line in block if line.differences]
    shown, emphasis = _columns((line.differences for line in compared), False), block[0].row.emphasis
    body = [[(f"{line.row.method} - {against}", False),
             *((_gap(line.differences.get(name), c), name == emphasis) for name, c in shown.items())]
            for line in compared]  # fmt: skip
    return Grid(f"{_title(block)}, differences", _header("methods", shown, emphasis), body)


def _seeds_grid(block: list[Line]) -> Grid:
    several = [line for line in block if line.spread]
    shown = _columns((line.spread for line in several), False)
    body = [[(line.row.method, False),
             *((f"{line.spread[name]:.{c.digits}f}" if name in line.spread else DASH, False)
               for name, c in shown.items())] for line in several]  # fmt: skip
    return Grid(f"{_title(block)}, standard deviation over seeds", _header("method", shown), body)


def _title(block: list[Line]) -> str:
    return f"{block[0].row.model}, {block[0].row.split}, {_count(block)}"


def _header(first: str, shown: Mapping[str, Column], emphasis: str = "") -> list[tuple[str, bool]]:
    return [(first, False), *((column.name, name == emphasis) for name, column in shown.items())]


def _columns(rows: Iterable[Iterable[str]], profile: bool) -> dict[str, Column]:
    """Those that at least one row has."""
    return in_order({name for row in rows for name in row if profile or name not in PROFILE})


def _best(block: list[Line], emphasis: str) -> Line | None:
    most = max(len(line.samples) for line in block)  # a mean over fewer samples is of others
    having = [line for line in block if emphasis in line.cells and len(line.samples) == most]
    return max(having, key=lambda line: line.cells[emphasis].mean) if len(having) > 1 else None


def _count(block: list[Line]) -> str:
    counts = sorted({len(line.samples) for line in block})
    seeds = sorted({len(line.seeds) for line in block if line.seeds})
    several = f", up to {seeds[-1]} seeds" if seeds and seeds[-1] > 1 else ""
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} samples{several}"


def _mean(cell: Cell | None, column: Column, line: Line) -> str:
    if cell is None:
        return DASH
    d = column.digits
    some = f" of {cell.samples}" if cell.samples < len(line.samples) else ""
    return f"{cell.mean:z.{d}f} [{cell.low:z.{d}f}, {cell.high:.{d}f}]{some}"


def _gap(cell: Cell | None, column: Column) -> str:
    if cell is None:
        return DASH
    d = column.digits
    assert cell.p is not None
    stars = next((f" {mark}" for limit, mark in STARS if cell.p < limit), "")
    return f"{cell.mean:+z.{d}f} [{cell.low:+z.{d}f}, {cell.high:+z.{d}f}]{stars}"


def notes(table: Table) -> list[str]:
    """What to know to read the tables."""
    stars = ", ".join(f"{mark} p < {limit}" for limit, mark in reversed(STARS))
    there = {name for line in table.lines for name in line.cells}
    mixed = any(line.row.needs == "gradients" and "mec" in line.cells for line in table.lines)
    lines = [LEGEND, *([PAIRED.format(against=table.against, stars=stars)] if table.against else [])]
    for note, wanted in (
        (BUDGETS, any(name.startswith("score@") for name in there)),
        (FILLS, any("/" in name for name in there - PROFILE.keys())),
        (ENOUGH, "sufficient" in there),
        (REPAIRED, "repaired" in there),
        (SHOWN, "on_object" in there),
        (GRADIENTS, mixed),
    ):
        if wanted:
            lines.append(note)
    failed = sum(line.failed for line in table.lines)
    if failed:
        lines.append(f"{failed} results failed and are in no mean.")
    if table.skipped:
        lines.append(
            f"Skipped lines of the records: {table.skipped} (damaged, or the file of their row is missing); the same "
            "'whymask bench run' restores them."
        )
    return [*lines, f"Records {table.hash}."]


def _bold(text: str) -> str:
    """In Markdown; stars stay outside, where they are no markup."""
    number = text.rstrip("* ")
    return f"**{number}**{text[len(number) :]}"


def _tex(text: str) -> str:
    plain: Any = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {DASH: "--", "*": r"\textasteriskcentered{}"})
    return text.translate(plain)
