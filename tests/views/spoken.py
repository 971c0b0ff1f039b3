"""A text about a picture of sixteen squares whose words have known evidence."""

from dataclasses import replace

import numpy as np

import whymask
from whymask.results.words import Word

TEXT = "🦊 One two, three four (five six) seven eight nine; a tenth and an eleventh."
NUMBERS = ["One", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LIGHT = np.linspace(90, 240, 16)


def photo():
    """(64, 64, 3) sixteen grey squares, each of another brightness."""
    squares = np.kron(LIGHT.reshape(4, 4), np.ones((16, 16)))
    return np.repeat(squares[..., None], 3, axis=2).astype(np.uint8)


def squares(images):
    """(B, 16) the brightness of each square."""
    return images.reshape(len(images), 4, 16, 4, 16, 3).mean(axis=(2, 4, 5)).reshape(-1, 16) / 255


def answers(count=9, names=NUMBERS):
    """The masks of the first answers: of answer i the square i."""
    labels = [*names[:count], *(f"label {i}" for i in range(count, 16))]
    model = whymask.wrap(squares, labels=labels, size=64)
    found = whymask.explain(photo(), model, answers=labels[:count], k=1, regions="grid:4x4", fill="black")
    assert [mask.regions for mask in found] == [(i,) for i in range(count)]
    return found


def spoken():
    """The nine answers as words of a text, and two words more that the image does not support."""
    found = answers()
    words = []
    for word in [*NUMBERS, "a", "tenth", "and", "an", "eleventh"]:
        start = TEXT.index(word, words[-1].end if words else 0)
        place = TEXT[: start + len(word)]
        if word in NUMBERS:
            mask = found[NUMBERS.index(word)]
            words.append(Word(word, start, len(place), "content", mask.full_score, mask.blank_score, mask))
        else:
            role = {"tenth": "prior", "eleventh": "unlikely"}.get(word, "function")
            scores = {"prior": (0.5, 0.45), "unlikely": (0.01, 0.02), "function": (0.9, 0.9)}[role]
            words.append(Word(word, start, len(place), role, *scores))
    return replace(found, text=TEXT, words=tuple(words), provenance={**found.provenance, "question": "Count."})
