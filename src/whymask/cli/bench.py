"""`whymask bench`: parses, calls, prints."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whymask.errors import WhymaskError, unknown
from whymask.utils.files import atomic
from whymask.utils.interrupts import INTERRUPTS, exit_code

if TYPE_CHECKING:
    from whymask.bench.config import Config
    from whymask.bench.runner import Summary

bench = typer.Typer(help="Run methods on many samples and print the paper's tables.", no_args_is_help=True)

ConfigFile = Annotated[Path, typer.Argument(help="A TOML file, see configs/.", show_default=False)]
Runs = Annotated[list[Path], typer.Argument(help="Folders of runs.", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="Folder of the records; by default the configuration's.")]
Shard = Annotated[str | None, typer.Option(help="I/N: only the samples I, I + N, I + 2N, ... (I from 0).")]
Ray = Annotated[
    str | None, typer.Option(help="Run on the Ray cluster at this address; auto: an existing local one, or a new one.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@bench.command()
def run(config: ConfigFile, out: Out = None, shard: Shard = None, ray: Ray = None, quiet: Quiet = False) -> None:
    """Run every model, split, method and seed of a configuration that has no record yet.

    The same command resumes a run that was stopped. Exit code 1: some samples failed; the same command tries them
    again. Exit code 3: the head of the Ray cluster was lost.
    """
    from whymask.bench.config import read_config

    summary, out = _run(read_config(config), out, shard, ray, quiet)
    print(f"{summary} in {out}.")
    _report_problems(summary)


@bench.command()
def ablate(
    name: Annotated[str, typer.Argument(help="initialisers, budget, k, overlap or k-extension.", show_default=False)],
    config: ConfigFile,
    out: Out = None,
    shard: Shard = None,
    ray: Ray = None,
    quiet: Quiet = False,
) -> None:
    """Run one of the paper's ablations on the models and photos of a configuration, and print its table."""
    from whymask.bench.ablations import ABLATIONS, ablated, overlaps
    from whymask.bench.config import read_config
    from whymask.bench.render import as_markdown
    from whymask.bench.table import table

    summary, out = _run(ablated(read_config(config), name), out, shard, ray, quiet)
    print(f"{summary} in {out}.\n")
    if summary.done:
        print(overlaps([out]) if name == "overlap" else as_markdown(table([out], ABLATIONS[name].against)))
    _report_problems(summary)


@bench.command("tail")
def print_tail(
    runs: Runs,
    method: Annotated[str, typer.Option(help="The method that trails.")] = "phasewin",
    against: Annotated[str, typer.Option(help="The method that leads.")] = "greedy",
    shown: Annotated[int, typer.Option(help="Samples to name.", min=0)] = 10,
) -> None:
    """Report which samples account for the gap between two orderings, by insertion AUC."""
    from whymask.bench.tail import tail

    print(tail(runs, method, against, shown))


@bench.command("table")
def print_table(
    runs: Runs,
    against: Annotated[str | None, typer.Option(help="Compare every row with this one, on the same samples.")] = None,
    methods: Annotated[list[str] | None, typer.Option("--method", help="Only this row; may be repeated.")] = None,
    kind: Annotated[str, typer.Option("--format", help="md, latex, csv or json.")] = "md",
    profile: Annotated[bool, typer.Option("--profile", help="Add time, forwards per second and peak memory.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
) -> None:
    """Print the paper's columns for every model and split of runs, with intervals and paired differences."""
    from whymask.bench.render import FORMATS
    from whymask.bench.table import table

    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    made = table(runs, against, methods or ())
    text = FORMATS[kind](made, profile=profile) if kind in ("md", "latex") else FORMATS[kind](made)
    if out is None:
        print(text)
    else:
        with atomic(out) as file:
            file.write(text.encode())
        print(out)


@bench.command("figure")
def draw_figures(
    runs: Runs,
    kinds: Annotated[
        list[str] | None, typer.Option("--kind", help="compare, repair, tail, budget or k; may be repeated.")
    ] = None,
    methods: Annotated[list[str] | None, typer.Option("--method", help="Show this row; may be repeated.")] = None,
    against: Annotated[str | None, typer.Option(help="The row that the others are compared with.")] = None,
    samples: Annotated[list[str] | None, typer.Option("--sample", help="Show this sample; may be repeated.")] = None,
    shown: Annotated[int, typer.Option(help="Number of samples to pick if none is named.", min=1)] = 3,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    split: Annotated[str | None, typer.Option(help="Only of this split.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to; by default RUN/figures.")] = None,
    suffix: Annotated[str, typer.Option("--format", help="png, pdf or svg.")] = "png",
) -> None:
    """Draw the paper's figures from runs: evidence and repairs by method, the long tail, budget and k.

    Evidence needs a run with keep = "masks" and its images. Without --kind, whatever the records allow is drawn, one
    file for every kind, model and split.
    """
    from whymask.bench.figures import Choice, figures

    choice = Choice(methods or (), against, samples or (), shown, model, split)
    drawn = figures(runs, kinds or (), out or runs[0] / "figures", suffix, choice)
    if not drawn.files:
        raise WhymaskError(next(iter(drawn.problems), "the records hold nothing that a figure shows."))
    for message in dict.fromkeys([*drawn.notes, *drawn.problems]):
        print(f"whymask: {message}", file=sys.stderr)
    for file in drawn.files:
        print(file)


@bench.command("export")
def export_records(
    runs: Runs,
    out: Annotated[Path, typer.Option("--out", "-o", help="The Parquet file to write.")] = Path("records.parquet"),
) -> None:
    """Write all records of runs into one Parquet file, with the names and settings of their rows."""
    from whymask.bench.export import export

    print(f"{export(runs, out)} records in {out}.")


def _run(config: Config, out: Path | None, shard: str | None, ray: str | None, quiet: bool) -> tuple[Summary, Path]:
    from whymask.bench.cluster import LostHeadError
    from whymask.bench.runner import run as run_config

    wanted = config if out is None else replace(config, out=out)
    try:
        return run_config(wanted, shard=_shard(shard), ray=ray, quiet=quiet), wanted.out
    except LostHeadError as error:
        print(f"whymask: {error} The same command goes on from the records in {wanted.out}.", file=sys.stderr)
        raise typer.Exit(3) from None
    except INTERRUPTS as interrupt:
        print(f"whymask: stopped; the same command goes on from the records in {wanted.out}.", file=sys.stderr)
        raise typer.Exit(exit_code(interrupt)) from None


def _report_problems(summary: Summary) -> None:
    if summary.skipped:
        lines = f"{summary.skipped} line{'s' if summary.skipped > 1 else ''} of earlier records"
        print(f"whymask: {lines} could not be read; what was missing is computed again.", file=sys.stderr)
    if summary.unkept:
        results = f"{summary.unkept} results were" if summary.unkept > 1 else "1 result was"
        print(
            f'whymask: {results} computed without keep = "masks" and cannot be drawn; for their figures, repeat the '
            "run in another folder (--out).",
            file=sys.stderr,
        )
    for line in summary.failed[:10]:
        print(f"failed: {line}", file=sys.stderr)
    if len(summary.failed) > 10:
        print(f"... and {len(summary.failed) - 10} more", file=sys.stderr)
    if summary.failed:
        raise typer.Exit(1)


def _shard(given: str | None) -> tuple[int, int]:
    if given is None:
        return 0, 1
    part, slash, parts = given.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and int(part) < int(parts)):
        raise WhymaskError(f"--shard takes I/N with I from 0 to N - 1, such as 0/4, not {given!r}.")
    return int(part), int(parts)
