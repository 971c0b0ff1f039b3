"""Images bound to a model: on one fill or several, to one answer or another, divided into regions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whymask.errors import WhymaskError
from whymask.images.imaging import ImageSource
from whymask.images.masking import Fill
from whymask.images.panels import partition_panels
from whymask.images.partition import Partition, Regions, partition
from whymask.models.base import Bound, Model, RespondsEach, View
from whymask.models.batching import single


def bind(model: Model, image: ImageSource, **options: Any) -> Bound:
    """Bind an image to a model; one that does not fit into memory is an error."""
    with single():
        return model.bind(image, **options)


def bind_fills(model: Model, image: ImageSource, fills: Sequence[Fill], **options: Any) -> list[Bound]:
    """Bind an image to a model once for every fill; what they share is held once."""
    first = bind(model, image, fill=fills[0], **options)
    options["target"] = first.aim  # settled
    if first.panels:
        options["resize"] = "none"
    others = (bind(model, first.source, fill=fill, **options) for fill in fills[1:])
    return [first, *(replace(first, fill=other.fill, fill_inputs=other.fill_inputs) for other in others)]


def divided(view: View, regions: Regions) -> Partition:
    """The regions of an image on the input grid."""
    if view.panels:
        return partition_panels(view.canvas, regions, view.panels)
    width, height = view.image.size
    return partition(view.canvas, regions, image_shape=(height, width), box=view.box)


def answering(model: Model, bound: Bound, target: int | str, question: str | None) -> Bound:
    """The same image with another answer, which the same forward scores."""
    if not isinstance(model, RespondsEach):
        raise WhymaskError(
            f"{model.name} scores one answer at a time: several answers and against= are for classifiers and for "
            "multimodal models."
        )
    return model.answering(bound, target, question)
