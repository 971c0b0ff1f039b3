"""POPE's questions by what a model answers: the splits pope, its answers explained, and repope, its mistakes mended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from whymask.bench.config import PROMPTS, Questions
from whymask.data import scenes
from whymask.data.manifest import Sample
from whymask.data.pope import Question, find_images, read_questions
from whymask.data.splits import remembered
from whymask.explainer.answers import Answered, answer_all, pope_cases, repope_cases
from whymask.models.base import Model

Asked: TypeAlias = list[tuple[Question, str]]  # each with its image


def to_ask(wanted: Questions) -> Asked:
    """The questions of a file about the images of a folder, or about scenes."""
    if wanted.scenes is not None:
        questions = scenes.questions(wanted.sampling, wanted.scenes)
        where = {scenes.file_name(number): f"scene:{number}" for number in scenes.tested(wanted.scenes)}
    else:
        assert wanted.file is not None
        assert wanted.images is not None
        questions = read_questions(wanted.file)
        where = {name: str(path) for name, path in find_images(questions, wanted.images).items()}
    return [(question, where[question.image]) for question in questions]


def build(asked: Asked, model: Model, cache: Path, prompt: str) -> dict[str, list[Sample]]:
    """The samples of pope and repope.

    Args:
        asked: see `to_ask`.
        model: one that answers questions.
        cache: folder that keeps the answers.
        prompt: one of PROMPTS.
    """
    questions, images = [question for question, _ in asked], {question.image: image for question, image in asked}
    about = [model.name, model.fingerprint, sorted(model.settings.items()), prompt]
    known = [[asdict(question), image] for question, image in asked]
    answers: list[tuple[str, str]] = remembered(
        cache,
        [about, known],
        lambda: [(one.prompt, one.answer) for one in answer_all(model, questions, images, prompt=PROMPTS[prompt])],
    )
    answered = [
        Answered(question, image, text, answer)
        for (question, image), (text, answer) in zip(asked, answers, strict=True)
    ]
    return {"pope": _samples(pope_cases(answered)), "repope": _samples(repope_cases(answered))}


def _samples(cases: Sequence[tuple[Answered, str]]) -> list[Sample]:
    return [Sample(str(one.question.number), str(one.image), target, one.prompt) for one, target in cases]
