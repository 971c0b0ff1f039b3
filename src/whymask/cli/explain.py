"""`whymask explain` and `whymask repair`: parse, call, print."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

import typer
from tqdm import tqdm

from whymask.cli.many import Task, explain_many, images_of, is_one
from whymask.cli.options import ImageFile, Options, Question, with_options
from whymask.errors import WhymaskError
from whymask.explainer.explainer import MODEL, Explainer
from whymask.explainer.words import check_text
from whymask.images.imaging import load_image
from whymask.methods import Recipe
from whymask.metrics.overlap import recurrence
from whymask.models.base import Wanted
from whymask.results.mask import EvidenceMask
from whymask.results.masks import EvidenceMasks
from whymask.results.ordering import Ordering
from whymask.results.seeds import OverSeeds


@dataclass(frozen=True)
class Several:
    """What of several answers is to be explained by one search, if anything."""

    top: int | None
    answers: list[str]
    words: bool
    text: str | None

    def __bool__(self) -> bool:
        return self.words or self.top is not None or bool(self.answers)

    @property
    def count(self) -> int | None:
        """How many answers there are."""
        if self.words:
            if self.text is None:
                raise WhymaskError("--dry-run does not run the model, so it needs the answer: pass --text.")
            return sum(not span.function for span in check_text(self.text))
        return self.top if self.top is not None else len(self.answers) or None

    def check(self, target: Wanted, against: str | None, seeds: int) -> None:
        """Raise an error for options that do not go together."""
        if self.text is not None and not self.words:
            raise WhymaskError("--text is the answer whose words are explained: pass --words too.")
        if (self.top is not None) + bool(self.answers) + self.words > 1:
            raise WhymaskError("--top, --answer and --words each say what to explain: pass one of them.")
        if self and (target is not None or against is not None or seeds != 1):
            raise WhymaskError("several answers are explained at once: leave --target, --against and --seeds out.")

    def explain(self, explainer: Explainer, image: Any, question: str | None, progress: bool) -> EvidenceMasks:
        """The masks."""
        if self.words:
            return explainer.words(image, question=question, text=self.text, progress=progress)
        return explainer.answers(
            image, top=self.top, answers=self.answers or None, question=question, progress=progress
        )


@with_options()
def explain(
    images: Annotated[
        list[str],
        typer.Argument(
            help="Image files, folders, patterns ('photos/**/*.jpg'), scene:N, described:N, or - for a list on stdin.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.")] = MODEL,
    target: Annotated[
        str | None,
        typer.Option(help="The class, object or answer to explain, by name or number; by default the model's own."),
    ] = None,
    point: Annotated[
        str | None, typer.Option(help="X,Y: explain the box or segment at this pixel of the photo.")
    ] = None,
    question: Question = None,
    against: Annotated[str | None, typer.Option(help="Explain why the target and not this other answer.")] = None,
    top: Annotated[int | None, typer.Option(help="Explain this many of the likeliest classes in one search.")] = None,
    answer: Annotated[
        list[str] | None, typer.Option(help="An answer to explain; repeat it to explain several in one search.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Explain each word of the model's own answer.")] = False,
    text: Annotated[str | None, typer.Option(help="With --words: explain the words of this answer instead.")] = None,
    together: Annotated[bool, typer.Option("--together", help="All images belong to one question.")] = False,
    seeds: Annotated[int, typer.Option(help="Run this many seeds and report which regions recur.")] = 1,
    jobs: Annotated[int, typer.Option(help="Number of processes for many images, each with its own model.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate the forwards, the requests and the cost.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Show which few regions of an image are enough for a model's answer.

    Several images are explained one by one, and an index page lists them. Images that have a result with the same
    settings are skipped; an image that cannot be read is reported, and the exit code is then 1. With --together, all
    images belong to one question to a multimodal model, and one mask shows which of them, and which of their regions,
    the answer depends on.
    """
    wanted = target if point is None else _point(point, target)
    several = Several(top, answer or [], words, text)
    several.check(wanted, against, seeds)
    if together and len(images) < 2:
        raise WhymaskError("--together is for several images of one question: pass at least two.")
    if dry_run:
        paths = images if together or is_one(images) else images_of(images, options.out)
        print_forecast([paths] if together else paths, Task(options, model, wanted, question), seeds, several.count)
        return
    if not together and not is_one(images):
        if seeds != 1:
            raise WhymaskError("--seeds compares the searches of one image: pass one.")
        if several or against is not None:
            raise WhymaskError("--top, --answer, --words and --against are for one image: pass one.")
        explain_many(images, Task(options, model, wanted, question), jobs)
        return
    explainer, picture = _for_seeds(options, seeds).start(images, model)
    if several:
        found = several.explain(explainer, picture, question, options.progress)
        options.finish(found, f"{_stem(images)}-{'words' if words else 'answers'}", [str(found)], found.as_dict())
        return
    case = explainer.case(picture, target=wanted, question=question, against=against)
    started = time.perf_counter()
    results = explainer.search(case, range(options.seed, options.seed + seeds), progress=options.progress)
    seconds = time.perf_counter() - started
    first = results[0]
    lines = [str(first)]
    if isinstance(first, Ordering):
        curves = case.replay(first.order)
        first = first.with_curves(curves)
        lines.append(f"Replay: {curves}.")
    chosen = [_compared(result, options.size) for result in results]
    if seeds > 1:
        first = replace(first, over_seeds=OverSeeds.of(chosen, first.n))
    report = first.as_dict()
    if seeds > 1:
        report["recurrence"] = recurrence([*map(first.names, chosen)])
        report["seeds"] = [result.as_dict() for result in results]
        lines.append(_stability(report["recurrence"], seeds, sum(r.ledger.mec for r in results), seconds))
    options.finish(first, f"{_stem(images)}-{explainer.recipe.name}", lines, report)


