"""The pages of docs/results, written from the records in this folder.

Write all pages:  python results/pages.py write
Pack runs:        python results/pages.py pack results/masks.tar.gz runs/masks runs/masks-scenes
"""

import argparse
import gzip
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isinf
from pathlib import Path

from whymask.bench.ablations import ABLATIONS, overlaps
from whymask.bench.render import as_markdown
from whymask.bench.table import Line, Table, column, difference, table
from whymask.bench.tail import tail

RECORDS = Path(__file__).parent
PAGES_OF = RECORDS.parent / "docs" / "results"
ONE_GPU = "On one H200, several runs at a time."
PART = "Not all samples of the configuration were computed: these are those that every row has."
EARLIER = (
    "The records are older than the configurations: a script drew samples from the same photos and scenes and measured "
    "on one H200 (scenes and some rows of lean: on a CPU). Versions and fingerprints were not recorded."
)
REPAIR = ("repaired", "false_yes", "false_no")


@dataclass(frozen=True)
class Page:
    """What a page shows: runs by the names of their configurations, and which rows are compared."""

    title: str
    runs: tuple[str, ...]
    about: str = ONE_GPU
    against: str | None = None
    pairs: tuple[tuple[str, ...], ...] = ()  # ours, theirs, a column, and the column of theirs where it is another
    controls: tuple[str, ...] = ()  # rows that know less than `against`: which of them repair as well?
    tail: bool = False  # which samples account for the gap between PhaseWin and Greedy
    ablation: str | None = None

    @property
    def commands(self) -> str:
        """How to compute its records."""
        if self.ablation:
            return f"`whymask bench ablate {self.ablation} configs/small/ablations.toml`"
        return ", ".join(f"`whymask bench run configs/small/{run}.toml`" for run in self.runs if "-cpu" not in run)


SEEDED = (
    ("copair+greedy", "trace+greedy", "insertion_auc"),
    ("copair+greedy", "trace+greedy", "high"),
    ("copair+phasewin", "phasewin", "insertion_auc"),
    ("trace+phasewin", "phasewin", "insertion_auc"),
)
NETWORK = {
    "against": "greedy",
    "pairs": (*SEEDED, ("discs+swap", "trace", "score"), ("discs+swap", "trace", "repaired")),
    "tail": True,
}
PAGES = {
    "orderings": Page("The paper's six orderings", ("orderings",), EARLIER, against="greedy", pairs=SEEDED, tail=True),
    "baselines": Page(
        "The methods the paper compares with",
        ("baselines",),
        f"{EARLIER} Every method as `whymask methods NAME` shows it. RISE's published count of forwards is twice ours.",
        against="trace+greedy",
    ),
    "masks": Page(
        "Masks beyond the paper's",
        ("masks", "masks-scenes"),
        f"{EARLIER} Masks of 8 regions by forwards, on photos no method was tuned on, and on questions about scenes. "
        "Newer, by the configuration: the rows of lite0 with 32 wrong answers and five seeds (repair: on a CPU).",
        pairs=(
            ("discs+swap", "trace", "score@160"),
            ("discs+swap", "trace", "score@450", "score@160"),
            ("discs+swap", "greedy prefix", "score@450", "score"),
            ("discs+swap", "greedy prefix, suff + necc", "score@450", "score"),
            ("discs+swap", "trace, M = 90", "score@450"),
            ("discs+swap", "trace+swap", "score@450"),
        ),
    ),
    "orderings-beyond": Page(
        "Orderings beyond the paper's",
        ("orderings-beyond",),
        f"{EARLIER} On photos no method was tuned on.",
        pairs=tuple(
            (ours, theirs, name)
            for ours in (
                "discs+swap+greedy",
                "discs+swap+lean",
                "discs+swap+lean, 160",
                "discs+swap+lean, both",
                "discs+swap+greedy, both",
            )
            for theirs, name in (
                ("trace+greedy", "insertion_auc"),
                ("copair+greedy", "insertion_auc"),
                ("greedy", "deletion_auc"),
            )
        ),
    ),
    "repair": Page(
        "Repair of wrong answers",
        ("repair", "repair-orderings"),
        f"{EARLIER} An answer is repaired when it begins with the right word. The split seen is of right yeses; there "
        "masks are compared with the true mask of the object asked about.",
        against="trace",
        controls=(
            "control: blank image",
            "control: random-k",
            "control: random-k, best of 160",
            "control: greedy prefix, 160 forwards",
            "control: trace for the given answer",
        ),
    ),
    "bench/efficientnet-lite0": Page(
        "EfficientNet-lite0",
        ("efficientnet-lite0",),
        f"{ONE_GPU} Compiled. Rows of 200 right answers are in half precision, batch norms too (by now these stay in "
        "fp32, as in the rows of 160; on 20 masked images that moved scores by at most 0.003). Those of wrong answers "
        "and of 96 right ones are of an earlier run in fp32 with TF32 and more methods. Neither it nor the run of 160 "
        "was completed: the samples are those that every row of the run has.",
        **NETWORK,
    ),
    "bench/efficientnet-lite1": Page(
        "EfficientNet-lite1",
        ("efficientnet-lite1", "efficientnet-lite1-cpu"),
        f"{ONE_GPU} On a CPU: the split repair.",
        **NETWORK,
    ),
    "bench/efficientnet-lite2": Page("EfficientNet-lite2", ("efficientnet-lite2",), **NETWORK),
    "bench/resnet50": Page(
        "ResNet-50",
        ("resnet50",),
        f"{ONE_GPU} In fp32 with TF32; the configuration asks for half precision.",
        **NETWORK,
    ),
    "bench/coco": Page(
        "Evidence and true objects",
        ("coco", "coco-cpu"),
        f"{ONE_GPU} On a CPU: trace and discs+swap.",
        against="greedy",
    ),
    "bench/scenes": Page("Small multimodal models", ("scenes",), f"{ONE_GPU} {PART}", against="greedy"),
    "bench/budget": Page(
        "Ablation: samples and rounds of TRACE",
        ("ablations-budget",),
        f"{ONE_GPU} In half precision.",
        against=ABLATIONS["budget"].against,
        ablation="budget",
    ),
    "bench/k": Page("Ablation: size of TRACE's mask", ("ablations-k",), against=ABLATIONS["k"].against, ablation="k"),
    "bench/k-extension": Page(
        "Ablation: larger masks",
        ("ablations-k-extension",),
        f"{ONE_GPU} In half precision. Of 20 wrong answers 16 (cause); the split repair was not reached.",
        against=ABLATIONS["k-extension"].against,
        ablation="k-extension",
    ),
    "bench/overlap": Page(
        "Ablation: masks of different sizes", ("ablations-overlap",), "On a CPU.", ablation="overlap"
    ),
}


