"""Text recognisers that read from left to right (CTC): explain a character, a word or the text.

At every step such a model gives probabilities of the characters and of a blank. The text is the likeliest class of
every step, without repetitions and blanks. A character's score is its highest probability over the steps at which the
whole image gave it, that of a word or of the text is the mean over its characters.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whymask.arrays import Floats, real_numbers
from whymask.errors import ImageError, WhymaskError, whole
from whymask.images.imaging import Canvas, WholeImage
from whymask.models.base import Response, Target
from whymask.models.classifier import is_name, number_of
from whymask.models.function import FromFunction
from whymask.models.located import Located, Point

Character: TypeAlias = tuple[int, int, int]
"""A class, and the first step and the one after the last at which it was read."""


class Recogniser(Located):
    """Explains characters of a text; a family implements `encode` and `probabilities`."""

    alphabet: Sequence[str]  # by class; the blank's is not used
    blank: int

    @abstractmethod
    def probabilities(self, inputs: Any) -> Floats:
        """Probabilities of all classes at every step (B, T, C), for inputs (B, ...)."""

    def read(self, chances: Floats) -> list[Character]:
        """The characters that probabilities (T, C) give."""
        found: list[Character] = []
        start = 0
        for column, steps in groupby(chances.argmax(axis=1).tolist()):
            end = start + len(list(steps))
            if column != self.blank:
                found.append((column, start, end))
            start = end
        return found

    def locate(
        self, inputs: Any, canvas: Canvas, target: int | str | Point | None
    ) -> tuple[Target, tuple[Character, ...], int]:
        """A character by its number in the text, a part of the text by what it says; by default all of it."""
        read = self.read(self.probabilities(inputs[None])[0])
        parts = [self.alphabet[column] for column, *_ in read]
        text = "".join(parts)
        if not read:
            raise ImageError(f"{self.name} reads nothing in the image.")
        if isinstance(target, tuple):
            raise WhymaskError(f"{self.name} takes a part of the text, or the number of a character, not a point.")
        if target is None:
            return Target.named(text), tuple(read), 1
        if isinstance(target, str) and target in text:
            ends = np.cumsum([len(part) for part in parts]) - 1
            begin = text.index(target)
            first, last = np.searchsorted(ends, [begin, begin + len(target) - 1])
            return Target.named(target), tuple(read[first : last + 1]), 1
        if is_name(target):
            raise ImageError(f"{self.name} reads {text!r}, which does not contain {target!r}.")
        number = number_of(target)
        if not 0 <= number < len(read):
            raise ImageError(f"{self.name} reads {text!r}: its characters have the numbers 0 to {len(read) - 1}.")
        return Target(number, parts[number]), (read[number],), 1

    def respond(self, inputs: Any, bounds: Sequence[Any]) -> Response:
        """Score masked inputs by the characters that the bounds explain."""
        chances = self.probabilities(inputs)
        scores = [
            np.mean([steps[start:end, column].max() for column, start, end in bound.where])
            for steps, bound in zip(chances, bounds, strict=True)
        ]
        return Response(np.clip(np.array(scores, dtype=np.float64), 0, 1), None)


class FunctionRecogniser(FromFunction, Recogniser):
    """A function from images (B, H, W, 3) uint8 to probabilities (B, T, classes), T steps from left to right."""

    def __init__(
        self,
        function: Callable[[NDArray[np.uint8]], ArrayLike],
        *,
        alphabet: Sequence[str],
        blank: int = 0,
        name: str = "function",
        max_side: int | None = 1024,
        size: int | tuple[int, int] | None = None,
    ) -> None:
        """`alphabet` has the character of each class; class `blank` is the blank."""
        self.alphabet, self.blank = list(alphabet), whole("blank", blank, 0)
        if self.blank >= len(self.alphabet):
            raise WhymaskError(f"the blank is one of the {len(self.alphabet)} classes of the alphabet, not {blank}.")
        super().__init__(function, name, 32, WholeImage(max_side, size), alphabet=self.alphabet, blank=blank)

    def probabilities(self, inputs: Any) -> Floats:
        """What the function returns."""
        found = real_numbers(self.function(inputs))
        if found.ndim != 3 or len(found) != len(inputs) or found.shape[2] != len(self.alphabet):
            expected = f"({len(inputs)}, steps, {len(self.alphabet)})"
            raise WhymaskError(f"{self.name} must return probabilities {expected}, not {found.shape}.")
        return found
