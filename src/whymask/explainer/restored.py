"""A result's image on its model again, to be asked about more sets of regions."""

from collections.abc import Sequence
from dataclasses import dataclass

from whymask.errors import WhymaskError
from whymask.explainer.binding import bind_fills
from whymask.explainer.case import Case, batching
from whymask.images.masking import Fills, fills_of
from whymask.images.panels import cut
from whymask.models.base import Model, named
from whymask.results.base import Explanation
from whymask.search.protocol import mask_of

REMEMBERED = 10_000  # masked images whose scores a `WhatIf` keeps


def restored(result: Explanation, model: Model, batch_size: int | None = None, *, fill: Fills | None = None) -> Case:
    """The case of a result, from the pixels that it holds: the same input grid, regions, answer and fills."""
    image, provenance = result.image, result.provenance
    question, panels = provenance.get("question"), provenance.get("panels")
    fills = image.fills if fill is None else fills_of(fill)
    source = cut(image.canvas, panels) if panels else image.canvas
    bound, *further = bind_fills(model, source, fills, target=image.target.name, question=question, resize="none")
    size, how = batching(model, batch_size), provenance.get("over_fills", "mean")
    case = Case(model, bound, image.partition, size, {"question": question}, tuple(further), how)
    rival = provenance.get("rival")
    return case if rival is None else case.against(rival)


@dataclass(frozen=True)
class Shown:
    """What the model makes of some regions of an image."""

    score: float  # over all fills
    answers: tuple[str | None, ...]  # what it answers on each fill, where it names its answers


class WhatIf:
    """Asks a model about any regions of a result's image: a forward for each fill, none for what is known."""

    def __init__(self, result: Explanation, model: Model) -> None:
        self.case = restored(result, model, len(result.image.fills))  # a size of its own: searches learn theirs

    def ask(self, regions: Sequence[int]) -> Shown:
        """What the model makes of the image that keeps these regions."""
        case, n = self.case, self.case.partition.n
        if len(set(regions)) != len(regions) or not all(0 <= region < n for region in regions):
            raise WhymaskError(f"regions are different numbers from 0 to {n - 1}.")
        if sum(len(filled.responses.scores) for filled in case.fills) >= REMEMBERED:
            case.forget()
        row = mask_of(regions, n)[None]
        ((score,),), _ = case.ask(row)
        tops = [filled.responses.answers_to(row)[0] for filled in case.fills]
        return Shown(float(score), tuple(named(case.model, top) for top in tops))
