"""`whymask report`: a page about saved results or benchmark runs."""

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from whymask.api import replay
from whymask.errors import WhymaskError
from whymask.models.registry import MODELS, load
from whymask.results.base import Explanation
from whymask.results.ordering import Ordering
from whymask.utils.files import atomic


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Saved results (.npz) or folders of them, a tab each; or folders of 'whymask bench run'.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write a report of saved results, or of benchmark runs, as one self-contained HTML file."""
    runs = [path.is_dir() and not any(path.glob("*.npz")) for path in results]
    if any(runs) and not all(runs):
        raise WhymaskError("a report is about saved results or about folders of runs, not about both.")
    if all(runs):
        from whymask.bench.report import bench_report

        content = bench_report(results)
    else:
        saved = [sorted(path.glob("*.npz")) if path.is_dir() else [path] for path in results]
        content = _results_page(list(dict.fromkeys(chain.from_iterable(saved))))
    with atomic(out) as file:
        file.write(content.encode())
    print(f"Report: {out}")


def _results_page(results: list[Path]) -> str:
    from whymask.views.report import report as page

    explanations = [_replayed(Explanation.load(path), path) for path in results]
    names = [str(explanation.provenance["method"]) for explanation in explanations]
    for others in ([path.stem for path in results], [str(path) for path in results]):
        if len(set(names)) < len(names):  # tabs need different names
            names = others
    return page(explanations, names)


def _replayed(explanation: Any, path: Path) -> Any:
    """An ordering that was saved without its replay, with it, where its model can be had."""
    if not isinstance(explanation, Ordering) or explanation.curves:
        return explanation
    try:
        name = explanation.provenance.get("model")
        if name not in MODELS:  # a file from elsewhere must not make us load, or send the image to, what it names
            raise WhymaskError(f"{name!r} is not a model of this package; call whymask.replay with your model.")
        model = load(name)
        if model.fingerprint != explanation.provenance.get("model_fingerprint"):
            raise WhymaskError(f"the weights or the preprocessing of {model.name} have changed.")
        return explanation.with_curves(replay(explanation, model))
    except WhymaskError as error:
        print(f"whymask: the report of {path} has no curves, as it cannot be replayed: {error}", file=sys.stderr)
        return explanation
