"""`whymask bench`: parses, calls, prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whymask.errors import WhymaskError, unknown

if TYPE_CHECKING:
    from whymask.bench.runner import Summary

bench = typer.Typer(help="The paper's tables: run methods on many samples, print what came out.", no_args_is_help=True)

ConfigFile = Annotated[Path, typer.Argument(help="A TOML file, see configs/.", show_default=False)]
Out = Annotated[Path | None, typer.Option(help="Folder of the records; by default the configuration's.")]
Shard = Annotated[str | None, typer.Option(help="I/N: only the samples I, I + N, I + 2N, ... (I from 0).")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@bench.command()
def run(config: ConfigFile, out: Out = None, shard: Shard = None, quiet: Quiet = False) -> None:
    """Run every model, split, method and seed of a configuration; what has a record already is not run again.

    A run that was stopped goes on with the same command. Exit code 1: some samples failed; they are tried again when
    the command is given again.
    """
    from dataclasses import replace

    from whymask.bench.config import read_config
    from whymask.bench.runner import run as run_config

    wanted = read_config(config)
    wanted = wanted if out is None else replace(wanted, out=out)
    try:
        summary = run_config(wanted, shard=_shard(shard), quiet=quiet)
    except KeyboardInterrupt:
        print(f"whymask: stopped; the same command goes on from the records in {wanted.out}.", file=sys.stderr)
        raise typer.Exit(130) from None
    _tell(summary, wanted.out)


@bench.command("table")
def print_table(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", show_default=False)],
    against: Annotated[str | None, typer.Option(help="Compare every row with this one, on the same samples.")] = None,
    methods: Annotated[list[str] | None, typer.Option("--method", help="Only this row; may be repeated.")] = None,
    kind: Annotated[str, typer.Option("--format", help="md, latex, csv or json.")] = "md",
    profile: Annotated[bool, typer.Option("--profile", help="Time, forwards a second and peak memory too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead.")] = None,
) -> None:
    """Print the paper's columns for every model and split of runs, with intervals and paired differences."""
    from whymask.bench.render import FORMATS
    from whymask.bench.table import table

    if kind not in FORMATS:
        raise unknown("format", kind, FORMATS)
    made = table(runs, against, methods or ())
    _write(FORMATS[kind](made, profile=profile) if kind in ("md", "latex") else FORMATS[kind](made), out)


def _write(text: str, out: Path | None) -> None:
    from whymask.results import atomic

    if out is None:
        print(text)
        return
    with atomic(out) as file:
        file.write(text.encode())
    print(out)


def _tell(summary: Summary, out: Path) -> None:
    print(f"{summary} in {out}.")
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
