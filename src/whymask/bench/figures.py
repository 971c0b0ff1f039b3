"""The paper's figures from a run: which samples and methods a figure shows, and the files they are written to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whymask.bench.evidence import NOT_KEPT, Evidence, evidence, samples_of, tried_score
from whymask.bench.gallery import comparison, repairs
from whymask.bench.plots import budget_plot, k_plot, tail_plot
from whymask.bench.records import Record
from whymask.bench.table import Line, table
from whymask.bench.tail import Gap
from whymask.data.manifest import manifest_of
from whymask.errors import WhymaskError, unknown
from whymask.results.plotting import FORMATS, LINES, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = len(LINES)  # methods in a figure: each has its own colour and line
SAMPLED = ("compare", "repair")  # kinds of figures that show samples


@dataclass(frozen=True)
class Choice:
    """What a figure shows; what is not chosen is picked."""

    methods: Sequence[str] = ()
    against: str | None = None
    samples: Sequence[str] = ()
    shown: int = 3  # samples, where they are picked
    model: str | None = None  # of all
    split: str | None = None


@dataclass
class Drawn:
    """The figures of runs, and why they do not show more."""

    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # why there are not more
    notes: list[str] = field(default_factory=list)  # what those that are drawn leave out
    samples: set[str] = field(default_factory=set)  # of those chosen, the ones that are there


def figures(
    runs: Sequence[Path], kinds: Sequence[str], folder: Path, suffix: str = "png", choice: Choice | None = None
) -> Drawn:
    """Write the figures of these kinds, or of all, one for every model and split of the runs that has what it shows."""
    choice = choice or Choice()
    suffix = suffix.lower()
    if suffix not in FORMATS:
        raise WhymaskError(f"--format must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {suffix!r}.")
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("kind of figure", kind, KINDS)
    blocks = _blocks(runs, choice)
    drawn = Drawn()
    for kind in dict.fromkeys(kinds or KINDS):
        draw, nothing = KINDS[kind]
        before = len(drawn.files), len(drawn.problems)
        for block in blocks:
            try:
                figure = draw(runs, block, choice, drawn)
            except WhymaskError as problem:
                drawn.problems.append(str(problem))
                continue
            if figure is not None:
                name = re.sub(r"[^\w.+-]+", "_", "-".join([kind, *block[0].row.names[:2]]))
                drawn.files.append(save_figure(figure, folder / f"{name}.{suffix}"))
        if kind in SAMPLED and (kind in kinds or kind == "compare"):
            for sample in choice.samples:
                if sample not in drawn.samples:
                    drawn.problems.append(f"no sample {sample!r} that all these rows have.")
        if kinds and before == (len(drawn.files), len(drawn.problems)):
            drawn.problems.append(f"no {kind} figure: {nothing}.")
    return drawn


def _blocks(runs: Sequence[Path], choice: Choice) -> list[list[Line]]:
    """The rows of the models and splits that are chosen; names that are in no run raise an error."""
    blocks = table(runs).blocks
    rows = [line.row for block in blocks for line in block]
    wanted = [("row", name, {row.method for row in rows}) for name in (*choice.methods, choice.against)]
    wanted += [
        ("model", choice.model, {row.model for row in rows}),
        ("split", choice.split, {row.split for row in rows}),
    ]
    for kind, name, known in wanted:
        if name is not None and name not in known:
            raise unknown(kind, name, known)
    return [
        block
        for block in blocks
        if choice.model in (None, block[0].row.model) and choice.split in (None, block[0].row.split)
    ]


def _compare(runs: Sequence[Path], block: Sequence[Line], choice: Choice, drawn: Drawn) -> Figure | None:
    lines = _columns("compare", block, choice, drawn, lambda record: True)
    if not lines:
        return None
    reference = choice.against or next((line.row.method for line in lines if "insertion_auc" in line.values), "")
    rows = _rows(runs, lines, choice, drawn, reference, _quality)
    return comparison(rows, reference) if rows else None


def _quality(record: Record) -> tuple[float, ...]:
    return (record["insertion_auc"] if "order" in record else record["score"],)


def _repair(runs: Sequence[Path], block: Sequence[Line], choice: Choice, drawn: Drawn) -> Figure | None:
    lines = _columns("repair", block, choice, drawn, lambda record: "given" in record)
    if not lines:
        return None
    rows = _rows(runs, lines, choice, drawn, choice.against or lines[0].row.method, _repaired)
    return repairs(rows) if rows else None


def _repaired(record: Record) -> tuple[float, ...]:
    return float(record["repaired"]), tried_score(record)


def _columns(
    kind: str, block: Sequence[Line], choice: Choice, drawn: Drawn, fits: Callable[[Record], bool]
) -> list[Line]:
    """The rows that are compared: those chosen, else the first that kept their masks; the reference comes first."""
    having = {line.row.method: line for line in block if any(map(fits, line.firsts.values()))}
    if not having:
        return []
    if choice.methods:
        names = list(dict.fromkeys([*([choice.against] if choice.against else []), *choice.methods]))
        if len(names) > MOST:
            raise WhymaskError(f"a figure has room for {MOST} methods, not {len(names)}.")
        for name in names:
            if name not in having:
                drawn.notes.append(
                    f"{name!r} has no result on {', '.join(block[0].row.names[:2])} that {kind} can show."
                )
        return [having[name] for name in names if name in having]
    kept = [line for line in having.values() if any("layout" in record for record in line.firsts.values())]
    lines = sorted(kept or having.values(), key=lambda line: line.row.method != choice.against)
    if len(lines) > MOST:
        drawn.notes.append(f"{kind} shows the first {MOST} of {len(lines)} rows; choose with --method.")
    return lines[:MOST]


def _rows(
    runs: Sequence[Path],
    lines: Sequence[Line],
    choice: Choice,
    drawn: Drawn,
    reference: str,
    quality: Callable[[Record], tuple[float, ...]],
) -> list[list[Evidence]]:
    """The evidence of every method on the chosen samples; none where this split has none of them.

    Picked ones are spread evenly over all, from where the last method of the reference's kind gains most over it to
    where it loses most. Samples whose photo or regions cannot be read are left out.
    """
    first = lines[0].row
    shared = set(lines[0].firsts).intersection(*(line.firsts for line in lines))
    chosen = [sample for sample in dict.fromkeys(choice.samples) if sample in shared]
    if choice.samples and not chosen:
        return []
    drawn.samples.update(chosen)
    kept = {sample for sample in shared if all(_kept(line.firsts[sample], quality) for line in lines)}
    ranked = [sample for sample in chosen or _ranked(lines, kept, reference, quality) if sample in kept]
    if not ranked:
        raise WhymaskError(f"{first.model}, {first.split}: no sample of all these rows {NOT_KEPT}")
    known = samples_of(runs, first.model, first.split)
    ranked = [sample for sample in ranked if sample in known]
    if not ranked:
        file = manifest_of(runs[0], first.model, first.split).resolve()
        raise WhymaskError(f"{file} is missing or damaged; repeat the 'whymask bench run', which writes it again.")
    found: dict[str, list[Evidence]] = {}
    problems: list[str] = []
    while ranked:
        count = len(ranked) if chosen else min(choice.shown, len(ranked))
        picked = [ranked[place] for place in np.linspace(0, len(ranked) - 1, count).round().astype(int).tolist()]
        if sample := next((one for one in picked if one not in found), None):
            try:
                found[sample] = [evidence(runs, line, known[sample]) for line in lines]
            except WhymaskError as problem:
                problems.append(str(problem))
                ranked.remove(sample)
            continue
        if problems:
            many = "1 sample is" if len(problems) == 1 else f"{len(problems)} samples are"
            drawn.notes.append(f"{first.model}, {first.split}: {many} left out: {problems[0]}")
        return [found[sample] for sample in picked]
    raise WhymaskError(problems[0])


def _ranked(
    lines: Sequence[Line], samples: Iterable[str], reference: str, quality: Callable[[Record], tuple[float, ...]]
) -> list[str]:
    """Samples from where the last method of the reference's kind gains most over it to where it loses most."""
    theirs = next((line for line in lines if line.row.method == reference), lines[0])
    others = [line for line in lines if line is not theirs] or [theirs]
    alike = [line for line in others if line.row.returns == theirs.row.returns]  # AUC with AUC, score with score
    ours = (alike or others)[-1]

    def gain(sample: str) -> tuple[float, ...]:
        mine, other = quality(ours.firsts[sample]), quality(theirs.firsts[sample])
        return tuple(float(one - two) for one, two in zip(mine, other, strict=True))

    return sorted(sorted(samples), key=gain, reverse=True)


