"""Photos whose objects are known pixel by pixel, and how much of the evidence lies on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whymask.arrays import Bools
from whymask.data.base import Place, Source
from whymask.data.coco import object_masks
from whymask.data.manifest import Sample, write_mask
from whymask.errors import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import load_image, see_labels


@dataclass(frozen=True)
class Objects(Source):
    """The photos of a COCO-annotated folder, each with a mask of all its objects (see `data.coco`)."""

    name = "objects"
    makes: ClassVar[Mapping[str, str]] = {"objects": "ins"}

    folder: str

    def read(self, place: Place) -> list[Sample]:
        """The photos that show objects; the masks are written to the run's folder."""
        samples = [
            Sample(photo.stem, str(photo), mask=write_mask(place.folder / "objects" / f"{photo.stem}.png", mask))
            for photo, mask in object_masks(self.folder)
        ]
        if not samples:
            raise WhymaskError(f"{self.folder} holds no photo with outlines of its objects.")
        return samples


def truth(mask: str, case: Case) -> Bools:
    """The mask of a file on the grid of a case, (H, W): where the file, of the same size as the image, is not black."""
    drawn = np.asarray(load_image(mask).convert("L")) > 0
    width, height = case.bound.image.size
    if drawn.shape != (height, width):
        raise WhymaskError(f"the mask {mask} has shape {drawn.shape}, but its image has {(height, width)}.")
    return see_labels(drawn, case.bound.box, case.bound.canvas.shape[:2])


def overlap(case: Case, objects: Bools, regions: Sequence[int]) -> dict[str, float]:
    """How much of these regions lies on the objects (H, W), how much of the objects they cover, and their area."""
    if not objects.any():
        return {}  # all of them are outside of what the model sees
    kept = case.partition.pixels(np.isin(np.arange(case.partition.n), regions))
    both = float((kept & objects).sum())
    return {
        "on_object": both / max(1, int(kept.sum())),
        "covered": both / int(objects.sum()),
        "object": float(objects.mean()),
    }
