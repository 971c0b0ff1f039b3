"""POPE's yes/no questions, and splits of them by what a model answers.

pope: all answers, explained. repope: the wrong ones, by corrected labels where there are any, with the right answer
explained; repope-cause: the same questions with the model's own answer explained. seen: right yeses about scenes, with
the mask of the object asked about.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import ClassVar

from whymask.data import scenes
from whymask.data.base import Place, Source
from whymask.data.manifest import Sample, write_mask
from whymask.data.pope import Question, Sampling, ask, find_images, read_questions
from whymask.errors import WhymaskError
from whymask.explainer.answers import in_words, yes_or_no
from whymask.explainer.binding import bind
from whymask.images.masking import stack
from whymask.images.scenes import OBJECTS, named
from whymask.models.base import Model
from whymask.search.limits import Count

SLOT = "{question}"
CORRECTED = "repope-"  # ids of questions from the corrected file begin with it


@dataclass(frozen=True)
class Questions(Source):
    """The questions of one or two files about the images of a folder, or about a number of scenes."""

    name = "questions"
    makes: ClassVar[Mapping[str, str]] = {"pope": "ins", "repope": "high", "repope-cause": "ins", "seen": "ins"}
    optional = ("repope-cause", "seen")

    file: str | None = None
    corrected: str | None = None  # the file that repope is made from, with RePOPE's labels; by default the same
    images: str | None = None
    scenes: Count | None = None
    sampling: Sampling = "adversarial"  # of the questions about scenes
    prompt: str = "plain"  # the question alone, or any text with {question} in it

    def __post_init__(self) -> None:
        if (self.file is None) == (self.scenes is None) or (self.file is None) != (self.images is None):
            raise WhymaskError("[questions] needs a file and the folder of its images, or a number of scenes.")
        if self.corrected is not None and self.file is None:
            raise WhymaskError("corrected in [questions] needs the file whose labels it corrects.")
        if self.prompt != "plain" and SLOT not in self.prompt:
            raise WhymaskError(f"the prompt in [questions] must be 'plain' or a text with {SLOT}, not {self.prompt!r}.")

    def read(self, place: Place) -> list[Sample]:
        """The questions, each with the right answer as its target."""
        if self.scenes is not None:
            questions = scenes.questions(self.sampling, self.scenes)
            images = {scenes.file_name(number): f"scene:{number}" for number in scenes.tested(self.scenes)}
            return _samples(questions, images)
        if "seen" in place.splits:
            raise WhymaskError("the split 'seen' needs questions about scenes: there are no masks of other images.")
        questions = read_questions(str(self.file))
        corrected = [] if self.corrected is None else read_questions(self.corrected)
        found = find_images([*questions, *corrected], str(self.images))
        images = {name: str(path) for name, path in found.items()}
        return [*_samples(questions, images), *_samples(corrected, images, CORRECTED)]

    def splits(self, samples: list[Sample], model: Model, place: Place) -> dict[str, list[Sample]]:
        """The splits, by what a model answers; an answer that is neither yes nor no is in none."""
        asked = samples
        if self.prompt != "plain":
            asked = [replace(s, question=self.prompt.replace(SLOT, str(s.question)), plain=s.question) for s in samples]
        about = [[s.id, s.image, s.target, s.question] for s in asked]
        answers = place.remembered(model, about, lambda: _answers(model, asked))
        said = [(s, yes_or_no(answer)) for s, (_, answer) in zip(asked, answers, strict=True)]
        checked = [(s, word) for s, word in said if self.corrected is None or s.id.startswith(CORRECTED)]
        wrong = [(s, word) for s, word in checked if word and word != s.target]
        return {
            "pope": [replace(s, target=word) for s, word in said if word and not s.id.startswith(CORRECTED)],
            "repope": [s for s, _ in wrong],
            "repope-cause": [replace(s, target=word) for s, word in wrong],
            "seen": [
                replace(s, mask=_mask(plain, place))
                for plain, (s, word) in zip(samples, said, strict=True)
                if "seen" in place.splits and word == s.target == "Yes"
            ],
        }


def _samples(questions: Iterable[Question], images: Mapping[str, str], prefix: str = "") -> list[Sample]:
    """Questions as samples, given where their images are."""
    return [Sample(f"{prefix}{q.number}", images[q.image], q.want, q.text) for q in questions]


def _answers(model: Model, samples: Sequence[Sample]) -> list[tuple[str, str]]:
    """(id, answer) of every sample; a question that two files ask about one image is asked once."""
    once = {(s.image, s.question): s for s in samples}
    said = dict(zip(once, answer_all(model, once.values()), strict=True))
    return [(s.id, said[s.image, s.question]) for s in samples]


def answer_all(model: Model, samples: Iterable[Sample]) -> Iterator[str]:
    """What a model answers to the questions of samples, several of them at a time."""
    bounds = (bind(model, s.image, target=s.target, question=s.question) for s in samples)
    for _, alike in groupby(bounds, key=lambda bound: bound.key):
        while some := list(islice(alike, model.batch_size)):
            inputs = stack([bound.inputs[None] for bound in some])
            top = model.respond(inputs, some).top
            tops = [None] * len(some) if top is None else top.tolist()
            yield from in_words(model, tops, inputs.__getitem__, some)


def _mask(sample: Sample, place: Place) -> str:
    """The file of the mask of the object that a question about a scene asks about."""
    thing = next(name for name in OBJECTS if ask(name) == sample.question)
    return write_mask(place.folder / "seen" / f"{sample.id}.png", named(sample.image).mask(thing))
