"""POPE's yes/no questions, and splits of them by what a model answers.

pope: all answers, explained. repope: the wrong ones, with the right answer explained; repope-cause: the same questions
with the model's own answer explained. seen: right yeses about scenes, with the mask of the object asked about.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import ClassVar, Literal

from whymask.data import scenes
from whymask.data.base import Place, Source
from whymask.data.manifest import Sample, write_mask
from whymask.data.pope import Sampling, ask, find_images, read_questions
from whymask.errors import WhymaskError
from whymask.explainer.answers import in_words, yes_or_no
from whymask.explainer.case import bind
from whymask.images.masking import stack
from whymask.images.scenes import OBJECTS, named
from whymask.models.base import Model
from whymask.search.limits import Count

PROMPTS = {
    "plain": "{question}",
    "vqa": "This is visual question answering. Begin your answer with exactly Yes or No; a short explanation may "
    "follow.\nQuestion: {question}\nAnswer:",
}


@dataclass(frozen=True)
class Questions(Source):
    """The questions of a file about the images of a folder, or about so many scenes."""

    name = "questions"
    makes: ClassVar[Mapping[str, str]] = {"pope": "ins", "repope": "high", "repope-cause": "ins", "seen": "ins"}
    optional = ("repope-cause", "seen")

    file: str | None = None
    images: str | None = None
    scenes: Count | None = None
    sampling: Sampling = "adversarial"  # of the questions about scenes
    prompt: Literal["plain", "vqa"] = "vqa"  # small models know only the plain question

    def __post_init__(self) -> None:
        if (self.file is None) == (self.scenes is None) or (self.file is None) != (self.images is None):
            raise WhymaskError("[questions] needs a file and the folder of its images, or a number of scenes.")

    def read(self, place: Place) -> list[Sample]:
        """The questions, each with the right answer as its target."""
        if self.scenes is not None:
            questions = scenes.questions(self.sampling, self.scenes)
            images = {scenes.file_name(number): f"scene:{number}" for number in scenes.tested(self.scenes)}
        elif "seen" in place.splits:
            raise WhymaskError("the split 'seen' needs questions about scenes: there are no masks of other images.")
        else:
            questions = read_questions(str(self.file))
            images = {name: str(path) for name, path in find_images(questions, str(self.images)).items()}
        return [Sample(str(q.number), images[q.image], q.want, q.text) for q in questions]

    def splits(self, samples: list[Sample], model: Model, place: Place) -> dict[str, list[Sample]]:
        """The splits, by what a model answers; an answer that is neither yes nor no is in none."""
        asked = [replace(s, question=PROMPTS[self.prompt].format(question=s.question)) for s in samples]
        about = [[s.id, s.image, s.target, s.question] for s in asked]
        answers = place.remembered(
            model, about, lambda: [(s.id, answer) for s, answer in zip(asked, answer_all(model, asked), strict=True)]
        )
        said = [(s, yes_or_no(answer)) for s, (_, answer) in zip(asked, answers, strict=True)]
        wrong = [(s, word) for s, word in said if word and word != s.target]
        return {
            "pope": [replace(s, target=word) for s, word in said if word],
            "repope": [s for s, _ in wrong],
            "repope-cause": [replace(s, target=word) for s, word in wrong],
            "seen": [
                replace(s, mask=_mask(plain, place))
                for plain, (s, word) in zip(samples, said, strict=True)
                if "seen" in place.splits and word == s.target == "Yes"
            ],
        }


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
