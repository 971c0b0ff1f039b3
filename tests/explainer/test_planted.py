"""Models whose faults are known by construction, and the verdict on masks that are found for them."""

from collections import Counter

import numpy as np
import pytest

import whymask

SIDE, CELL = 48, 8  # pixels of an image and of a region
CASES = 20


def at(row, col, high=2, wide=2):
    """(SIDE, SIDE) the pixels of a block of regions."""
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[row * CELL : (row + high) * CELL, col * CELL : (col + wide) * CELL] = True
    return inside


class Planted:
    """A random picture with two objects, and what models may look at in it."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.picture = rng.integers(20, 236, (SIDE, SIDE, 3)).astype(np.uint8)
        self.first = at(*rng.integers(0, [2, 5]))
        self.second = at(*rng.integers([3, 0], [5, 5]))

    def seen(self, images, inside):
        """The share (B,) of these pixels that show what they show in the picture."""
        same = (images == self.picture).all(axis=3)
        return same[:, inside].mean(axis=1)

    def honest(self, images):
        return 0.95 * self.seen(images, self.first)

    def redundant(self, images):
        return 0.95 * np.maximum(self.seen(images, self.first), self.seen(images, self.second))

    def without_an_image(self, images):
        return 0.85 + 0.1 * self.seen(images, self.first)

    def on_black(self, images):
        """The object counts in the whole picture, and on a black ground."""
        black = (images == 0).all(axis=(3,)).mean(axis=(1, 2)) > 0.5
        whole = self.seen(images, np.ones((SIDE, SIDE), dtype=bool)) > 0.9
        return self.honest(images) * np.maximum(black, whole)

    def outline(self, images):
        """What is not black has the outline of the object; a picture without black is recognised otherwise."""
        shown = (images > 0).any(axis=3)
        overlap = (shown & self.first).sum(axis=(1, 2)) / (shown | self.first).sum(axis=(1, 2))
        return np.where(shown.all(axis=(1, 2)), 0.9, 0.95 * overlap)


def verdicts(fault, **settings):
    found = Counter()
    for seed in range(CASES):
        planted = Planted(seed)
        model = whymask.wrap(getattr(planted, fault))
        settings = {"regions": f"grid:{SIDE // CELL}x{SIDE // CELL}", "k": "auto", "params": {"tries": 40}, **settings}
        found[whymask.explain(planted.picture, model, **settings).verdict.code] += 1
    return found


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("honest", "enough"),
        ("redundant", "redundant"),
        ("without_an_image", "blank_suffices"),
        ("on_black", "one_fill"),
        ("outline", "shape_only"),
    ],
)
def test_the_verdict_names_the_fault(fault, code):
    found = verdicts(fault, fill="black")
    assert found[code] >= 19, found


@pytest.mark.parametrize(("fault", "code"), [("honest", "enough"), ("on_black", "not_enough")])
def test_on_several_fills_what_holds_on_black_only_is_not_enough(fault, code):
    found = verdicts(fault, fill="several")
    assert found[code] >= 19, found
