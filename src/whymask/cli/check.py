"""`whymask check`: whether the evidence of a model can be believed."""

import json
from typing import Annotated

import typer

from whymask.cli.many import images_of
from whymask.cli.options import Options, Question, with_options
from whymask.explainer.checking import SEEDS
from whymask.explainer.checking import check as check_model
from whymask.explainer.explainer import Explainer
from whymask.images.imaging import load_image


@with_options(without=("alternatives", "out"))
def check(
    model: Annotated[str, typer.Argument(help="A model id, see 'whymask models'.", show_default=False)],
    photos: Annotated[
        list[str] | None,
        typer.Argument(help="Photos: files, folders, patterns; by default six of scikit-image.", show_default=False),
    ] = None,
    question: Question = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds to compare.")] = SEEDS,
    *,
    options: Options,
) -> None:
    """Check whether a model's evidence can be trusted: other answers, seeds, fills and randomised weights.

    Prints a page in Markdown. Other answers are by default three classes drawn at random.
    """
    settings = options.settings
    images = images_of(photos) if photos else None
    for image in images or ():
        load_image(image)  # an error now, not after minutes
    explainer = Explainer(options.load(model), settings)
    found = check_model(explainer, images, question=question, seeds=seeds, progress=options.progress)
    print(json.dumps(found.as_dict(), indent=2) if options.as_json else found.markdown(), end="")
