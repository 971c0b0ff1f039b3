"""The paper's five ablations, each a configuration made from another: its models and photos, other methods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from whymask.bench.config import Config, MethodSpec, SplitSpec
from whymask.bench.table import read
from whymask.data.photos import Photos
from whymask.errors import unknown
from whymask.metrics.overlap import top_overlap


@dataclass(frozen=True)
class Ablation:
    """Rows to compare, and how many samples the paper draws for them from each split."""

    methods: tuple[MethodSpec, ...]
    against: str | None
    draws: tuple[tuple[str, int], ...] = (("correct", 100),)
    correct: int = 2000  # of which Correct is drawn


def _trace(name: str, method: str = "trace+greedy", **params: int) -> MethodSpec:
    return MethodSpec(method, name, params)


SIZES = (4, 6, 8, 10, 12, 16)
ABLATIONS = {
    "initialisers": Ablation(
        (
            MethodSpec("greedy"),
            *(MethodSpec("random-k+greedy", f"random-k+greedy, seed {s}", {"k": 8}, (s,)) for s in range(3)),
            *(MethodSpec("asn+greedy", f"asn+greedy, {rule}", {"rule": rule}) for rule in ("fixed", "knee", "plateau")),
            MethodSpec("copair+greedy"),
            _trace("trace+greedy", k=8),
        ),
        "greedy",
    ),
    "budget": Ablation(
        (
            *(_trace(f"trace+greedy, M={m}, R=5", k=8, samples=m, rounds=5) for m in (8, 16, 32, 64)),
            *(_trace(f"trace+greedy, M=32, R={r}", k=8, samples=32, rounds=r) for r in (1, 3, 8)),
        ),
        "trace+greedy, M=32, R=5",
    ),
    "k": Ablation(tuple(_trace(f"trace+greedy, k={k}", k=k) for k in SIZES), "trace+greedy, k=8"),
    "overlap": Ablation(tuple(_trace(f"k{k}", "trace+order", k=k) for k in SIZES), None),
    "k-extension": Ablation(
        (MethodSpec("copair+greedy"), *(_trace(f"trace+greedy, k={k}", k=k) for k in (8, 12, 16, 20))),
        "copair+greedy",
        (("correct", 500), ("cause", 100), ("repair", 100)),
        5000,
    ),
}


def ablated(config: Config, name: str) -> Config:
    """The configuration of an ablation; its records go beside those of the one it is made from.

    Of photos the paper's numbers are drawn; manifests are taken as they are.
    """
    if name not in ABLATIONS:
        raise unknown("ablation", name, ABLATIONS)
    ablation = ABLATIONS[name]
    out = config.out.with_name(f"{config.out.name}-{name}")
    photos = config.sources.get("photos")
    if not isinstance(photos, Photos):
        return replace(config, out=out, methods=ablation.methods)
    splits = tuple(SplitSpec(name, "high" if name == "repair" else "ins", draw=draw) for name, draw in ablation.draws)
    photos = replace(photos, correct=min(photos.correct, ablation.correct))
    if all(split != "cause" for split, _ in ablation.draws):
        photos = replace(photos, wrong=0)
    sources = {**config.sources, "photos": photos}
    return replace(config, out=out, methods=ablation.methods, splits=splits, sources=sources)


def overlaps(runs: Sequence[str | Path]) -> str:
    """The paper's overlap table as Markdown: the first A regions of masks of B against the masks of A."""
    found: dict[str, dict[str, dict[str, tuple[int, ...]]]] = {}  # by model and split, method, sample
    for line in read(runs).lines:
        model, split, method = line.row.names
        masks = {sample: tuple(first.get("mask", ())) for sample, first in line.firsts.items()}
        found.setdefault(f"{model}, {split}", {})[method] = masks
    lines = []
    for title, rows in found.items():
        lines += [f"### {title}", "", "| comparison | overlap | Jaccard | samples |", "|---|---|---|---|"]
        for small, large in combinations(rows, 2):
            shared = sorted(rows[small].keys() & rows[large].keys())
            pairs = [top_overlap(rows[large][s], rows[small][s]) for s in shared]
            if pairs:
                share, jaccard = np.mean(pairs, axis=0)
                top = len(rows[small][shared[0]])
                lines.append(f"| top{top}_of_{large}_vs_{small} | {share:.4f} | {jaccard:.4f} | {len(pairs)} |")
        lines.append("")
    return "\n".join(lines)
