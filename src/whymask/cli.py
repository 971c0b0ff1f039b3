"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from whymask import __version__
from whymask.errors import WhymaskError

app = typer.Typer(
    name="whymask",
    help="Which few regions of an image are enough for a vision model's answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


def _version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods, what each returns and its parameters."""
    from whymask.search import METHODS

    if as_json:
        rows = [
            {
                "name": method.name,
                "returns": method.returns,
                "summary": method.summary,
                "parameters": {name: _plain(value) for name, value in method.parameters.items()},
            }
            for method in METHODS.values()
        ]
        print(json.dumps({"methods": rows}, indent=2))
        return
    for method in METHODS.values():
        print(f"{method.name:20} {method.returns:9} {method.summary}")


@app.command()
def theory(as_json: Json = False) -> None:
    """Print the paper's three numerical tables on how likely TRACE is to find a near-optimal mask."""
    from whymask.theory import FACTOR, ROUNDS, SAMPLES, paper_tables

    tables = paper_tables()
    if as_json:
        print(json.dumps(tables, indent=2))
        return
    print(f"Chance that one of {ROUNDS} rounds of {SAMPLES} masks is a hit, F(S) >= 0.8 opt, if the round")
    print("probabilities are as given (a run's own are random: these are no promises about a run).")
    print("\nfixed: every mask hits with probability p0")
    for row in tables["fixed"]:
        print(f"  p0 {row['p0']:6.1%}   P_hit {row['p_hit']:7.2%}")
    print(f"\namplified: the odds of p0 grow by {FACTOR} a round")
    for row in tables["amplified"]:
        print(f"  p0 {row['p0']:6.1%}   P_hit {row['p_hit']:7.2%}")
    print(f"\nblocks: h blocks share the initial mass eta0, whose odds grow by {FACTOR} a round")
    for row in tables["blocks"]:
        print(f"  h {row['h']}   eta0 {row['eta0']:6.1%}   P_hit {row['p_hit']:7.2%}")


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def main() -> None:
    """Entry point: a mistake of the user's is one sentence on stderr and exit code 2."""
    try:
        app()
    except WhymaskError as error:
        print(f"whymask: {error}", file=sys.stderr)
        raise SystemExit(2) from None
