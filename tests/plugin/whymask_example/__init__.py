"""What another package adds to whymask: a search, a model family and a data source, by its entry points."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

import whymask
from whymask.data.base import Source
from whymask.data.manifest import Sample
from whymask.models import Family
from whymask.search.limits import Count
from whymask.search.objective import SUFFICIENCY
from whymask.search.protocol import Ask, Selection, mask_of


@whymask.stage("mask", "the k regions that score best alone", cost=lambda n, values: n)
def singles(problem, *, k: Count = 8):
    """Score every region alone."""
    scores = yield Ask(np.eye(problem.n, dtype=bool), SUFFICIENCY, "init", Selection(mask_of(range(k), problem.n)))
    return Selection(mask_of(np.argsort(-scores, kind="stable")[:k], problem.n))


CORNERS = {"top-left": (slice(0, 8), slice(0, 8)), "bottom-right": (slice(8, 16), slice(8, 16))}


def load(name, *, gain=1.0):
    """A model that reports how bright a corner of a 16 x 16 image is."""
    corner = (slice(None), *CORNERS[name])
    return whymask.wrap(lambda images: gain * images[corner].mean(axis=(1, 2, 3)) / 255, size=16)


corner = Family("corner:NAME", "how bright a corner is: top-left or bottom-right", load, ids="corner:(.+)")


@dataclass(frozen=True)
class Swatches(Source):
    """Images of noise."""

    name = "swatches"
    makes = {"swatches": "ins"}  # noqa: RUF012 - a class attribute of the protocol

    count: Count

    def read(self, place):
        """Write this many images into the folder of the run."""
        files = [place.folder / f"swatch-{number}.png" for number in range(self.count)]
        for number, file in enumerate(files):
            noise = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(noise).save(file)
        return [Sample(file.stem, str(file)) for file in files]
