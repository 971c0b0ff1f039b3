"""The numbers of the paper's tables from the records of runs: means over samples with their intervals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Floats
from whymask.bench.records import Record, Row, Store
from whymask.bench.stats import intervals, p_values
from whymask.errors import WhymaskError, unknown
from whymask.metrics.repair import small
from whymask.metrics.shares import wilson
from whymask.utils.digest import digest


@dataclass(frozen=True)
class Column:
    """A number of the records and how tables show it."""

    name: str
    digits: int = 3
    higher: bool = True  # is better
    total: bool = False  # the sum over samples instead of the mean
    share: bool = False  # of samples for which something is true


CURVES = {
    "insertion_auc": Column("Ins"),
    "deletion_auc": Column("Del", higher=False),
    "at@30": Column("@30"),
    "at@50": Column("@50"),
    "high": Column("High"),
}
MASKS = {
    "score": Column("Score"),
    "removed_score": Column("Score of rest", higher=False),
    "area": Column("Area", higher=False),
    "sufficient": Column("enough", share=True),  # of searches for the smallest mask
    "size": Column("regions", 1, higher=False),
}
OBJECTS = {  # where their masks are known
    "on_object": Column("on object"),
    "covered": Column("object covered"),
    "object": Column("object area"),
}
REPAIRS = {  # of wrong answers
    "repaired": Column("Repair Rate", share=True),
    "false_yes": Column("false yes", share=True),
    "false_no": Column("false no", share=True),
    "unrepaired": Column("failed", 0, higher=False, total=True, share=True),
    "removed": Column("AMCR", higher=False),
    "csr@10": Column("CSR@10", share=True),
    "kept": Column("kept", higher=False),
}
COST = {"mec": Column("MEC", 0, higher=False), "nominal": Column("MEC without cache", 0, higher=False)}
PROFILE = {
    "seconds": Column("s", 2, higher=False),
    "forwards/s": Column("forwards/s", 0),
    "memory": Column("GiB", 2, higher=False),
}
COLUMNS = {**CURVES, **MASKS, **OBJECTS, **REPAIRS, **COST, **PROFILE}
PLACES = {name: place for place, name in enumerate(COLUMNS)}


def column(name: str) -> Column | None:
    """How tables show a number of the records; None where they leave it out.

    "score@80" is the score after 80 forwards, "score/blur" the score on another fill.
    """
    base, at, budget = name.partition("@")
    if base == "score" and at:
        return Column(f"Score@{budget}") if budget.isdecimal() else None
    base, _, fill = name.partition("/")
    if name not in COLUMNS and base in COLUMNS:
        return replace(COLUMNS[base], name=f"{COLUMNS[base].name}, {fill}")
    return COLUMNS.get(name)


def in_order(names: Iterable[str]) -> dict[str, Column]:
    """The columns of a table from left to right: budgets before the final number, other fills after it."""

    def place(name: str) -> tuple[int, int, int, str]:
        if name in PLACES:
            return PLACES[name], 1, 0, ""
        base, _, budget = name.partition("@")
        return (PLACES[base], 0, int(budget), "") if budget else (PLACES[name.partition("/")[0]], 2, 0, name)

    shown = {name: known for name in names if (known := column(name)) is not None}
    return {name: shown[name] for name in sorted(shown, key=place)}


@dataclass(frozen=True)
class Cell:
    """A mean over samples, or a mean difference, with its 95% interval: Wilson's for shares, else bootstrap."""

    mean: float
    low: float
    high: float
    samples: int
    p: float | None = None  # of a difference


