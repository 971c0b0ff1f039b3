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
ONE_GPU = "Measured on one H200, with several runs at a time."
PART = "Not all samples of the configuration were computed; the tables contain those that every row has."
EARLIER = (
    "The records were computed by a script before the configuration existed, with samples drawn from the same photos "
    "and scenes, on one H200 (scenes and some rows of lean on a CPU). They contain neither versions nor "
    "fingerprints."
)
COMPARED = (
    "The ratio of the means of two rows, and their difference, on the same samples. A column in parentheses is that "
    "of the second row."
)
SMALL = "the-papers-tables-on-small-models"
REPAIR = ("repaired", "false_yes", "false_no")


@dataclass(frozen=True)
class Page:
    """What a page shows: runs by the names of their configurations, and which rows are compared."""

    title: str
    runs: tuple[str, ...]
    about: str
    summary: str = SMALL  # the section of docs/results/README.md that says what the tables show
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
TABLES = "The paper's methods and splits on {}, a small classifier of ImageNet."
PAGES = {
    "orderings": Page(
        "The paper's six orderings",
        ("orderings",),
        "Greedy and PhaseWin, alone and after a mask of TRACE or CoPAIR, on photos that the model classifies "
        f"correctly. {EARLIER}",
        "the-papers-six-orderings",
        against="greedy",
        pairs=SEEDED,
        tail=True,
    ),
    "baselines": Page(
        "The paper's baselines",
        ("baselines",),
        "The methods that the paper compares with, next to searches, on the same photos and regions, with the "
        "parameters that `whymask methods NAME` prints. RISE's published count of forwards is twice the one here. "
        f"{EARLIER}",
        "baselines",
        against="trace+greedy",
    ),
    "masks": Page(
        "Masks of eight regions",
        ("masks", "masks-scenes"),
        "Which search finds the best mask of 8 regions, by the number of forwards? The paper's methods, whymask's "
        "own and controls, on photos that no method was tuned on and on questions about [scenes](../scenes.md). "
        f"{EARLIER} One part is newer and was computed with the configuration: the rows of EfficientNet-lite0 with 32 "
        "wrong answers and five seeds (the split repair on a CPU).",
        "masks",
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
        "Orderings of all regions",
        ("orderings-beyond",),
        "Which search ranks all regions best? The paper's methods and whymask's own, on photos that no method was "
        'tuned on. In the names of rows, "160" means that the mask was found with 160 forwards instead of 450, and '
        f'"both" that the mask was searched for sufficiency and necessity together. {EARLIER}',
        "orderings",
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
        "How many wrong answers of two small multimodal models become right if the model is shown only the evidence "
        "for the right answer, and how many do by controls that use less information? An answer is repaired if it "
        "begins with the right word. The split seen has right answers yes; there, masks are compared with the true "
        f"mask of the object in question. {EARLIER}",
        "repair-of-wrong-answers",
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
        f"{TABLES.format('EfficientNet-lite0')} {ONE_GPU} The model was compiled. The tables combine three runs. Rows "
        "of 200 right answers were computed in half precision, including the batch norms; rows of 160 in half "
        "precision with batch norms in fp32, as whymask runs them; rows of 96, and all wrong answers, in fp32 with "
        "TF32. On 20 masked images, the precision of the batch norms changed scores by at most 0.003. The runs of "
        "160 and 96 were not completed; their samples are those that every row of the run has.",
        **NETWORK,
    ),
    "bench/efficientnet-lite1": Page(
        "EfficientNet-lite1",
        ("efficientnet-lite1", "efficientnet-lite1-cpu"),
        f"{TABLES.format('EfficientNet-lite1')} {ONE_GPU} The split repair was measured on a CPU.",
        **NETWORK,
    ),
    "bench/efficientnet-lite2": Page(
        "EfficientNet-lite2",
        ("efficientnet-lite2",),
        f"{TABLES.format('EfficientNet-lite2')} {ONE_GPU}",
        **NETWORK,
    ),
    "bench/resnet50": Page(
        "ResNet-50",
        ("resnet50",),
        f"{TABLES.format('ResNet-50').replace('a small', 'a')} {ONE_GPU} The records were computed in fp32 with TF32, "
        "although the configuration specifies half precision.",
        **NETWORK,
    ),
    "bench/coco": Page(
        "Evidence and true objects",
        ("coco", "coco-cpu"),
        "Does the evidence lie on the objects that are outlined in COCO? The model is a classifier of ImageNet, and "
        f"its own answers are explained. {ONE_GPU} Rows trace and discs+swap were measured on a CPU.",
        against="greedy",
    ),
    "bench/scenes": Page(
        "Small multimodal models",
        ("scenes",),
        f"The paper's methods on questions about [scenes](../../scenes.md). {ONE_GPU} {PART}",
        against="greedy",
    ),
    "bench/budget": Page(
        "Ablation: samples and rounds of TRACE",
        ("ablations-budget",),
        "How many masks (M) and rounds (R) does TRACE need before Greedy continues its mask? Measured in half "
        f"precision. {ONE_GPU}",
        against=ABLATIONS["budget"].against,
        ablation="budget",
    ),
    "bench/k": Page(
        "Ablation: size of TRACE's mask",
        ("ablations-k",),
        f"How many regions (k) should the mask have that Greedy continues? {ONE_GPU}",
        against=ABLATIONS["k"].against,
        ablation="k",
    ),
    "bench/k-extension": Page(
        "Ablation: larger masks",
        ("ablations-k-extension",),
        "Larger masks of TRACE compared with CoPAIR, on right and on wrong answers. Measured in half precision. "
        f"{ONE_GPU} The run was not completed: the split cause has 16 of 20 wrong answers, and the split repair is "
        "missing.",
        against=ABLATIONS["k-extension"].against,
        ablation="k-extension",
    ),
    "bench/overlap": Page(
        "Ablation: masks of different sizes",
        ("ablations-overlap",),
        "How many regions do TRACE's masks of different sizes share? A row such as top4_of_k6_vs_k4 compares the first "
        "four regions of the mask of six with the mask of four. Measured on a CPU.",
        ablation="overlap",
    ),
}


def markdown(name: str, page: Page, runs: Path) -> str:
    """The page of this name, from the folders of its runs."""
    folders = [runs / run for run in page.runs]
    up = "../" * name.count("/")
    reading = (
        f"Command: {page.commands}. See also: [what the tables show]({up}README.md#{page.summary}), "
        f"[splits]({up}README.md#splits), [columns]({up}../bench.md#tables)."
    )
    parts = [f"# {page.title}", page.about, reading]
    if page.ablation == "overlap":
        return "\n\n".join([*parts, overlaps(folders)])
    made = table(folders, page.against)
    if page.controls:
        parts.append("\n".join(as_good(made, page.controls)))
    parts.append(as_markdown(made).rstrip("\n"))
    if page.pairs:
        parts += ["## Further comparisons", COMPARED, "\n".join(compared(made, page.pairs))]
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
    """Which controls do as well as the row they are compared with: the interval of the difference is not below zero."""
    yield f"Controls that repair as well as {made.against} (the interval of the difference is not below zero):\n"
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
            (out / f"{name}.md").write_text(markdown(name, page, Path(folder)), encoding="utf-8")


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
