"""The evidence of a record: drawn from the record, the regions its run kept, and the image."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from whymask.bench.layout import Layout
from whymask.bench.records import Record
from whymask.bench.table import Line
from whymask.data.manifest import Sample, manifest_of, read_manifest
from whymask.errors import WhymaskError
from whymask.images.imaging import WHOLE, load_image, viewable
from whymask.images.masking import fill_canvas, fills_of
from whymask.metrics.curves import Curves
from whymask.models.base import Target
from whymask.results.base import ExplainedImage
from whymask.results.storage import are_regions

NOT_KEPT = 'has no masks to draw; set keep = "masks" in the configuration and repeat the run in another folder.'


@dataclass(frozen=True, eq=False)
class Evidence:
    """What one method found on one sample."""

    method: str
    question: str | None  # without the prompt around it
    image: ExplainedImage  # of what the model sees; the rest of the photo is cut off
    record: Record
    curves: Curves | None  # of an ordering

    @property
    def regions(self) -> list[int]:
        """The mask, or the shortest prefix of an ordering that keeps 80% of the score of the whole image."""
        if self.curves is None:
            return list(self.record["mask"])
        return list(self.record["order"][: self.curves.prefix()])

    @property
    def area(self) -> float:
        """Share of the grid that the regions cover."""
        return self._area(self.regions)

    @property
    def tried(self) -> list[int]:
        """What was kept to repair a wrong answer: the mask, or the prefix whose answer is recorded."""
        return self.regions if self.curves is None else list(self.record["order"][: self.record["prefix"]])

    @property
    def tried_area(self) -> float:
        """Share of the grid that was kept to repair the answer."""
        return self._area(self.tried)

    @property
    def tried_score(self) -> float:
        """The score of the wanted answer when only that is kept."""
        return tried_score(self.record)

    def _area(self, regions: list[int]) -> float:
        return float(self.image.partition.areas[regions].sum())


def tried_score(record: Record) -> float:
    """The score of the wanted answer when only the mask, or the prefix whose answer is recorded, is kept."""
    return float(record["insertion"][record["prefix"] - 1] if "order" in record else record["score"])


def samples_of(runs: Sequence[Path], model: str, split: str) -> dict[str, Sample]:
    """By their ids, the samples of a split; runs of earlier versions may have no list of them."""
    lists = [file for run in runs if (file := manifest_of(run, model, split)).is_file()]
    return {sample.id: sample for file in lists for sample in read_manifest(file)}


def _photo(sample: Sample) -> Image.Image:
    """The photo of a sample; an error names where it is, not the way there from a manifest."""
    file = Path(sample.image)
    return load_image(sample.image if file.parent == Path() else file.resolve())  # "scene:12" is no file


def evidence(runs: Sequence[Path], line: Line, sample: Sample) -> Evidence:
    """What a row's method found on a sample, with its first seed."""
    record = line.firsts[sample.id]
    if "layout" not in record:
        raise WhymaskError(f"{line.row.method!r} ({line.row.model}, {line.row.split}) {NOT_KEPT}")
    layout = next((found for run in runs if (found := Layout.read(run, record["layout"]))), None)
    if layout is None:
        raise WhymaskError(
            f"the regions of the sample {sample.id} are missing in {runs[0].resolve() / 'regions'}; repeat the "
            "'whymask bench run', which writes them again."
        )
    parts, box = layout.partition, layout.box
    if not _fits(record, parts.n):
        raise WhymaskError(f"the record of {line.row.method!r} on the sample {sample.id} is damaged.")
    whole = _photo(sample)
    wide, high = whole.size
    seen = (box[0] * wide, box[1] * high, box[2] * wide, box[3] * high)
    height, width = parts.labels.shape
    canvas = np.asarray(whole.resize((width, height), box=seen))
    left, top, right, bottom = (round(side) for side in seen)
    image = ExplainedImage(
        photo=viewable(whole.crop((left, top, max(right, left + 1), max(bottom, top + 1)))),
        canvas=canvas,
        fill=fill_canvas(fills_of(line.row.settings.get("fill", "black"))[0], canvas),
        box=WHOLE,
        partition=parts,
        target=Target.named(record.get("label", "")),
        prediction=None,
        full_score=record["full"],
        blank_score=record["blank"],
    )
    curves = None
    if "order" in record:
        insertion, deletion = (np.array(record[name], dtype=np.float64) for name in ("insertion", "deletion"))
        curves = Curves(np.cumsum(parts.areas[record["order"]]), insertion, deletion)
    return Evidence(line.row.method, sample.plain or sample.question, image, record, curves)


def _fits(record: Record, n: int) -> bool:
    """Whether a record is about an image of n regions, and has what its figure shows."""
    wanted = {"full", "blank", *(["answer", "repaired"] if "given" in record else [])}
    if "order" not in record:
        return are_regions(record.get("mask"), n) and {"score", *wanted} <= record.keys()
    lengths = {len(record.get(name, ())) for name in ("order", "insertion", "deletion")}
    prefixes = [record.get("prefix", 1), *record.get("right", [])]
    whole = lengths == {n} and are_regions(record["order"], n) and all(1 <= prefix <= n for prefix in prefixes)
    return whole and {"insertion_auc", *wanted, *(["prefix", "right"] if "given" in record else [])} <= record.keys()