def markdown(page: Page, runs: Path) -> str:
    """A page from the folders of its runs."""
    folders = [runs / run for run in page.runs]
    parts = [f"# {page.title}", f"{page.commands}. {page.about}"]
    if page.ablation == "overlap":
        return "\n\n".join([*parts, overlaps(folders)])
    made = table(folders, page.against)
    if page.controls:
        parts.append("\n".join(as_good(made, page.controls)))
    parts.append(as_markdown(made).rstrip("\n"))
    if page.pairs:
        parts += ["## Other pairs, on the same samples", "\n".join(compared(made, page.pairs))]
    if page.tail:
        parts += ["## Which photos account for PhaseWin's gap", tail(folders).rstrip("\n")]
    return "\n\n".join(parts) + "\n"


def compared(made: Table, pairs: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A table of pairs of rows: the ratio of their means, and the difference."""
    yield from ("| model | split | rows | ratio | difference |", "|---|---|---|---|---|")
    for block in made.blocks:
        lines: dict[str, Line] = {line.row.method: line for line in block}
        for ours, theirs, name, *other in pairs:
            if ours in lines and theirs in lines:
                found = difference(lines[ours], lines[theirs], name, *other)
                if found is not None:
                    ratio, gap = found
                    (model, split, _), columns = lines[ours].row.names, [column(one).name for one in (name, *other)]
                    rows = f"{columns[0]}: {ours} - {theirs}" + "".join(f" ({one})" for one in columns[1:])
                    times = "—" if isinf(ratio) else f"{ratio:.2f}"
                    shown = f"{times} | {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
                    yield f"| {model} | {split} | {rows} | {shown} |"


def as_good(made: Table, controls: Sequence[str]) -> Iterator[str]:
    """Which controls do as well as the row they are compared with: the difference's interval reaches zero."""
    yield f"Controls that repair as well as {made.against} (the interval of the difference reaches zero):\n"
    for block in made.blocks:
        lines = [line for line in block if line.row.method in controls]
        found = []
        for name in REPAIR:
            if any(name in line.differences for line in lines):
                level = [line.row.method.removeprefix("control: ") for line in lines
                         if name in line.differences and line.differences[name].high > -1e-6]  # fmt: skip
                found.append(f"{column(name).name}: {' / '.join(level) or 'none'}")
        if found:
            yield f"- **{block[0].row.model}, {block[0].row.split}.** {'; '.join(found)}."


def unpack(folder: Path) -> None:
    """The folders of all runs."""
    for file in sorted(RECORDS.glob("*.tar.gz")):
        with tarfile.open(file) as packed:
            packed.extractall(folder, filter="data")


def pack(out: Path, runs: Sequence[Path]) -> None:
    """Keep rows and records of runs and nothing else; the same records give the same bytes."""
    empty = [str(run) for run in runs if not any(run.glob("records-*.jsonl"))]
    if empty:
        sys.exit(f"there are no records in {', '.join(empty)}.")
    with gzip.GzipFile(out, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as packed:
        for run in sorted(runs, key=lambda run: run.name):
            for kept in sorted([*run.glob("rows/*.json"), *run.glob("records-*.jsonl")]):
                entry = tarfile.TarInfo(str(Path(run.name) / kept.relative_to(run)))
                entry.size = kept.stat().st_size
                with kept.open("rb") as content:
                    packed.addfile(entry, content)


def write(out: Path) -> None:
    """Every page."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder))
        for name, page in PAGES.items():
            (out / f"{name}.md").write_text(markdown(page, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    commands.add_parser("write").set_defaults(run=lambda options: write(PAGES_OF))
    packing = commands.add_parser("pack")
    packing.add_argument("out", type=Path)
    packing.add_argument("runs", type=Path, nargs="+")
    packing.set_defaults(run=lambda options: pack(options.out, options.runs))
    options = parser.parse_args()
    options.run(options)
