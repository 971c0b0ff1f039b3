"""The options that `whymask explain` and `whymask repair` share: declared once, for both."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from whymask.cli.lists import Json
from whymask.errors import WhymaskError
from whymask.explainer.explainer import Explainer
from whymask.explainer.settings import Settings
from whymask.images.imaging import ImageSource, load_image
from whymask.models.base import Model
from whymask.models.registry import load
from whymask.results.base import Explanation
from whymask.utils.files import writable

ImageFile = Annotated[str, typer.Argument(help="The image file, scene:N or described:N.", show_default=False)]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or mps.")]
Dtype = Annotated[str | None, typer.Option(help="fp32, fp16, bf16 or fp64.")]
Question = Annotated[str | None, typer.Option(help="The question, for models that answer questions.")]


@dataclass(frozen=True)
class Options:
    """A field for each of `Settings`, then those of the model and of the output."""

    method: Annotated[
        str | None,
        typer.Option(help="See 'whymask methods'. By default smallest, or, with --k or --alternatives, discs+swap."),
    ] = None
    k: Annotated[str | None, typer.Option(help="Number of regions in the mask, or auto: as few as are enough.")] = None
    alternatives: Annotated[
        int, typer.Option(help="Number of further masks, which share at most half of their regions.")
    ] = 0
    param: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the method, such as tries=400; may be repeated.")
    ] = None
    regions: Annotated[
        str, typer.Option(help="slico:N, grid:N, grid:RxC, each cut into M parts as slico:N/M, or a label-map file.")
    ] = "slico:64"
    fill: Annotated[
        str | None,
        typer.Option(
            help="black, mean, blur, dark_defocus, noise, a colour, an image file, A,B,... or several. By default "
            "several for smallest and discs+swap, black for other methods."
        ),
    ] = None
    over_fills: Annotated[str, typer.Option(help="With several fills: mean or min of the scores on them.")] = "mean"
    resize: Annotated[str, typer.Option(help="own (the model's preprocessing) or squash.")] = "own"
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0
    budget: Annotated[int | None, typer.Option(help="Maximum number of forwards of a search.")] = None
    batch_size: Annotated[int | None, typer.Option(help="Images per model batch.")] = None
    null: Annotated[
        int, typer.Option(help="Search for this many other classes too, to test whether the mask is above chance.")
    ] = 0
    keep: Annotated[
        str | None, typer.Option(help="With --k auto: what to keep, a share of the score (by default 0.9) or answer.")
    ] = None
    device: Device = None
    dtype: Dtype = None
    model_option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for the model, such as classes=names.txt; may be repeated.")
    ] = None
    price: Annotated[
        str | None, typer.Option(help="For a served model: the price of a million tokens, IN/OUT, such as 0.15/0.60.")
    ] = None
    max_requests: Annotated[
        int | None, typer.Option(help="Maximum number of requests to a served model, for all images together.")
    ] = None
    max_cost: Annotated[float | None, typer.Option(help="Maximum cost of these requests, by --price.")] = None
    out: Annotated[Path, typer.Option(help="Folder for the picture and the result.")] = Path("whymask-out")
    as_json: Json = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False

    @property
    def size(self) -> int | str | None:
        """k as a number, where it is one."""
        return int(self.k) if self.k is not None and self.k.isdecimal() else self.k

    @property
    def settings(self) -> Settings:
        """The settings, checked."""
        given = {field.name: getattr(self, field.name, None) for field in fields(Settings)}
        keep = values("--keep", [f"keep={self.keep}"])["keep"] if self.keep else None
        return Settings(**given | {"k": self.size, "keep": keep, "params": values("--param", self.param)})

    @property
    def progress(self) -> bool:
        """Whether to draw a bar: on a terminal only, and on stderr, as stdout is for the answer."""
        return not self.quiet and sys.stderr.isatty()

    def start(self, images: Sequence[str], model: str) -> tuple[Explainer, ImageSource]:
        """The explainer and the image, or several of one question; checks what it can before a model is loaded."""
        settings, pictures = self.settings, [load_image(image) for image in images]
        writable(self.out)
        return Explainer(self.load(model), settings), pictures if len(pictures) > 1 else pictures[0]

    def load(self, model: str) -> Model:
        """The model of this id, with the options given for it."""
        if not self.progress:  # transformers reads these when it is imported
            os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error"}
        given = {name: getattr(self, name) for name in ("device", "dtype", "price", "max_requests", "max_cost")}
        options = given | values("--model-option", self.model_option)
        return load(model, **{name: value for name, value in options.items() if value is not None})

    def finish(self, found: Explanation, name: str, lines: list[str], report: dict[str, Any]) -> None:
        """Write the picture and the result, and print them."""
        files = write(found, self.out, name)
        shown = [*lines, f"Picture: {files['picture']}"]
        print(json.dumps(report | {"files": files}, indent=2) if self.as_json else "\n".join(shown))


def with_options(
    *, without: Collection[str] = (), **helps: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes `options` all shared options but those `without`, some with another help text."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        shared = {
            name: parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=_helping(parameter, helps.get(name)))
            for name, parameter in inspect.signature(Options, eval_str=True).parameters.items()
            if name not in without
        }

        @wraps(command)
        def run(**given: Any) -> None:
            command(options=Options(**{name: given.pop(name) for name in shared}), **given)

        kept = [parameter for name, parameter in own.parameters.items() if name != "options"]
        run.__signature__ = own.replace(parameters=[*kept, *shared.values()])  # type: ignore[attr-defined]
        return run

    return decorate


def _helping(parameter: inspect.Parameter, text: str | None) -> Any:
    """The annotation of an option, with another help text where one is given."""
    return (
        parameter.annotation if text is None else Annotated[get_args(parameter.annotation)[0], typer.Option(help=text)]
    )


def values(flag: str, pairs: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is JSON, such as a number or a list, is read as that."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise WhymaskError(f"{flag} takes NAME=VALUE.")
        try:
            options[name.strip().replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip().replace("-", "_")] = value
    return options


def write(found: Explanation, folder: Path, name: str) -> dict[str, str]:
    """Write the picture and the result under a name that overwrites nothing; their paths."""
    return write_as(found, folder, _unused(folder, name).name)


def write_as(found: Explanation, folder: Path, name: str) -> dict[str, str]:
    """Write the picture and the result, both or none; their paths."""
    stem = folder / name
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
    stems = (folder / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(s for s in stems if not any(s.with_name(s.name + suffix).exists() for suffix in (".png", ".npz")))
