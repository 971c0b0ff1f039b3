"""`whymask explain` and `whymask repair`: parse, call, print."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from whymask.cli.options import ImageFile, Options, Question, with_options
from whymask.errors import WhymaskError
from whymask.explainer.explainer import MODEL
from whymask.methods import Recipe
from whymask.metrics.overlap import recurrence
from whymask.results.mask import EvidenceMask
from whymask.results.ordering import Ordering


@with_options()
def explain(
    image: ImageFile,
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.")] = MODEL,
    target: Annotated[str | None, typer.Option(help="Class name or index, or an answer; by default its own.")] = None,
    question: Question = None,
    seeds: Annotated[int, typer.Option(help="Run this many seeds and report which regions recur.")] = 1,
    *,
    options: Options,
) -> None:
    """Show which few regions of an image are enough for a model's answer."""
    explainer, picture = _for_seeds(options, seeds).start(image, model)
    case = explainer.case(picture, target=target, question=question)
    started = time.perf_counter()
    results = explainer.search(case, range(options.seed, options.seed + seeds), progress=options.progress)
    seconds = time.perf_counter() - started
    first = results[0]
    lines = [str(first)]
    if isinstance(first, Ordering):
        curves = case.replay(first.order)
        first = first.with_curves(curves)
        lines.append(f"Replay: {curves}.")
    report = first.as_dict()
    if seeds > 1:
        report["recurrence"] = recurrence([first.names(_compared(result, options.size)) for result in results])
        report["seeds"] = [result.as_dict() for result in results]
        lines.append(_stability(report["recurrence"], seeds, sum(r.ledger.mec for r in results), seconds))
    options.finish(first, f"{image.stem}-{explainer.recipe.name}", lines, report)


@with_options()
def repair(
    image: ImageFile,
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.", show_default=False)],
    want: Annotated[str, typer.Option(help="The answer that should have been given.", show_default=False)],
    question: Question = None,
    *,
    options: Options,
) -> None:
    """Show a model only the regions that support the answer it should have given, and ask again."""
    explainer, picture = options.start(image, model)
    found = explainer.repair(picture, want=want, question=question, progress=options.progress)
    options.finish(found, f"{image.stem}-repair", [str(found)], found.as_dict())


def _for_seeds(options: Options, seeds: int) -> Options:
    """The options of each of several searches; of orderings k may only say how many regions to compare."""
    if seeds < 1:
        raise WhymaskError(f"--seeds must be at least 1, not {seeds}.")
    method = Recipe(options.method).method
    if seeds == 1 or method.returns == "mask":
        return options
    if not isinstance(options.size, int):
        raise WhymaskError("--seeds compares the first k regions of orderings: pass --k, or use a mask method.")
    return options if "k" in method.parameters else replace(options, k=None)


def _compared(result: EvidenceMask | Ordering, k: int | str | None) -> tuple[int, ...]:
    return result.order[: k if isinstance(k, int) else None] if isinstance(result, Ordering) else result.regions


def _stability(frequency: dict[int, float], seeds: int, forwards: int, seconds: float) -> str:
    steady = [str(region) for region, share in frequency.items() if share == 1]
    often = [f"{region} ({share:.0%})" for region, share in frequency.items() if share < 1]
    return (
        f"Over {seeds} seeds ({forwards} forwards, {seconds:.1f} s together), in every one: "
        f"{', '.join(steady) or 'no region'}; in some: {', '.join(often) or 'no other'}."
    )