def print_forecast(images: Sequence[str | list[str]], task: Task, searches: int, targets: int | None) -> None:
    """Print about what it takes to explain all images."""
    options = task.options
    explainer = Explainer(options.load(task.model), options.settings)
    bar = tqdm(images, unit="image", disable=not options.progress or len(images) == 1, leave=False)
    each = (
        explainer.forecast(
            [load_image(one) for one in image] if isinstance(image, list) else load_image(image),
            question=task.question, searches=searches, targets=targets,
        )
        for image in bar
    )  # fmt: skip
    total = reduce(add, each).limited(explainer.model)
    print(json.dumps(total.as_dict(), indent=2) if options.as_json else total)


@with_options(
    without=("null",),
    method="See 'whymask methods'. By default discs+swap, or, with --k auto, smallest.",
    fill="black (the default), mean, blur, dark_defocus, noise, a colour, an image file, A,B,... or several.",
)
def repair(
    image: ImageFile,
    model: Annotated[str, typer.Option(help="A model id, see 'whymask models'.", show_default=False)],
    want: Annotated[str, typer.Option(help="The answer that should have been given.", show_default=False)],
    question: Question = None,
    *,
    options: Options,
) -> None:
    """Show a model only the regions that support the answer it should have given, and ask again."""
    explainer, picture = options.start([image], model)
    found = explainer.repair(picture, want=want, question=question, progress=options.progress)
    options.finish(found, f"{Path(image).stem}-repair", [str(found)], found.as_dict())


def _stem(images: Sequence[str]) -> str:
    """What a result is named after: its image, or its images."""
    return "+".join(Path(image).stem for image in images)[:100]


def _point(given: str, target: str | None) -> tuple[float, float]:
    if target is not None:
        raise WhymaskError("--target and --point both say what to explain: pass one of them.")
    try:
        x, y = map(float, given.split(","))
    except ValueError:
        raise WhymaskError(f"--point takes X,Y in pixels of the photo, such as 120,80, not {given!r}.") from None
    return x, y


def _for_seeds(options: Options, seeds: int) -> Options:
    """The options of each of several searches; of orderings k may only say how many regions to compare."""
    if seeds < 1:
        raise WhymaskError(f"--seeds must be at least 1, not {seeds}.")
    if seeds == 1 or options.method is None:
        return options
    method = Recipe(options.method).method
    if method.returns == "mask":
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
