"""A table as Markdown, LaTeX, CSV or JSON."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from whymask.bench.table import COLUMNS, COST, PROFILE, REPAIRS, Cell, Column, Line, Table, in_order

DASH = "—"
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LEGEND = (
    "Numbers are means over samples with bootstrap 95% intervals; shares of samples have Wilson intervals. MEC counts "
    f"distinct masked images. {DASH} means that a method has no such number. Methods are ranked by the column in bold."
)
AREAS = "@30 and @50 are the insertion score at 30% and 50% of the area, linear between regions."
REST = (
    "Score is the score of the mask alone, Score of rest that of the image without the mask (lower is better); the "
    "latter is the closest number to the DelAUC that the paper lists for direct masks."
)
UNCACHED = (
    "MEC without cache counts repeated images each time. The paper caches only sampled masks, so its count for the "
    "same search lies between MEC and MEC without cache."
)
REPAIRED = (
    "For wrong answers: Repair Rate is the share of answers that the mask, or a prefix of the ordering, repairs, and "
    "failed the number of the others. AMCR is the mean of the smallest area whose removal repairs the answer (1 if "
    "none does), CSR@10 the share of samples for which that area is at most 10%. Kept is the area of the mask, or "
    "of the shortest prefix that repairs."
)
GRADIENTS = "A star (*) marks methods that use gradients first: these are not counted, the forwards that follow are."
SHOWN = (
    "On object is the share of the mask, or of the first regions of an ordering (as many as masks usually have), that "
    "lies on the true objects. Object covered is the share of the objects that it covers. Object area is the objects' "
    "share of the image, which is what On object would be by chance."
)
WHOLE, OF_REPAIRS, BY_FORWARDS, ON_FILLS = "", ", answers repaired", ", by forwards", ", on other fills"
"""The tables that columns are divided into, by the end of their title."""
BUDGETS = "Score@B is the score of the mask that the same search returns after B forwards."
FILLS = "Columns that name a fill score the same results on that fill; the search used another one."
ENOUGH = "Enough is the share of samples whose mask reaches the goal of the search, regions the size of the mask."
PAIRED = "Differences to {against} are paired by sample; {stars} by a paired sign-flip test."


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
    return "\n".join([*lines, *(f"- {note}" for note in notes(table)), ""])


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
        made += [*methods_grids(block, profile), *_differences_grids(block, table.against), *_seeds_grids(block)]
    return made


def methods_grids(block: list[Line], profile: bool = False) -> list[Grid]:
    """A row per method of one model and split; repairs and scores by forwards and on other fills follow."""
    emphasis = block[0].row.emphasis
    best = _best(block, emphasis)
    uneven = len({len(line.samples) for line in block}) > 1

    def method(line: Line) -> str:
        failed = f" ({line.failed} failed)" if line.failed else ""
        return line.row.method + (f" ({len(line.samples)})" if uneven else "") + failed

    def cell(line: Line, name: str, column: Column) -> tuple[str, bool]:
        mixed = "*" if name in COST and name in line.cells and line.row.needs == "gradients" else ""
        return _mean(line.cells.get(name), column, line) + mixed, name == emphasis and line is best

    return [
        Grid(
            _title(block) + part,
            _header("method", shown, emphasis),
            [[(method(line), False), *(cell(line, *column) for column in shown.items())] for line in lines],
        )
        for part, lines, shown in _parts([(line, line.cells) for line in block], profile)
    ]


def _differences_grids(block: list[Line], against: str | None) -> list[Grid]:
    compared = [(line, line.differences) for line in block if line.differences]
    emphasis = block[0].row.emphasis
    return [
        Grid(
            f"{_title(block)}, differences{part}",
            _header("methods", shown, emphasis),
            [[(f"{line.row.method} - {against}", False),
              *((_gap(line.differences.get(name), c), name == emphasis) for name, c in shown.items())]
             for line in lines],
        )
        for part, lines, shown in _parts(compared)
    ]  # fmt: skip


def _seeds_grids(block: list[Line]) -> list[Grid]:
    several = [(line, line.spread) for line in block if line.spread]
    return [
        Grid(
            f"{_title(block)}, standard deviation over seeds{part}",
            _header("method", shown),
            [[(line.row.method, False),
              *((f"{line.spread[name]:.{c.digits}f}" if name in line.spread else DASH, False)
                for name, c in shown.items())] for line in lines],
        )
        for part, lines, shown in _parts(several)
    ]  # fmt: skip


def _title(block: list[Line]) -> str:
    return f"{block[0].row.model}, {block[0].row.split}, {_count(block)}"


def _header(first: str, shown: Mapping[str, Column], emphasis: str = "") -> list[tuple[str, bool]]:
    return [(first, False), *((column.name, name == emphasis) for name, column in shown.items())]


def _part(name: str) -> str:
    """Which table a column is in."""
    if name in COLUMNS:
        return OF_REPAIRS if name in REPAIRS else WHOLE
    return BY_FORWARDS if "@" in name else ON_FILLS


def _parts(
    rows: Sequence[tuple[Line, Mapping[str, Any]]], profile: bool = False
) -> Iterator[tuple[str, list[Line], dict[str, Column]]]:
    """(end of the title, rows, columns) of every table that these rows, each with its numbers, are shown in.

    The first has all rows; where nothing but repairs was measured, it is left out. The others have the rows with such
    a number, and beside it what to compare it with: area and cost of repairs, the score by the search's own protocol.
    """
    there = {name for _, numbers in rows for name in numbers if profile or name not in PROFILE}
    common = there & {"area", *COST}
    for part in (WHOLE, OF_REPAIRS, BY_FORWARDS, ON_FILLS):
        own = {name for name in there if _part(name) == part}
        lines = [line for line, numbers in rows if part == WHOLE or own & numbers.keys()]
        if lines and (own != common or there == common):
            beside = common if part == OF_REPAIRS else {re.split("[@/]", name)[0] for name in own - COLUMNS.keys()}
            yield part, lines, in_order(own | beside)


def _best(block: list[Line], emphasis: str) -> Line | None:
    most = max(len(line.samples) for line in block)  # a mean over fewer samples is of others
    having = [line for line in block if emphasis in line.cells and len(line.samples) == most]
    return max(having, key=lambda line: line.cells[emphasis].mean) if len(having) > 1 else None


def _count(block: list[Line]) -> str:
    counts = sorted({len(line.samples) for line in block})
    seeds = sorted({len(line.seeds) for line in block if line.seeds})
    several = f", up to {seeds[-1]} seeds" if seeds and seeds[-1] > 1 else ""
    many = "sample" if counts[-1] == 1 else "samples"
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} {many}{several}"


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
    """How to read the tables, in sentences."""
    stars = ", ".join(f"{mark} p < {limit}" for limit, mark in reversed(STARS))
    there = {name for line in table.lines for name in line.cells}
    parts = {_part(name) for name in there}
    mixed = any(line.row.needs == "gradients" and "mec" in line.cells for line in table.lines)
    lines = [LEGEND, *([PAIRED.format(against=table.against, stars=stars)] if table.against else [])]
    for note, wanted in (
        (AREAS, "at@30" in there),
        (REST, "removed_score" in there),
        (UNCACHED, "nominal" in there),
        (BUDGETS, BY_FORWARDS in parts),
        (FILLS, ON_FILLS in parts),
        (ENOUGH, "sufficient" in there),
        (REPAIRED, "repaired" in there),
        (SHOWN, "on_object" in there),
        (GRADIENTS, mixed),
    ):
        if wanted:
            lines.append(note)
    failed = sum(line.failed for line in table.lines)
    if failed:
        lines.append(f"{failed} results failed and are not part of any mean.")
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
