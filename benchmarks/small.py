"""The tables of configs/small as they stand in docs/results/bench, from the records of their runs.

Pack new runs (folders named as in RUNS):  python benchmarks/small.py pack FOLDER
Write the tables anew:                     python benchmarks/small.py write
"""

import argparse
import gzip
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from whymask.bench.ablations import ABLATIONS, overlaps
from whymask.bench.render import as_markdown
from whymask.bench.table import COLUMNS, table
from whymask.bench.tail import tail

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "bench"
RECORDS = RESULTS / "records.tar.gz"
ONE_GPU = "On one H200, several runs at a time."
NETWORKS = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2", "resnet50")
PAIRS = (  # that are compared beside those with greedy, and by what
    ("copair+greedy", "trace+greedy", ("insertion_auc", "high")),
    ("copair+phasewin", "phasewin", ("insertion_auc",)),
    ("trace+phasewin", "phasewin", ("insertion_auc",)),
    ("discs+swap", "trace", ("score", "repaired")),
)
RUNS = {  # what each table shows, its runs, and where they were computed
    "efficientnet-lite0": ("EfficientNet-lite0", ["efficientnet-lite0"], ONE_GPU),
    "efficientnet-lite1": (
        "EfficientNet-lite1",
        ["efficientnet-lite1"],
        ONE_GPU + " The split repair was not computed.",
    ),
    "efficientnet-lite2": ("EfficientNet-lite2", ["efficientnet-lite2"], ONE_GPU),
    "resnet50": ("ResNet-50", ["resnet50"], ONE_GPU),
    "coco": (
        "Evidence and true objects",
        ["coco", "coco-cpu"],
        ONE_GPU + " On a CPU: trace and discs+swap.",
    ),
    "scenes": ("Small multimodal models", ["scenes"], ONE_GPU),
    "budget": (
        "Ablation: samples and rounds of TRACE",
        ["ablations-budget", "ablations-budget-cpu"],
        ONE_GPU + " M = 64, R = 1, R = 3 and, on a CPU, R = 8 on a part of the photos.",
    ),
    "k": ("Ablation: size of TRACE's mask", ["ablations-k"], ONE_GPU),
    "overlap": ("Ablation: masks of different sizes", ["ablations-overlap"], "On a CPU."),
}


def pages(runs: Path) -> Iterator[tuple[str, str]]:
    """(name, Markdown) of every table."""
    for name, (title, folders, where) in RUNS.items():
        parts = [runs / folder for folder in folders]
        if name in ABLATIONS:
            command = f"whymask bench ablate {name} configs/small/ablations.toml"
            body = overlaps(parts) if name == "overlap" else as_markdown(table(parts, ABLATIONS[name].against))
        else:
            command = f"whymask bench run configs/small/{name}.toml"
            body = as_markdown(table(parts, "greedy"))
            if name in NETWORKS:
                body += f"\n## Other pairs, on the same samples\n\n{pairs(parts)}"
                body += f"\n## Which photos carry PhaseWin's gap\n\n{tail(parts)}"
        yield name, f"# {title}\n\n`{command}`. {where}\n\n{body}"


def pairs(runs: list[Path]) -> str:
    """The differences of PAIRS as Markdown."""
    lines = ["| split | methods | column | difference |", "|---|---|---|---|"]
    for ours, theirs, columns in PAIRS:
        for line in table(runs, theirs, [ours]).lines:
            for column in columns:
                if line.row.method == ours and column in line.differences:
                    gap, name = line.differences[column], COLUMNS[column].name
                    told = f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
                    lines.append(f"| {line.row.split} | {ours} - {theirs} | {name} | {told} |")
    return "\n".join(lines) + "\n"


def write(out: Path) -> None:
    """All tables of the packed records."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder))
        for name, text in pages(Path(folder)):
            (out / f"{name}.md").write_text(text, encoding="utf-8")


def pack(runs: Path, out: Path = RECORDS) -> None:
    """Keep rows and records, and nothing else, of runs; the same records give the same bytes."""
    folders = sorted({folder for _, folders, _ in RUNS.values() for folder in folders})
    missing = [folder for folder in folders if not any((runs / folder).glob("records-*.jsonl"))]
    if missing:
        sys.exit(f"{runs} has no records of {', '.join(missing)}.")
    with gzip.GzipFile(out, "wb", mtime=0) as file, tarfile.open(fileobj=file, mode="w") as packed:
        for folder in folders:
            for kept in sorted([*(runs / folder).glob("rows/*.json"), *(runs / folder).glob("records-*.jsonl")]):
                entry = tarfile.TarInfo(str(kept.relative_to(runs)))
                entry.size = kept.stat().st_size
                with kept.open("rb") as content:
                    packed.addfile(entry, content)


def unpack(folder: Path) -> None:
    """The folders of the runs."""
    with tarfile.open(RECORDS) as packed:
        packed.extractall(folder, filter="data")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("runs", type=Path)
    packing.set_defaults(run=lambda options: pack(options.runs))
    writing = commands.add_parser("write")
    writing.set_defaults(run=lambda options: write(RESULTS))
    options = parser.parse_args()
    options.run(options)
