"""The regions of a sample, kept beside the records of a run so that its evidence can be drawn without the model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whymask.errors import WhymaskError
from whymask.explainer.case import Case
from whymask.images.imaging import Box
from whymask.images.partition import Partition
from whymask.results.storage import PIXELS
from whymask.utils.archive import ERRORS, read_arrays, require
from whymask.utils.digest import digest
from whymask.utils.files import atomic

LIMITS = {"labels": 4 * PIXELS, "box": 32}
"""Bytes of every array."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The regions of a sample and the part of its image that they cover.

    Its file is named by its content, so samples, methods, models and shards with the same regions share it.
    """

    partition: Partition
    box: Box  # the part of the image that the label map covers

    @classmethod
    def of(cls, case: Case) -> Layout:
        """The layout of a bound image."""
        return cls(case.partition, case.bound.box)

    @property
    def name(self) -> str:
        """The name by which records refer to it."""
        return digest([self.partition.fingerprint, [float(side) for side in self.box]])

    def save(self, run: Path) -> str:
        """Write it into the folder of a run, unless it is there; returns its name."""
        if not has_layout(run, self.name):
            labels = self.partition.labels
            smallest = labels.astype(np.min_scalar_type(labels.max()))
            with atomic(_file(run, self.name)) as opened:
                np.savez_compressed(opened, labels=smallest, box=np.array(self.box, dtype=np.float64))
        return self.name

    @classmethod
    def read(cls, run: Path, name: str) -> Layout | None:
        """The layout of this name in the folder of a run, where there is one; the file may come from anywhere."""
        if not re.fullmatch("[0-9a-f]{16}", name) or not has_layout(run, name):
            return None
        file = _file(run, name)
        try:
            arrays = read_arrays(file, LIMITS)
            labels, box = arrays["labels"], arrays["box"]
            require(labels.ndim == 2 and labels.dtype.kind == "u" and labels.size > labels.max(), "it has no regions")
            left, top, right, bottom = (float(side) for side in box)
            require(0 <= left < right <= 1 and 0 <= top < bottom <= 1, "its box does not lie on the image")
            found = cls(Partition(labels.astype(np.int32), "kept"), (left, top, right, bottom))
            require(found.name == name, "it has another name")
            return found
        except ERRORS:
            raise WhymaskError(
                f"{file.resolve()} is damaged; remove it and repeat the 'whymask bench run', which writes it again."
            ) from None


def has_layout(run: Path, name: str) -> bool:
    """Whether the folder of a run has a layout of this name."""
    return _file(run, name).is_file()


def _file(run: Path, name: str) -> Path:
    return run / "regions" / f"{name}.npz"
