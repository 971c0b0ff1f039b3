"""What models with a fixed list of answers share, apart from the forward pass."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from whymask.errors import WhymaskError, unknown, whole
from whymask.models.base import Bound, Response, Target, View
from whymask.models.pixels import PixelBound, PixelModel


def is_name(target: object) -> bool:
    """Whether a target is a text that is not a number."""
    return isinstance(target, str) and re.fullmatch(r"\s*-?[0-9]+\s*", target) is None


def number_of(target: Any) -> int:
    """The number that a target is, given as a whole number or as text."""
    return int(target) if isinstance(target, str) else whole("a target", target, 0)


def check_scale(mean: Sequence[float] | float, std: Sequence[float] | float) -> None:
    """Raise an error where mean and std are meant for values 0 ... 1; raw pixels (mean 0, std 1) are fine."""
    means, stds = np.abs(mean), np.abs(std)
    if stds.min() < 1 or (stds.max() == 1 and 0 < means.max() <= 1):
        meant = [", ".join(f"{255 * value:g}" for value in np.ravel(values)) for values in (mean, std)]
        raise WhymaskError(
            f"mean and std are for pixel values 0 ... 255, not 0 ... 1: pass mean=({meant[0]}), std=({meant[1]})."
        )


class Classifier(PixelModel):
    """Scores an image by one of its answers; a family implements `encode`, `outputs` and `read`."""

    labels: list[str]
    aliases: Mapping[str, int] = {}

    @abstractmethod
    def outputs(self, inputs: Any) -> Any:
        """What the model returns for inputs (B, ...): the scores of all answers follow from it."""

    @abstractmethod
    def read(self, outputs: Any, targets: Sequence[int]) -> Response:
        """Probability of targets[i] in row i of the outputs, and the most probable answer."""

    def score(self, inputs: Any, targets: Sequence[int]) -> Response:
        """Probability of targets[i] for inputs[i], and the most probable answer."""
        return self.read(self.outputs(inputs), targets)

    def settle(self, view: View, target: int | str | None, question: str | None) -> Bound:
        """Without a target, explain the answer the model prefers."""
        if question is not None:
            raise WhymaskError(f"{self.name} is a classifier: it takes a target, not a question.")
        inputs = self.encode(view.canvas)
        wanted, probes = (self.predict(inputs), 1) if target is None else (target, 0)
        return PixelBound(**self.parts(view, inputs), target=self.meant(wanted), probes=probes)

    def respond(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Scores of the bounds' targets."""
        return self.score(inputs, [self.wanted(bound) for bound in bounds])

    def answering(self, bound: Bound, target: int | str, question: str | None) -> Bound:
        """The same image with another answer."""
        return replace(bound, target=self.meant(target), probes=0)

    def respond_each(self, inputs: Any, bounds: Sequence[Bound]) -> Response:
        """Scores (B, T) of the targets of all bounds, by one forward."""
        outputs = self.outputs(inputs)
        read = [self.read(outputs, [self.wanted(bound)] * len(inputs)) for bound in bounds]
        return Response(np.stack([response.score for response in read], axis=1), read[0].top)

    def meant(self, target: int | str) -> Target:
        """The answer a user means."""
        index = self.resolve(target)
        return Target(index, self.labels[index])

    def wanted(self, bound: Bound) -> int:
        """The number of the answer that is explained, as `score` knows it."""
        return bound.target.index

    def predict(self, inputs: Any) -> int:
        """The answer the model prefers for one input."""
        top = self.score(deepcopy(inputs)[None], [0]).top  # a function may change its input
        if top is None:
            raise WhymaskError(f"{self.name} does not name its answers: pass a target.")
        return int(top[0])

    def resolve(self, target: int | str) -> int:
        """The index a user means: a number, the name of an answer, or an alias of one."""
        if is_name(target):
            wanted = str(target).strip().lower()
            labels = {label.lower(): index for index, label in reversed(list(enumerate(self.labels)))}
            names = {**self.aliases, **labels}
            if wanted not in names:
                raise unknown("target", wanted, names)
            return names[wanted]
        index = number_of(target)
        if not 0 <= index < len(self.labels):
            raise WhymaskError(f"target {index} is outside the model's classes 0 ... {len(self.labels) - 1}.")
        return index