@dataclass(frozen=True)
class Line:
    """A row with its numbers."""

    row: Row
    samples: tuple[str, ...]
    seeds: tuple[int, ...]
    failed: int  # results that are missing because of an error
    values: dict[str, Floats] = field(repr=False)  # by column, a mean over the seeds per sample; NaN where it has none
    firsts: dict[str, Record] = field(repr=False)  # by sample, of its first seed
    spread: dict[str, float] = field(repr=False)  # by column, the standard deviation over seeds, a mean over samples
    cells: dict[str, Cell] = field(default_factory=dict)
    differences: dict[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """All lines, those of one model and split together."""

    lines: list[Line]
    against: str | None
    hash: str  # of every number in it, times and memory apart
    skipped: int  # lines of records that are in no number

    @property
    def blocks(self) -> list[list[Line]]:
        """Lines by model and split."""
        groups: dict[tuple[str, str], list[Line]] = {}
        for line in self.lines:
            groups.setdefault(line.row.names[:2], []).append(line)
        return list(groups.values())


def table(runs: Sequence[str | Path], against: str | None = None, methods: Sequence[str] = ()) -> Table:
    """Read the records of runs and compute every number.

    Args:
        runs: their folders; the shards of one run may lie in several.
        against: a method that all others of its model and split are compared with on the same samples.
        methods: only these rows, and the one they are compared with.
    """
    found = read(runs)
    lines = found.lines
    known = {line.row.method for line in lines}
    wanted = [*methods, *([against] if against else [])]
    for name in wanted:
        if name not in known:
            raise unknown("row", name, known)
    if methods:
        lines = [line for line in lines if line.row.method in wanted]
    hashed = digest(sorted((line.row.hash, line.samples, _numbered(line)) for line in lines))
    made = Table(lines, against, hashed, found.skipped)
    for block in made.blocks:
        _fill(block, next((line for line in block if line.row.method == against), None))
    return made


@dataclass(frozen=True)
class Found:
    """Everything in the folders of runs."""

    rows: dict[str, Row]  # by hash
    records: dict[str, Record]  # results by key
    errors: list[Record]  # failures of samples that have no result, one each
    skipped: int  # lines that are damaged, or belong to no row

    @property
    def lines(self) -> list[Line]:
        """The rows in their configurations' order, without intervals."""
        by_row: dict[str, list[Record]] = {name: [] for name in self.rows}
        for record in self.records.values():
            by_row[record["row"]].append(record)
        failed = Counter(record["row"] for record in self.errors)
        return [_line(row, by_row[row.hash], failed[row.hash]) for row in self.rows.values()]


def read(runs: Sequence[str | Path]) -> Found:
    """What several runs, or the shards of one, hold together."""
    rows: dict[tuple[str, ...], Row] = {}  # by names
    records: dict[str, Record] = {}
    errors: dict[tuple[Any, ...], Record] = {}  # keys change with an image that was missing or broken
    skipped = 0
    for folder in map(Path, runs):
        if not (folder / "rows").is_dir():
            raise WhymaskError(f"{folder} holds no records; name the folder of a 'whymask bench run'.")
        store = Store(folder)
        for row in sorted(store.rows.values(), key=lambda row: row.place):
            if rows.setdefault(row.names, row).hash != row.hash:
                raise WhymaskError(f"two runs have a row {row.method!r} ({row.model}, {row.split}) that differs.")
        records |= store.records
        errors |= {_place(record): record for record in store.errors.values()}
        skipped += store.skipped
    by_hash = {row.hash: row for row in rows.values()}
    known = {key: record for key, record in records.items() if record["row"] in by_hash}
    if not known:
        raise WhymaskError("there is no result yet.")
    for record in known.values():
        errors.pop(_place(record), None)
    failures = [record for record in errors.values() if record["row"] in by_hash]
    return Found(by_hash, known, failures, skipped + len(records) - len(known))


def _place(record: Record) -> tuple[Any, ...]:
    return record["row"], record["sample"], record["seed"]


def _by_sample(row: Row, records: list[Record]) -> dict[str, dict[int, Record]]:
    """The results of a row by sample and seed."""
    results: dict[str, dict[int, Record]] = {}
    for record in records:
        own = results.setdefault(record["sample"], {})
        if record["seed"] in own:
            raise WhymaskError(
                f"{row.method!r} ({row.model}, {row.split}) has two results for the sample {record['sample']}: its "
                "image or target has changed; use another folder."
            )
        own[record["seed"]] = record
    return results


def _line(row: Row, records: list[Record], failed: int) -> Line:
    results = _by_sample(row, records)
    samples = tuple(sorted(results))
    seeds = tuple(sorted({record["seed"] for record in records}))
    values: dict[str, Floats] = {}
    spread: dict[str, float] = {}
    uncounted = row.needs == "gradients" and not any(record.get("mec") for record in records)
    hidden = COST.keys() if uncounted else set()  # forwards of methods that use gradients are not counted
    for name in in_order({*COLUMNS}.union(*records) - hidden):
        by_sample = [_values(results[sample].values(), name) for sample in samples]
        if any(by_sample):
            values[name] = np.array([np.mean(some) if some else np.nan for some in by_sample])
            several = [np.std(some) for some in by_sample if len(some) > 1]
            if several and name not in PROFILE:
                spread[name] = float(np.mean(several))
    firsts = {sample: results[sample][min(results[sample])] for sample in samples}
    return Line(row, samples, seeds, failed, values, firsts, spread)


def _values(records: Iterable[Record], column: str) -> list[float]:
    """The numbers of one sample's seeds; none where one of them has no such number."""
    values = [_number(record, column) for record in records]
    known = [float(value) for value in values if value is not None]
    return known if len(known) == len(values) else []


def _number(record: Record, column: str) -> float | None:
    if column == "forwards/s":
        return record["mec"] / record["seconds"] if record.get("seconds") and record["mec"] else None
    if column == "memory":
        return record["peak_memory"] / 2**30 if "peak_memory" in record else None
    if column in ("false_yes", "false_no"):
        return record["repaired"] if record.get("mistake") == column else None
    if column == "unrepaired":
        return 1 - record["repaired"] if "repaired" in record else None
    if column == "csr@10":
        return None if record.get("removed") is None else small(record["removed"])
    return record.get(column)


def difference(ours: Line, theirs: Line, column: str, other: str | None = None) -> tuple[float, Cell] | None:
    """The ratio of two means over the samples that both rows have, and the difference; None where there are none.

    Args:
        ours: a row.
        theirs: another of the same model and split.
        column: of `ours`.
        other: of `theirs`, where it is another column.
    """
    other = other or column
    if column not in ours.values or other not in theirs.values:
        return None
    _, mine, yours = np.intersect1d(ours.samples, theirs.samples, return_indices=True)
    pair = np.stack([ours.values[column][mine], theirs.values[other][yours]], axis=1)
    pair = pair[~np.isnan(pair).any(axis=1)]
    if not len(pair):
        return None
    gaps = pair[:, :1] - pair[:, 1:]
    ((low,), (high,)), (p,), (top, bottom) = intervals(gaps), p_values(gaps), pair.mean(axis=0)
    ratio = float(top / bottom) if bottom else np.inf
    return ratio, Cell(float(gaps.mean()), float(low), float(high), len(pair), float(p))


def _numbered(line: Line) -> list[tuple[str, list[float]]]:
    return [(name, v.tolist()) for name, v in line.values.items() if name not in PROFILE]


def _fill(block: list[Line], other: Line | None) -> None:
    """Means, differences and their intervals; what belongs to the same samples is resampled together."""
    groups: dict[tuple[str, ...], list[tuple[Line, str, Floats, bool]]] = {}
    for line, name, samples, values, difference in _numbers(block, other):
        having = ~np.isnan(values)
        if having.any():
            groups.setdefault(tuple(samples[having].tolist()), []).append((line, name, values[having], difference))
    for group in groups.values():
        matrix = np.stack([values for *_, values, _ in group], axis=1)
        low, high = intervals(matrix)
        paired = [i for i, (*_, difference) in enumerate(group) if difference]
        p = dict(zip(paired, p_values(matrix[:, paired]), strict=True)) if paired else {}
        for i, (line, name, values, difference) in enumerate(group):
            cell = _cell(name, values, (low[i], high[i]), float(p[i]) if difference else None)
            (line.differences if difference else line.cells)[name] = cell


def _numbers(block: list[Line], other: Line | None) -> Iterator[tuple[Line, str, NDArray[Any], Floats, bool]]:
    """(line, column, samples, values, whether they are differences) for every mean of a block."""
    for line in block:
        for name, values in line.values.items():
            yield line, name, np.array(line.samples), values, False
            compared = name not in PROFILE and name != "object"  # which is the sample's and not the method's
            if compared and other is not None and other is not line and name in other.values:
                shared, mine, theirs = np.intersect1d(line.samples, other.samples, return_indices=True)
                yield line, name, shared, values[mine] - other.values[name][theirs], True


def _cell(name: str, values: Floats, bounds: tuple[float, float], p: float | None) -> Cell:
    """The mean of a column, or of its differences where there is a p."""
    shown = column(name)
    assert shown is not None
    if shown.share and p is None:
        bounds = wilson(values.mean(), len(values))
    scale = len(values) if shown.total else 1
    mean, low, high = (float(scale * value) for value in (values.mean(), *bounds))
    return Cell(mean, low, high, len(values), p)
