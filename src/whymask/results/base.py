"""What all results share: the explained image, what the search cost, how it can be repeated."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools, Floats
from whymask.errors import WhymaskError
from whymask.images.imaging import Box, Canvas, on_image
from whymask.images.panels import panel_of
from whymask.images.partition import Partition
from whymask.interop.shap import to_shap
from whymask.models.base import Target
from whymask.models.spending import in_words
from whymask.results.plotting import save_figure, show_figure
from whymask.results.storage import SCHEMA, Arrays, Header, check, read, write
from whymask.search.objective import Ledger
from whymask.utils.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class ExplainedImage:
    """What was explained: the image as the model saw it, its regions, and the answer."""

    photo: Canvas  # (h, w, 3) the whole image, at a size for viewing
    canvas: Canvas  # (H, W, 3) the part the model saw, on its input grid
    fill: Canvas  # (H, W, 3) what it saw where regions were masked; of several fills the first
    box: Box  # where the canvas lies on the photo
    partition: Partition
    target: Target
    prediction: str | None  # what the model answers on the whole canvas, where it names its answers
    full_score: float  # score of the whole canvas
    blank_score: float  # score of the fill alone
    further_fills: tuple[Canvas, ...] = ()  # those on which sets were scored too: scores are over all of them
    photo_size: tuple[int, int] | None = None  # (height, width) of the photo itself; old files do not say

    def __repr__(self) -> str:
        height, width = self.canvas.shape[:2]
        return f"<ExplainedImage of {height} x {width} pixels: {self.partition.n} regions>"

    @property
    def fills(self) -> tuple[Canvas, ...]:
        """Every fill on which sets were scored, each (H, W, 3)."""
        return (self.fill, *self.further_fills)

    def pixels(self, regions: Sequence[int]) -> Bools:
        """(H, W) the pixels of the canvas that lie in these regions."""
        return self.partition.pixels(np.isin(np.arange(self.partition.n), regions))

    def only(self, regions: Sequence[int]) -> Canvas:
        """(H, W, 3) what the model saw when only these regions were kept."""
        return np.where(self.pixels(regions)[..., None], self.canvas, self.fill)

    def on_photo(self, values: Floats | Bools, outside: float = 0) -> Floats:
        """(h, w) values of the canvas (H, W) on `photo`, and `outside` where the model does not see it."""
        height, width = self.photo.shape[:2]
        return on_image(values.astype(np.float64), self.box, (height, width), outside)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ABC):
    """The common part of masks, orderings and repairs."""

    image: ExplainedImage
    ledger: Ledger
    provenance: Mapping[str, Any]  # what is needed to repeat it: method, parameters, seed, model, partition, versions
    complete: bool  # False when the budget ended the search

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Explanation]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Explanation.kinds[cls.kind] = cls

    @property
    def target(self) -> Target:
        """The answer that is explained."""
        return self.image.target

    @property
    def title(self) -> str:
        """What it is called in lists and headings."""
        return self.image.target.label

    @property
    def n(self) -> int:
        """Number of regions of the image."""
        return self.image.partition.n

    @property
    def prediction(self) -> str | None:
        """What the model answers on the whole canvas, where it names its answers."""
        return self.image.prediction

    @property
    def full_score(self) -> float:
        """Score of the whole canvas."""
        return self.image.full_score

    @property
    def blank_score(self) -> float:
        """Score of the fill alone."""
        return self.image.blank_score

    def names(self, regions: Sequence[int]) -> list[int]:
        """The numbers these regions have in the user's own label map, where one was given."""
        values = self.image.partition.values
        return list(regions) if values is None else [values[region] for region in regions]

    @property
    def panels(self) -> list[list[int]]:
        """Top, left, bottom and right of every image on the canvas, where several were explained together."""
        return list(self.provenance.get("panels", []))

    def by_image(self, regions: Sequence[int]) -> list[list[int]]:
        """Which of these regions lie in each image, where several were explained together; else all of them."""
        if not self.panels:
            return [list(regions)]
        home = panel_of(self.image.partition.labels, self.panels)
        return [[region for region in regions if home[region] == number] for number in range(len(self.panels))]

    @abstractmethod
    def heatmap(self) -> Floats:
        """(H, W) how important every pixel of the model's grid is, from 0 to 1."""

    def photo_heatmap(self) -> Floats:
        """(h, w) the heatmap on the photo's own pixels, rotated as its EXIF says; NaN where the model does not see it.

        The resizing and the crop of the model's preprocessing are undone: each pixel of the photo gets the value of the
        grid pixel that its centre lies in.
        """
        return self._on_photo(self.heatmap(), outside=np.nan)

    def to_shap(self) -> Any:
        """A shap.Explanation, for shap.plots.image; its values are those of `heatmap`, no Shapley values."""
        return to_shap(self.heatmap(), self.image.canvas, self.target.label, self.blank_score)

    def _on_photo(self, values: NDArray[Any], outside: float = 0) -> NDArray[Any]:
        """(h, w) values of the grid on the photo's own pixels."""
        if self.panels:
            raise WhymaskError("several images were explained together: results are on the model's grid only.")
        if self.image.photo_size is None:
            raise WhymaskError("this result was saved without the photo's size: explain the photo again.")
        return on_image(values, self.image.box, self.image.photo_size, outside)

    @abstractmethod
    def figure(self) -> Figure:
        """A figure of this result."""

    def savefig(self, path: str | PathLike[str]) -> Path:
        """Write the figure of this result: .png, .pdf or .svg."""
        return save_figure(self.figure(), Path(path))

    def show(self) -> None:
        """Show the figure of this result: in the output of a notebook cell, elsewhere in the system's image viewer."""
        show_figure(self.figure())

    def save(self, path: str | PathLike[str], mode: int = 0o666) -> Path:
        """Write everything into one .npz file (arrays and JSON, no pickle); an interrupted save leaves no file."""
        return write(Path(path), self.as_dict(), self._arrays(), _build, mode)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Any:
        """The mask, ordering or repair that `save` wrote; the file may come from anywhere."""
        return read(path, _build)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "target": asdict(self.image.target),
            "prediction": self.image.prediction,
            "label_values": self.image.partition.values,
            "n": self.n,
            "box": list(self.image.box),
            "photo_size": self.image.photo_size and list(self.image.photo_size),
            "full_score": self.image.full_score,
            "blank_score": self.image.blank_score,
            "complete": self.complete,
            "ledger": self.ledger.as_dict(),
            "provenance": dict(self.provenance),
        }

    def _arrays(self) -> Arrays:
        """What a file holds besides the plain values."""
        image = self.image
        pixels = {"photo": image.photo, "canvas": image.canvas, "fill": image.fill, "labels": image.partition.labels}
        return pixels | ({"fills": np.stack(image.further_fills)} if image.further_fills else {})

    @classmethod
    @abstractmethod
    def _check(cls, header: Header, n: int) -> list[Any]:
        """Raise a `DamagedError` unless the values of this kind fit together; returns the scores among them."""

    @classmethod
    def _fields(cls, header: Header, arrays: Arrays) -> dict[str, Any]:
        """The arguments of the constructor, from what `as_dict` and `_arrays` returned."""
        values = header["label_values"]
        labels = arrays["labels"].astype(np.int32)
        image = ExplainedImage(
            photo=arrays["photo"],
            canvas=arrays["canvas"],
            fill=arrays["fill"],
            box=tuple(header["box"]),
            partition=Partition(labels, header["provenance"]["regions"], None if values is None else tuple(values)),
            target=Target(**header["target"]),
            prediction=header["prediction"],
            full_score=header["full_score"],
            blank_score=header["blank_score"],
            further_fills=tuple(arrays.get("fills", ())),
            photo_size=tuple(header["photo_size"]) if header.get("photo_size") else None,
        )
        ledger = Ledger.from_dict(header["ledger"])
        return {"image": image, "ledger": ledger} | {name: header[name] for name in ("provenance", "complete")}

    @property
    def remarks(self) -> list[str]:
        """Sentences about the result, besides its numbers."""
        early = "ended the search early" if self.ledger.mec else "was too small for the search to begin"
        return [] if self.complete else [f"The budget {early}."]

    def _places(self, regions: Sequence[int], *, first: bool = False) -> list[str]:
        """Where there are several images: a sentence about which of them has which of these regions."""
        if not self.panels:
            return []
        texts = []
        for number, inside in enumerate(self.by_image(regions), start=1):
            names = ", ".join(map(str, self.names(inside)))
            held = f"region{'s' if len(inside) > 1 else ''} {names}" if inside else "none of them"
            texts.append(f"image {number} has {held}")
        of = f"Of the first {len(regions)}, " if first else ""
        sentence = of + "; ".join(texts)
        return [sentence[0].upper() + sentence[1:] + "."]

    def __repr__(self) -> str:
        label, model = shortened(self.title), self.provenance.get("model")
        return f"<{type(self).__name__} of {label!r} on {model}: {self._brief()}>"

    @abstractmethod
    def _brief(self) -> str:
        """The result in a few words."""

    def _answer(self) -> str:
        """The model's answer, and the explained one where that is another."""
        image, question = self.image, self.provenance.get("question")
        if image.target.is_score:
            return f"The score of the whole image is {image.full_score:.2f}."
        label = repr(image.target.label)
        if against := self.provenance.get("against"):
            says = "" if image.prediction is None else f"The model says {image.prediction!r}. "
            return f"{says}On the whole image {label} scores {image.full_score:.2f} more than {against!r}."
        who = "The model" if question is None else f"Asked {question!r}, the model"
        if image.prediction == image.target.label:
            return f"{who} says {label}, which scores {image.full_score:.2f} on the whole image."
        says = "" if image.prediction is None else f"{who} says {image.prediction!r}; "
        return f"{says}{label} scores {image.full_score:.2f} on the whole image."

    def _end(self) -> str:
        """The remarks, and what the search cost."""
        seconds = self.provenance.get("seconds")
        time = "" if seconds is None else f"; {seconds:.1f} s"
        gradients = "gradients; " if self.provenance.get("needs") == "gradients" else ""
        spending = self.provenance.get("spending")
        sent = f"; {in_words(spending)}" if spending else ""
        return " ".join([*self.remarks, f"Cost: {gradients}{self.ledger}{time}{sent}."])


def _build(header: Header, arrays: Arrays) -> Explanation:
    """The explanation that a file's header and arrays describe; raises an error unless they fit together."""
    kind = Explanation.kinds[header["kind"]]
    if "seed_regions" in header:  # the name it had in version 0.1
        header["initial_mask"] = header.pop("seed_regions")
    check(header, arrays, kind._check)
    found = kind(**kind._fields(header, arrays))
    json.dumps([str(found), found.as_dict()], allow_nan=False)  # raises an error where values have wrong types
    return found
