"""`whymask models`, `methods` and `theory`: what there is and what is known of it, printed."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from whymask.search.recipes import METHOD

lists = typer.Typer()
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout.")]


@lists.command()
def models(as_json: Json = False) -> None:
    """List the models that can be named, and whether what they need is installed."""
    from whymask.models import FAMILIES

    entries = FAMILIES.values()
    if as_json:
        rows = [{"name": m.name, "summary": m.summary, "needs": m.needs, "installed": m.installed} for m in entries]
        print(json.dumps({"models": rows}, indent=2))
        return
    for entry in entries:
        state = "installed" if entry.installed else entry.install
        print(f"{entry.name:20} {entry.summary} ({state})")


@lists.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this method only.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods and what each returns; with a NAME, its parameters and their defaults."""
    from whymask.search import METHODS, Recipe
    from whymask.search.recipes import plain

    shown = list(METHODS.values()) if name is None else [Recipe(name).method]
    if name is None and not as_json:
        shown = [method for method in shown if "+" not in method.name.removesuffix("++") or method.name == METHOD]
    if as_json:
        rows = [
            {
                "name": method.name,
                "returns": method.returns,
                "needs": method.needs,
                "rival": method.rival,
                "summary": method.summary,
                "parameters": {name: plain(value) for name, value in method.parameters.items()},
            }
            for method in shown
        ]
        print(json.dumps({"methods": rows}, indent=2))
        return
    for rivals in (False, True):
        group = [method for method in shown if method.rival is rivals]
        if rivals and group and name is None:
            print("\nMethods the paper compares with:")
        for method in group:
            backward = " (needs gradients)" if method.needs == "gradients" else ""
            print(f"{method.name:20} {method.returns:9} {method.summary}{backward}")
    if name is not None:
        for parameter, value in shown[0].parameters.items():
            print(f"  {parameter:18} {plain(value)}")
    else:
        print(f"""
Masks are made better by exchanges (MASK+swap), ordered inside (MASK+order), and are where orderings start: MASK+greedy,
MASK+phasewin, MASK+lean. MASK+swap+others adds masks that share few regions. The default is {METHOD}.""")


@lists.command()
def theory(as_json: Json = False) -> None:
    """Print the paper's three numerical tables on how likely TRACE is to find a near-optimal mask."""
    from whymask.search.theory import FACTOR, ROUNDS, SAMPLES, paper_tables

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
