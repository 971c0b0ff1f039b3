"""The protocol of data sources."""

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from whymask.data.manifest import Sample
from whymask.images.imaging import Resize
from whymask.models.base import Model
from whymask.utils.digest import digest
from whymask.utils.files import atomic


@dataclass(frozen=True)
class Place:
    """What a source must know about the run it works for."""

    folder: Path  # of the run; a source may keep files there
    splits: Collection[str] = ()  # the names of those that are needed, of any source
    resize: Resize = "own"  # as for `explain`

    def remembered(
        self, model: Model, about: Any, find: Callable[[], Any], keep: Callable[[], bool] = lambda: True
    ) -> Any:
        """The list of pairs that `find` returns, kept (if `keep`) in the folder for the next run.

        Args:
            model: the model that was asked.
            about: everything else the pairs depend on, as plain values.
            find: asks the model.
            keep: whether what was found can be used again.
        """
        asked = [model.name, model.fingerprint, sorted(model.settings.items())]
        file = self.folder / "splits" / f"{digest([asked, about])}.json"
        if file.is_file():
            with suppress(OSError, ValueError, RecursionError):  # a damaged file is made again
                found = json.loads(file.read_bytes())
                if isinstance(found, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in found):
                    return found
        found = find()
        if keep():
            with atomic(file) as out:
                out.write(json.dumps(found).encode())
        return found


class Source(Protocol):
    """Samples to explain: a frozen dataclass whose fields are the options of its table in a configuration.

    >>> @dataclass(frozen=True)
    ... class Scans(Source):
    ...     name = "scans"
    ...     makes = {"scans": "ins"}
    ...     folder: str
    ...
    ...     def read(self, place):
    ...         return [Sample(file.stem, str(file)) for file in sorted(Path(self.folder).glob("*.png"))]

    Once registered (`whymask.register(Scans)`, or an entry point of the group "whymask.sources"), a configuration uses
    it by `[scans]` with `folder = "..."`, or, since a text stands for the first required option, by `scans = "..."`.
    """

    name: ClassVar[str]  # of the table
    makes: ClassVar[Mapping[str, str]]  # the splits, each with its emphasis: "ins", "high", "repair" or "score"
    optional: ClassVar[Collection[str]] = ()  # those of them that are made only if [splits] names them

    def read(self, place: Place) -> list[Sample]:
        """All samples with what is true of them. This is called once per run, before any model is loaded."""

    def splits(self, samples: list[Sample], model: Model, place: Place) -> Mapping[str, list[Sample]]:
        """The samples of each split, at least of those in `place.splits`; by default all samples.

        This is called once per model; with Ray, in the process that holds the model.
        """
        return dict.fromkeys(self.makes, samples)
