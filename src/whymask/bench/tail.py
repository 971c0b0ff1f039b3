"""Which samples account for the gap between two methods (often only a few)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whymask.arrays import Floats
from whymask.bench.table import Line, read
from whymask.errors import WhymaskError, unknown

LARGE = 0.1


@dataclass(frozen=True, eq=False)
class Gap:
    """By how much a method trails another in insertion AUC."""

    ours: str
    theirs: str
    samples: tuple[str, ...]
    values: Floats  # (samples, 2) insertion AUC of theirs and of ours

    @classmethod
    def between(cls, ours: Line, theirs: Line) -> "Gap":
        """On the samples that both rows have."""
        for line in (ours, theirs):
            if "insertion_auc" not in line.values:
                raise WhymaskError(f"{line.row.method!r} has no insertion curve; compare two orderings.")
        samples, mine, other = np.intersect1d(ours.samples, theirs.samples, return_indices=True)
        if not len(samples):
            raise WhymaskError(f"{ours.row.method!r} and {theirs.row.method!r} have no sample in common.")
        pair = [theirs.values["insertion_auc"][other], ours.values["insertion_auc"][mine]]
        return cls(ours.row.method, theirs.row.method, tuple(samples.tolist()), np.stack(pair, axis=1))

    @property
    def gaps(self) -> Floats:
        """(samples,) positive where ours trails."""
        return np.asarray(self.values[:, 0] - self.values[:, 1])

    @property
    def share(self) -> float:
        """The share of samples with a large gap."""
        return float((self.gaps > LARGE).mean())

    @property
    def held(self) -> float:
        """The share of the sum of all positive gaps that the large ones account for."""
        positive = self.gaps[self.gaps > 0].sum()
        return float(self.gaps[self.gaps > LARGE].sum() / positive) if positive else 0.0


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
            parts.append(f"### {model}, {split}\n\n{_markdown(Gap.between(pair[0], pair[1]), shown)}")
    return "\n".join(parts)


def _markdown(gap: Gap, shown: int) -> str:
    gaps = gap.gaps
    mean, median = float(gaps.mean()), float(np.median(gaps))
    samples = "sample" if len(gaps) == 1 else "samples"
    leads, sign = ("leads", 1) if mean >= 0 else ("trails", -1)
    lines = [
        f"{gap.theirs} {leads} {gap.ours} by {sign * mean:z.4f} in the mean and {sign * median:z.4f} in "
        f"the median of {len(gaps)} {samples}; {gap.share:.1%} of them (gap > {LARGE}) account for {gap.held:.1%} "
        "of the positive gap.",
        "",
        f"| sample | {gap.theirs} | {gap.ours} | gap |",
        "|---|---|---|---|",
    ]
    for i in np.argsort(-gaps, kind="stable")[:shown].tolist():
        one, two = gap.values[i]
        lines.append(f"| {gap.samples[i]} | {one:.4f} | {two:.4f} | {gaps[i]:+.4f} |")
    return "\n".join(lines) + "\n"