def _kept(record: Record, quality: Callable[[Record], tuple[float, ...]]) -> bool:
    """Whether a record has what its figure needs."""
    try:
        return "layout" in record and bool(quality(record))
    except (KeyError, IndexError):
        return False


def _tail(_: Sequence[Path], block: Sequence[Line], choice: Choice, __: Drawn) -> Figure | None:
    lines = {line.row.method: line for line in block if line.samples}
    theirs = choice.against or "greedy"
    ours = [name for name in dict.fromkeys(choice.methods or ["phasewin"]) if name != theirs]
    if len(ours) != 1 or not {theirs, *ours} <= lines.keys():
        return None
    return tail_plot(Gap.between(lines[ours[0]], lines[theirs]))


def _budget(_: Sequence[Path], block: Sequence[Line], choice: Choice, __: Drawn) -> Figure | None:
    return budget_plot(_chosen(block, choice))


def _k(_: Sequence[Path], block: Sequence[Line], choice: Choice, __: Drawn) -> Figure | None:
    return k_plot(_chosen(block, choice))


def _chosen(block: Sequence[Line], choice: Choice) -> list[Line]:
    return [line for line in block if not choice.methods or line.row.method in choice.methods]


KINDS: dict[str, tuple[Callable[[Sequence[Path], Sequence[Line], Choice, Drawn], Figure | None], str]] = {
    "compare": (_compare, "there is no result"),
    "repair": (_repair, "no answer is wrong"),
    "tail": (_tail, "it compares one row with another, phasewin with greedy unless --method and --against name them"),
    "budget": (_budget, "no two rows differ only in samples or in rounds, and none has several budgets"),
    "k": (_k, "no two rows differ only in k"),
}
