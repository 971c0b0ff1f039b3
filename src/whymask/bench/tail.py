"""Which samples account for the gap between two methods (often only a few)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from whymask.bench.table import Line, read
from whymask.errors import WhymaskError, unknown

LARGE = 0.1


def tail(runs: Sequence[str | Path], method: str = "phasewin", against: str = "greedy", shown: int = 10) -> str:
    """By how much a method trails another in insertion AUC, and on which samples; Markdown, by model and split."""
    lines = {line.row.names: line for line in read(runs).lines}
    methods = {name for _, _, name in lines}
    for name in (method, against):
        if name not in methods:
            raise unknown("row", name, methods)
    parts = []
    for model, split in dict.fromkeys(names[:2] for names in lines):
        pair = lines.get((model, split, method)), lines.get((model, split, against))
        if pair[0] is not None and pair[1] is not None:
            parts.append(f"### {model}, {split}\n\n{_tail(pair[0], pair[1], shown)}")
    return "\n".join(parts)


def _tail(ours: Line, theirs: Line, shown: int) -> str:
    for line in (ours, theirs):
        if "insertion_auc" not in line.values:
            raise WhymaskError(f"{line.row.method!r} has no insertion curve; compare two orderings.")
    samples, mine, other = np.intersect1d(ours.samples, theirs.samples, return_indices=True)
    if not len(samples):
        raise WhymaskError(f"{ours.row.method!r} and {theirs.row.method!r} have no sample in common.")
    gaps = theirs.values["insertion_auc"][other] - ours.values["insertion_auc"][mine]
    large, positive = gaps > LARGE, gaps[gaps > 0].sum()
    share = gaps[large].sum() / positive if positive else 0.0
    lines = [
        f"{theirs.row.method} leads {ours.row.method} by {gaps.mean():.4f} in the mean and {np.median(gaps):.4f} in "
        f"the median of {len(gaps)} samples; {large.mean():.1%} of them (gap > {LARGE}) account for {share:.1%} "
        "of the positive gap.",
        "",
        f"| sample | {theirs.row.method} | {ours.row.method} | gap |",
        "|---|---|---|---|",
    ]
    for i in np.argsort(-gaps, kind="stable")[:shown].tolist():
        one, two = theirs.values["insertion_auc"][other[i]], ours.values["insertion_auc"][mine[i]]
        lines.append(f"| {samples[i]} | {one:.4f} | {two:.4f} | {gaps[i]:+.4f} |")
    return "\n".join(lines) + "\n"
