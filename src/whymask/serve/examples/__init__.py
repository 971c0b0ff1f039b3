"""Finished examples for the first screen: saved results, made by scripts/examples.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from whymask.results.base import Explanation
from whymask.views.card import card

FOLDER = Path(__file__).parent


class Example(NamedTuple):
    """A saved result that the page shows before anything has been explained."""

    name: str  # also that of its file
    about: str  # what it shows, in a line
    verdict: str | None  # the code of its verdict; a sentence has one for each word

    @property
    def path(self) -> Path:
        """Its file."""
        return FOLDER / f"{self.name}.npz"


EXAMPLES = {
    example.name: example
    for example in (
        Example("example-tripod", "Clear evidence: a few small regions are enough", "enough"),
        Example("example-espresso", "Eight regions of this cup are not enough", "not_enough"),
        Example("example-missile", "Several masks are enough, each by itself", "enough"),
        Example("example-spoon", "A question about a scene, and where its answer is", "enough"),
        Example("example-leaf", "A wrong answer, repaired; a blank image does not do it", "enough"),
        Example("example-sentence", "Which words does the picture support?", None),
    )
}


@cache
def examples() -> list[dict[str, Any]]:
    """What the page shows of every example."""
    return [
        {**card(Explanation.load(example.path)), "id": example.name, "about": example.about}
        for example in EXAMPLES.values()
    ]
