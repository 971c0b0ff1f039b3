"""The paper's figures from a run: which samples and methods a figure shows, and the files they are written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whymask.bench.evidence import Evidence, evidence, samples_of, tried_score
from whymask.bench.gallery import comparison, repairs
from whymask.bench.plots import budget_plot, k_plot, tail_plot
from whymask.bench.records import Record
from whymask.bench.table import Line, table
from whymask.bench.tail import Gap
from whymask.errors import WhymaskError, unknown
from whymask.results.plotting import LINES, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = len(LINES)  # methods in a figure: each has a colour and a line of its own


@dataclass(frozen=True)
class Choice:
    """What a figure shows; what is not chosen is picked."""

    methods: Sequence[str] = ()
    against: str | None = None
    samples: Sequence[str] = ()
    shown: int = 3  # samples, where they are picked


@dataclass(frozen=True)
class Drawn:
    """The figures of runs, and why there are not more."""

    files: list[Path]
    problems: list[str]


def figures(
    runs: Sequence[Path], kinds: Sequence[str], folder: Path, suffix: str = "png", choice: Choice | None = None
) -> Drawn:
    """Write the figures of these kinds, or of all, one for every model and split of the runs that has what it shows."""
    choice = choice or Choice()
    blocks = table(runs).blocks
    known = {line.row.method for block in blocks for line in block}
    for name in (*choice.methods, *([choice.against] if choice.against else [])):
        if name not in known:
            raise unknown("row", name, known)
    drawn = Drawn([], [])
    for kind in kinds or KINDS:
        if kind not in KINDS:
            raise unknown("kind of figure", kind, KINDS)
        draw, nothing = KINDS[kind]
        before = len(drawn.files), len(drawn.problems)
        for block in blocks:
            try:
                figure = draw(runs, block, choice)
            except WhymaskError as problem:
                drawn.problems.append(str(problem))
                continue
            if figure is not None:
                name = re.sub(r"[^\w.+-]+", "_", "-".join([kind, *block[0].row.names[:2]]))
                drawn.files.append(save_figure(figure, folder / f"{name}.{suffix}"))
        if kinds and before == (len(drawn.files), len(drawn.problems)):
            drawn.problems.append(f"there is no {kind} figure: {nothing}.")
    return Drawn(drawn.files, list(dict.fromkeys(drawn.problems)))


def _compare(runs: Sequence[Path], block: Sequence[Line], choice: Choice) -> Figure | None:
    lines = _columns(block, choice, lambda record: True)
    if not lines:
        return None
    reference = choice.against or next((line.row.method for line in lines if "insertion_auc" in line.values), "")
    rows = _rows(runs, lines, choice, reference, _quality)
    return comparison(rows, reference)


def _quality(record: Record) -> tuple[float, ...]:
    return (record["insertion_auc"] if "order" in record else record["score"],)


def _repair(runs: Sequence[Path], block: Sequence[Line], choice: Choice) -> Figure | None:
    lines = _columns(block, choice, lambda record: "given" in record)
    if not lines:
        return None
    return repairs(_rows(runs, lines, choice, choice.against or lines[0].row.method, _mended))


def _mended(record: Record) -> tuple[float, ...]:
    return float(record["repaired"]), tried_score(record)


def _columns(block: Sequence[Line], choice: Choice, fits: Callable[[Record], bool]) -> list[Line]:
    """The rows that are compared: those chosen, else the first that kept their masks; the reference comes first."""
    having = [line for line in block if any(map(fits, line.firsts.values()))]
    if not choice.methods:
        kept = [line for line in having if any("layout" in record for record in line.firsts.values())] or having
        return sorted(kept, key=lambda line: line.row.method != choice.against)[:MOST]
    names = list(dict.fromkeys([*([choice.against] if choice.against else []), *choice.methods]))
    if len(names) > MOST:
        raise WhymaskError(f"a figure has room for {MOST} methods, not {len(names)}.")
    return sorted((line for line in having if line.row.method in names), key=lambda line: names.index(line.row.method))


def _rows(
    runs: Sequence[Path],
    lines: Sequence[Line],
    choice: Choice,
    reference: str,
    quality: Callable[[Record], tuple[float, ...]],
) -> list[list[Evidence]]:
    """The evidence of every method on the chosen samples.

    Picked ones are spread evenly over all, from where the last method of the reference's kind gains most over it to
    where it loses most.
    """
    known = samples_of(runs, *lines[0].row.names[:2])
    shared = set(known).intersection(*(line.firsts for line in lines))
    shared = {sample for sample in shared if all(_kept(line.firsts[sample], quality) for line in lines)}
    for sample in choice.samples:
        if sample not in shared:
            raise unknown("sample of all these rows", sample, shared)
    if not shared:
        first = lines[0].row
        raise WhymaskError(
            f'{first.model}, {first.split}: no sample has kept masks of all these rows; set keep = "masks" in the '
            "configuration and repeat the run in another folder."
        )
    chosen = list(choice.samples)
    if not chosen:
        theirs = next((line for line in lines if line.row.method == reference), lines[0])
        others = [line for line in lines if line is not theirs] or [theirs]
        alike = [line for line in others if line.row.returns == theirs.row.returns]  # AUC with AUC, score with score
        ours = (alike or others)[-1]

        def gain(sample: str) -> tuple[float, ...]:
            mine, other = quality(ours.firsts[sample]), quality(theirs.firsts[sample])
            return tuple(float(one - two) for one, two in zip(mine, other, strict=True))

        ranked = sorted(sorted(shared), key=gain, reverse=True)
        places = np.linspace(0, len(ranked) - 1, min(choice.shown, len(ranked))).round().astype(int)
        chosen = [ranked[place] for place in places.tolist()]
    return [[evidence(runs, line, known[sample]) for line in lines] for sample in chosen]


def _kept(record: Record, quality: Callable[[Record], tuple[float, ...]]) -> bool:
    """Whether a record has what its figure needs."""
    try:
        return "layout" in record and bool(quality(record))
    except (KeyError, IndexError):
        return False


def _tail(_: Sequence[Path], block: Sequence[Line], choice: Choice) -> Figure | None:
    lines = {line.row.method: line for line in block if line.samples}
    theirs = lines.get(choice.against or "greedy")
    ours = lines.get(choice.methods[0] if choice.methods else "phasewin")
    return tail_plot(Gap.between(ours, theirs)) if ours and theirs else None


def _budget(_: Sequence[Path], block: Sequence[Line], choice: Choice) -> Figure | None:
    return budget_plot(_chosen(block, choice))


def _k(_: Sequence[Path], block: Sequence[Line], choice: Choice) -> Figure | None:
    return k_plot(_chosen(block, choice))


def _chosen(block: Sequence[Line], choice: Choice) -> list[Line]:
    return [line for line in block if not choice.methods or line.row.method in choice.methods]


KINDS: dict[str, tuple[Callable[[Sequence[Path], Sequence[Line], Choice], Figure | None], str]] = {
    "compare": (_compare, "there is no result"),
    "repair": (_repair, "no answer is wrong"),
    "tail": (_tail, "it compares two rows, phasewin with greedy unless --method and --against name others"),
    "budget": (_budget, "no rows differ in samples or in rounds only, and none has several budgets"),
    "k": (_k, "no rows differ in k only"),
}
