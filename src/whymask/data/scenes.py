"""POPE's yes/no questions about scenes."""

from functools import cache
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from whymask.data.pope import EACH, Question, Sampling, ask, pick, together
from whymask.images.scenes import OBJECTS, SEED, generator, plan, scene

COUNTED = 4000  # training scenes over whose objects frequencies are counted


def questions(sampling: Sampling, images: int = 500) -> list[Question]:
    """POPE's questions about test scenes of at least three objects: three of them, and three that are not there.

    What is popular and what comes together is counted over training scenes.
    """
    asked: list[Question] = []
    for number in tested(images):
        there = np.isin(OBJECTS, _there(number))
        for i, label in pick(there, _together(), sampling, np.random.default_rng((SEED, 2, number))):
            asked.append(Question(len(asked) + 1, file_name(number), ask(OBJECTS[i]), label))
    return asked


def file_name(number: int) -> str:
    """The file name of a test scene."""
    return f"scene_{number:06}.png"


def tested(images: int) -> list[int]:
    """The first test scenes that POPE would ask about: at least three objects."""
    return list(islice((number for number in count() if len(_there(number)) >= EACH), images))


@cache
def _there(number: int) -> tuple[str, ...]:
    """The names of the objects in a test scene."""
    return scene("test", number).objects


@cache
def _together() -> NDArray[np.int64]:
    """How often objects come together in training scenes, (objects, objects); its diagonal, how often they come."""
    there = np.zeros((COUNTED, len(OBJECTS)), dtype=bool)
    for number in range(COUNTED):
        there[number, plan("train", generator("train", number))] = True
    return together(there)
