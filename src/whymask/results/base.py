"""What comes back: evidence masks and orderings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from whymask.images.imaging import Box, Canvas
from whymask.images.partition import Partition
from whymask.models.base import Target
from whymask.search.objective import Ledger

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Scene:
    """What was explained: the image as the model saw it, its regions, and the answer."""

    photo: Canvas  # (h, w, 3) the whole image, at a size for viewing
    canvas: Canvas  # (H, W, 3) the part the model saw, on its input grid
    fill: Canvas  # (H, W, 3) what it saw where regions were masked
    box: Box  # where the canvas lies on the photo
    partition: Partition
    target: Target
    prediction: str | None  # what the model answers on the whole canvas, where it names its answers
    full_score: float  # score of the whole canvas
    blank_score: float  # score of the fill alone


@dataclass(frozen=True, eq=False)
class Explanation(ABC):
    """Common part of masks and orderings."""

    scene: Scene
    ledger: Ledger
    provenance: Mapping[str, Any]  # method, parameters, seed, model, partition, versions: how to get this again
    complete: bool  # False when the budget ended the search

    kind: ClassVar[str]

    @property
    def target(self) -> Target:
        """The answer that is explained."""
        return self.scene.target

    @property
    def n(self) -> int:
        """Number of regions of the image."""
        return self.scene.partition.n

    def names(self, regions: Sequence[int]) -> list[int]:
        """The regions by the numbers of the user's own label map, where there is one."""
        values = self.scene.partition.values
        return list(regions) if values is None else [values[region] for region in regions]

    @abstractmethod
    def figure(self) -> Figure:
        """The picture of this result."""

    def savefig(self, path: str | PathLike[str]) -> Path:
        """Write the picture of this result: .png, .pdf or .svg."""
        from whymask.results.figure import save_figure

        return save_figure(self.figure(), Path(path))

    def show(self) -> None:
        """Show the picture of this result: below the cell of a notebook, elsewhere in the system's image viewer."""
        from whymask.results.figure import show_figure

        show_figure(self.figure())

    def save(self, path: str | PathLike[str]) -> Path:
        """Write everything into one .npz file (arrays and JSON, no pickle); an interrupted save leaves no file."""
        from whymask.results.storage import write

        return write(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Any:
        """The mask or ordering that `save` wrote."""
        from whymask.results.storage import read

        return read(path)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the pixels."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "target": asdict(self.scene.target),
            "prediction": self.scene.prediction,
            "label_values": self.scene.partition.values,
            "n": self.n,
            "box": list(self.scene.box),
            "full_score": self.scene.full_score,
            "blank_score": self.scene.blank_score,
            "complete": self.complete,
            "ledger": self.ledger.as_dict(),
            "provenance": dict(self.provenance),
        }

    @property
    def remarks(self) -> list[str]:
        """Sentences about what was found, besides its numbers."""
        early = "ended the search early" if self.ledger.mec else "was too small for the search to begin"
        return [] if self.complete else [f"The budget {early}."]

    def _answer(self) -> str:
        """What the model says, and what was asked about where that is something else."""
        scene, question = self.scene, self.provenance.get("question")
        if scene.target.is_score:
            return f"The score of the whole image is {scene.full_score:.2f}."
        label = repr(scene.target.label)
        who = "The model" if question is None else f"Asked {question!r}, the model"
        if scene.prediction == scene.target.label:
            return f"{who} says {label}, which scores {scene.full_score:.2f} on the whole image."
        says = "" if scene.prediction is None else f"{who} says {scene.prediction!r}; explained is "
        return f"{says}{label}: it scores {scene.full_score:.2f} on the whole image."

    def _end(self) -> str:
        """What else was found, and what it took."""
        seconds = self.provenance.get("seconds")
        time = "" if seconds is None else f" in {seconds:.1f} s"
        backward = "backward passes and " if self.provenance.get("needs") == "gradients" else ""
        return " ".join([*self.remarks, f"It took {backward}{self.ledger}{time}."])
