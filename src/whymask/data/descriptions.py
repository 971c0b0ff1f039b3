"""Words from a model's descriptions of scenes, each with the true mask of the objects it refers to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from whymask.data.base import Place, Source
from whymask.data.manifest import Sample, write_mask
from whymask.errors import WhymaskError
from whymask.explainer.binding import bind
from whymask.images.described import described, plan
from whymask.images.sentences import LONGEST, QUESTION, Judged, judge, read, sentence
from whymask.models.base import Generates, Model
from whymask.search.limits import Count


@dataclass(frozen=True)
class Descriptions(Source):
    """The sentences with which a model describes this many test scenes, word by word.

    words: words that are true of the scene. misread: words that refer to an object of the scene but are not true of it.
    unsupported: words to which nothing in the scene corresponds; they have no mask.
    """

    name = "descriptions"
    makes: ClassVar[Mapping[str, str]] = {"words": "ins", "misread": "ins", "unsupported": "ins"}
    optional = ("misread", "unsupported")

    scenes: Count

    def read(self, place: Place) -> list[Sample]:
        """The scenes, each with its sentence as the target."""
        return [
            Sample(str(number), f"described:{number}", sentence(plan("test", number)), QUESTION)
            for number in range(self.scenes)
        ]

    def splits(self, samples: list[Sample], model: Model, place: Place) -> dict[str, list[Sample]]:
        """The words of the model's own sentences, except sentences that do not follow the grammar."""
        about = [[s.id, s.image, s.question] for s in samples]
        said = place.remembered(model, about, lambda: [[s.id, _says(model, s)] for s in samples])
        found: dict[str, list[Sample]] = {name: [] for name in self.makes}
        for sample, (_, text) in zip(samples, said, strict=True):
            for one in _judged(text, int(sample.id)):
                split = "words" if one.verdict == "right" else one.verdict
                if split in place.splits or split not in self.optional:
                    found[split].append(_word(sample, text, one, place))
        return found


def _says(model: Model, sample: Sample) -> str:
    if not isinstance(model, Generates):
        raise WhymaskError(f"[descriptions] needs a model that generates text, not {model.name}.")
    bound = bind(model, sample.image, target=sample.target, question=sample.question)
    return model.generate(bound.inputs[None], [bound], LONGEST)[0]


def _judged(text: str, number: int) -> Iterator[Judged]:
    try:
        words = read(text)
    except WhymaskError:
        return
    yield from judge(words, plan("test", number))


def _word(sample: Sample, text: str, one: Judged, place: Place) -> Sample:
    """One word as a sample: marked in its sentence, with the mask of the groups it refers to."""
    word = one.word
    marked = f"{text[: word.start]}[[{text[word.start : word.end]}]]{text[word.end :]}"
    name = f"{sample.id}-{word.start}-{word.kind}"
    mask = None
    if one.verdict != "unsupported":
        scene = described("test", int(sample.id))
        mask = write_mask(place.folder / "descriptions" / f"{name}.png", scene.mask(one.groups))
    return replace(sample, id=name, target=marked, mask=mask)
