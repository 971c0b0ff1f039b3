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
from PIL import Image

from whymask.arrays import Bools, Floats
from whymask.images.imaging import Box, Canvas
from whymask.images.partition import Partition
from whymask.models.base import Target
from whymask.results.plotting import save_figure, show_figure
from whymask.results.storage import SCHEMA, Arrays, Header, check, read, write
from whymask.search.objective import Ledger

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
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
        """(h, w) values of the canvas (H, W) where the model sees the photo, and `outside` elsewhere."""
        height, width = self.photo.shape[:2]
        left, right = round(self.box[0] * width), max(round(self.box[2] * width), round(self.box[0] * width) + 1)
        top, bottom = round(self.box[1] * height), max(round(self.box[3] * height), round(self.box[1] * height) + 1)
        size = (right - left, bottom - top)
        stretched = Image.fromarray(values.astype(np.float32)).resize(size, Image.Resampling.NEAREST)
        painted = np.full((height, width), outside, dtype=np.float64)
        painted[top:bottom, left:right] = np.asarray(stretched)[: height - top, : width - left]
        return painted


@dataclass(frozen=True, eq=False)
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
        )
        ledger = Ledger.from_dict(header["ledger"])
        return {"image": image, "ledger": ledger} | {name: header[name] for name in ("provenance", "complete")}

    @property
    def remarks(self) -> list[str]:
        """Sentences about the result, besides its numbers."""
        early = "ended the search early" if self.ledger.mec else "was too small for the search to begin"
        return [] if self.complete else [f"The budget {early}."]

    def _answer(self) -> str:
        """The model's answer, and the explained one where that is another."""
        image, question = self.image, self.provenance.get("question")
        if image.target.is_score:
            return f"The score of the whole image is {image.full_score:.2f}."
        label = repr(image.target.label)
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
        return " ".join([*self.remarks, f"Cost: {gradients}{self.ledger}{time}."])


def _build(header: Header, arrays: Arrays) -> Explanation:
    """The explanation that a file's header and arrays describe; raises an error unless they fit together."""
    kind = Explanation.kinds[header["kind"]]
    if "seed_regions" in header:  # the name it had in version 0.1
        header["initial_mask"] = header.pop("seed_regions")
    check(header, arrays, kind._check)
    found = kind(**kind._fields(header, arrays))
    json.dumps([str(found), found.as_dict()], allow_nan=False)  # raises an error where values have wrong types
    return found
