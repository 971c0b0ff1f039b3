"""`whymask models`, `methods` and `theory`: lists of what can be named, and the paper's bounds."""

import json
from typing import Annotated, Any

import typer

from whymask.methods import METHOD, OF_SIZE, STAGES, Method, Recipe
from whymask.methods import methods as all_methods
from whymask.search.stage import KINDS

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
    shown = all_methods() if name is None else [Recipe(name).method]
    if as_json:
        print(json.dumps({"methods": [_described(method) for method in shown]}, indent=2))
    elif name is not None:
        print(_line(shown[0]))
        for parameter, value in Recipe(name).parameters.items():
            print(f"  {parameter:18} {value}")
    else:
        shown = [method for method in shown if "+" not in method.name.rstrip("+") or method.name == OF_SIZE]
        print(*(_line(method) for method in shown if not method.baseline), sep="\n")
        print("\nBaselines:", *(_line(method) for method in shown if method.baseline), sep="\n")
        print(
            '\nStages that can follow a mask, joined by "+":',
            *_following(),
            f"The default is {METHOD}, or, for a given number of regions, {OF_SIZE}.",
            sep="\n",
        )


def _described(method: Method) -> dict[str, Any]:
    shown = {name: getattr(method, name) for name in ("name", "returns", "needs", "baseline", "summary")}
    return shown | {"parameters": Recipe(method.name).parameters}


def _line(method: Method) -> str:
    gradients = " (needs gradients)" if method.needs == "gradients" else ""
    return f"{method.name:20} {method.returns:9} {method.summary}{gradients}"


def _following() -> list[str]:
    """A line for every stage that can take a mask."""
    kinds = [(name, KINDS[stage.kind]) for name, stage in STAGES.items()]
    return [f"+{name:19} {kind.does}" for name, kind in kinds if kind.takes != ("nothing",)]


@lists.command()
def theory(as_json: Json = False) -> None:
    """Print the paper's three numerical tables on how likely TRACE is to find a near-optimal mask."""
    from whymask.search.theory import FACTOR, ROUNDS, SAMPLES, paper_tables

    tables = paper_tables()
    if as_json:
        print(json.dumps(tables, indent=2))
        return
    print(f"Chance that one of {ROUNDS} rounds of {SAMPLES} masks is a hit, F(S) >= 0.8 opt, if the round")
    print("probabilities are as given (a run's own are random: this guarantees nothing about a single run).")
    print("\nfixed: every mask hits with probability p0")
    for row in tables["fixed"]:
        print(f"  p0 {row['p0']:6.1%}   P_hit {row['p_hit']:7.2%}")
    print(f"\namplified: the odds of p0 grow by {FACTOR} a round")
    for row in tables["amplified"]:
        print(f"  p0 {row['p0']:6.1%}   P_hit {row['p_hit']:7.2%}")
    print(f"\nblocks: h blocks share the initial mass eta0, whose odds grow by {FACTOR} a round")
    for row in tables["blocks"]:
        print(f"  h {row['h']}   eta0 {row['eta0']:6.1%}   P_hit {row['p_hit']:7.2%}")
