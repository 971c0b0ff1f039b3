"""The command line: parses, calls, prints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from whymask.cli.bench import bench
from whymask.cli.lists import Json, lists
from whymask.errors import WhymaskError
from whymask.search.recipes import METHOD
from whymask.utils.interrupts import INTERRUPTS, Terminated, exit_code, handle_sigterm
from whymask.version import __version__

if TYPE_CHECKING:
    from whymask.results.base import Explanation

app = typer.Typer(
    name="whymask",
    help="Which few regions of an image are enough for a vision model's answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(bench, name="bench")
app.add_typer(lists)
P = ParamSpec("P")


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


def _interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """The command, which Ctrl-C and SIGTERM end with a sentence; it writes its files at its end, all or none."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except INTERRUPTS as interrupt:
            print(f"whymask: {command.__name__} was interrupted; nothing was written.", file=sys.stderr)
            raise typer.Exit(exit_code(interrupt)) from None

    return run


@app.command()
@_interruptible
def explain(
    image: Annotated[Path, typer.Argument(help="The image file, or scene:N.", show_default=False)],
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.")] = "efficientnet-lite0",
    target: Annotated[str | None, typer.Option(help="Class name or index, or an answer; by default its own.")] = None,
    question: Annotated[str | None, typer.Option(help="For models that answer questions.")] = None,
    method: Annotated[str, typer.Option(help="A method, see 'whymask methods'.")] = METHOD,
    k: Annotated[
        str | None, typer.Option(help="Regions of the mask, by default 8 (10 with a question), or auto.")
    ] = None,
    alternatives: Annotated[int, typer.Option(help="Further masks that share at most half of their regions.")] = 0,
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the method, such as tries=400; may be repeated.")
    ] = None,
    regions: Annotated[str, typer.Option(help="slico:N, grid:N, grid:RxC or a label-map file.")] = "slico:64",
    fill: Annotated[str, typer.Option(help="black, mean, blur, dark_defocus, a colour or an image file.")] = "black",
    resize: Annotated[str, typer.Option(help="own (the model's preprocessing) or squash.")] = "own",
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    seeds: Annotated[int, typer.Option(help="Run this many seeds and tell which regions recur.")] = 1,
    budget: Annotated[int | None, typer.Option(help="The most forwards a search may use.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    dtype: Annotated[str | None, typer.Option(help="fp32, fp16, bf16 or fp64.")] = None,
    model_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the model, such as classes=names.txt; may be repeated.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per model batch.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the result.")] = Path("whymask-out"),
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Show which few regions of an image are enough for a model's answer."""
    from tqdm import tqdm

    from whymask.api import recipe_for, sized
    from whymask.explainer.case import Case
    from whymask.images.imaging import load_image
    from whymask.metrics.overlap import recurrence
    from whymask.models import load
    from whymask.results.ordering import Ordering
    from whymask.search import Recipe
    from whymask.utils.files import writable

    # What can be refused is refused before a model is loaded.
    if seeds < 1:
        raise WhymaskError(f"--seeds must be at least 1, not {seeds}.")
    size = int(k) if k is not None and k.isdecimal() else k
    orders = Recipe(method).method.returns == "ordering"
    if seeds > 1 and orders and not isinstance(size, int):
        raise WhymaskError("--seeds compares the first k regions of orderings: pass --k, or use a mask method.")
    compared = seeds > 1 and "k" not in Recipe(method).method.parameters  # k then says how many regions to compare
    params = _values("--param", param or [])
    recipe = recipe_for(method, None if compared and orders else size, params, alternatives)
    picture = load_image(image)
    writable(out)
    options = {"device": device, "dtype": dtype, **_values("--model-option", model_option or [])}
    loaded = load(model, **{name: value for name, value in options.items() if value is not None})
    recipe = sized(recipe, loaded)
    case = Case.of(
        picture,
        loaded,
        target=target,
        question=question,
        regions=regions,
        fill=fill,
        resize=resize,  # type: ignore[arg-type]
        batch_size=batch_size,
    )
    started = time.perf_counter()
    expected = seeds * min(recipe.estimate(case.partition.n), budget or sys.maxsize)
    # On a terminal only, and on stderr: stdout is for the answer.
    with tqdm(total=expected, unit="forward", file=sys.stderr, disable=quiet or None, leave=False) as bar:
        results = case.search(
            recipe,
            range(seed, seed + seeds),
            budget=budget,
            progress=lambda now: bar.update(len(now.responses) - bar.n),
        )
    seconds = time.perf_counter() - started
    first = results[0]
    lines = [str(first)]
    if isinstance(first, Ordering):
        curves = case.replay(first.order)
        first = first.with_curves(curves)
        lines.append(f"Replay: {curves}.")
    report = first.as_dict()
    if seeds > 1:
        first_k = size if isinstance(size, int) else None
        chosen = [result.order[:first_k] if isinstance(result, Ordering) else result.regions for result in results]
        report["recurrence"] = recurrence([first.names(regions) for regions in chosen])
        report["seeds"] = [result.as_dict() for result in results]
        lines.append(_stability(report["recurrence"], seeds, sum(r.ledger.mec for r in results), seconds))
    report["files"] = _write(first, out, f"{image.stem}-{recipe.name}")
    print(json.dumps(report, indent=2) if as_json else "\n".join([*lines, f"Picture: {report['files']['picture']}"]))


@app.command()
@_interruptible
def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="Saved results (.npz), each gets a tab; or folders of 'whymask bench run'.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write a page about saved results, or about benchmark runs: one file that needs nothing else."""
    from whymask.utils.files import atomic

    folders = [path.is_dir() for path in results]
    if any(folders) and not all(folders):
        raise WhymaskError("a report is about saved results or about folders of runs, not about both.")
    content = _runs_page(results) if all(folders) else _results_page(results)
    with atomic(out) as file:
        file.write(content.encode())
    print(f"Report: {out}")


def _runs_page(runs: list[Path]) -> str:
    from whymask.bench.report import bench_report

    return bench_report(runs)


def _results_page(results: list[Path]) -> str:
    from whymask.results.base import Explanation
    from whymask.views.report import report as page

    explanations = [_replayed(Explanation.load(path), path) for path in results]
    names = [str(explanation.provenance["method"]) for explanation in explanations]
    for others in ([path.stem for path in results], [str(path) for path in results]):
        if len(set(names)) < len(names):  # tabs are told apart
            names = others
    return page(explanations, names)


def _replayed(explanation: Any, path: Path) -> Any:
    """An ordering that was saved without its replay, with it, where its model can be had."""
    from whymask.api import replay
    from whymask.models import load
    from whymask.models.registry import MODELS
    from whymask.results.ordering import Ordering

    if not isinstance(explanation, Ordering) or explanation.curves:
        return explanation
    try:
        name = explanation.provenance.get("model")
        if name not in MODELS:  # a file from elsewhere must not make us load, or send the image to, what it names
            raise WhymaskError(f"{name!r} is not a model of this package; whymask.replay does it with your model.")
        model = load(name)
        if model.fingerprint != explanation.provenance.get("model_fingerprint"):
            raise WhymaskError(f"{model.name} has other weights now.")
        return explanation.with_curves(replay(explanation, model))
    except WhymaskError as error:
        print(f"whymask: the report of {path} has no curves, as it cannot be replayed: {error}", file=sys.stderr)
        return explanation


@app.command()
def serve(
    model: Annotated[
        list[str] | None, typer.Option(help="A model that may be chosen; may be repeated. By default those installed.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; the default is for this machine only.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name browsers may reach this server under; may be repeated.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    model_option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the models; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("whymask-out/served"),
) -> None:
    """Explain images in a browser, on a page that this machine serves."""
    from functools import partial

    from whymask.models import MODELS, find, load
    from whymask.serve import serve as run
    from whymask.utils.redact import public

    options = _values("--model-option", model_option or []) | ({} if device is None else {"device": device})
    names = model or [name for name, entry in MODELS.items() if entry.installed]
    if not names:
        raise WhymaskError("no model is installed: pip install 'whymask[lite]', or name one with --model.")
    entries = {name: find(name)[0] for name in names}
    for name, entry in entries.items():
        if not entry.installed:
            raise WhymaskError(f"{name} needs more packages: {entry.install}.")
    shown = {name: public(name) for name in entries}
    if len({*shown.values()}) < len(shown):
        raise WhymaskError("two models differ only in the user, password or query of their URL: serve one of them.")
    run(
        {shown[name]: partial(load, name, **options) for name in entries},
        out,
        abilities={shown[name]: entry.can for name, entry in entries.items()},
        host=host,
        port=port,
        allow_hosts=allow_host or (),
        ready=_serving,
    )


def _serving(url: str) -> None:
    if "?token=" in url:
        print("whymask: anybody who has this address can use the models and see all results.", file=sys.stderr)
    print(f"Serving {url} (Ctrl-C ends it).", flush=True)


def _write(found: Explanation, folder: Path, name: str) -> dict[str, str]:
    """Write the picture and the result, both or none; their paths."""
    stem = _unused(folder, name)
    picture = found.savefig(stem.with_name(stem.name + ".png"))
    try:
        result = found.save(stem.with_name(stem.name + ".npz"))
    except BaseException:
        picture.unlink()
        raise
    return {"picture": str(picture), "result": str(result)}


def _unused(folder: Path, name: str) -> Path:
    """A file name in the folder that overwrites nothing: NAME, NAME-2, NAME-3, ..."""
    name = name.replace(":", "-")  # scene:12
    for number in count(1):
        stem = folder / (name if number == 1 else f"{name}-{number}")
        if not any(stem.with_name(stem.name + suffix).exists() for suffix in (".png", ".npz")):
            return stem
    raise AssertionError("counting never ends")


@app.command()
@_interruptible
def repair(
    image: Annotated[Path, typer.Argument(help="The image file, or scene:N.", show_default=False)],
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.", show_default=False)],
    want: Annotated[str, typer.Option(help="The answer that should have been given.", show_default=False)],
    question: Annotated[str | None, typer.Option(help="For models that answer questions.")] = None,
    method: Annotated[str, typer.Option(help="A method, see 'whymask methods'.")] = "trace",
    k: Annotated[int | None, typer.Option(help="Regions of the mask; by default 10 with a question, else 8.")] = None,
    regions: Annotated[str, typer.Option(help="slico:N, grid:N, grid:RxC or a label-map file.")] = "slico:64",
    fill: Annotated[str, typer.Option(help="black, mean, blur, dark_defocus, a colour or an image file.")] = "black",
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the picture and the result.")] = Path("whymask-out"),
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Show a model only the regions that speak for the answer it should have given, and ask again."""
    from tqdm import tqdm

    from whymask.api import recipe_for, sized
    from whymask.explainer.case import Case
    from whymask.explainer.repairing import attempt
    from whymask.images.imaging import load_image
    from whymask.models import load
    from whymask.utils.files import writable

    recipe = recipe_for(method, k)
    picture = load_image(image)
    writable(out)
    loaded = load(model, **({} if device is None else {"device": device}))
    recipe = sized(recipe, loaded)
    case = Case.of(picture, loaded, target=want, question=question, regions=regions, fill=fill)
    expected = recipe.estimate(case.partition.n)
    with tqdm(total=expected, unit="forward", file=sys.stderr, disable=quiet or None, leave=False) as bar:
        found = attempt(case, recipe, seed, progress=lambda told: bar.update(told.forwards - bar.n))
    files = _write(found, out, f"{image.stem}-repair")
    report = found.as_dict() | {"files": files}
    print(json.dumps(report, indent=2) if as_json else f"{found}\nPicture: {files['picture']}")


def _values(flag: str, pairs: list[str]) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is JSON, such as a number or a list, is read as that."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WhymaskError(f"{flag} takes NAME=VALUE.")
        try:
            options[name.strip().replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip().replace("-", "_")] = value
    return options


def _stability(frequency: dict[int, float], seeds: int, forwards: int, seconds: float) -> str:
    steady = [str(region) for region, share in frequency.items() if share == 1]
    often = [f"{region} ({share:.0%})" for region, share in frequency.items() if share < 1]
    return (
        f"Over {seeds} seeds ({forwards} forwards, {seconds:.1f} s together), in every one: "
        f"{', '.join(steady) or 'no region'}; in some: {', '.join(often) or 'no other'}."
    )


def main() -> None:
    """Entry point: a mistake of the user's is one sentence on stderr and exit code 2."""
    try:
        handle_sigterm()
        app()
    except Terminated as interrupt:  # of a command that has nothing to say about it
        raise SystemExit(exit_code(interrupt)) from None
    except WhymaskError as error:
        from whymask.utils.redact import redacted

        print(f"whymask: {redacted(str(error))}", file=sys.stderr)
        raise SystemExit(2) from None
