"""Scenes whose truth is known: coloured objects on textured backgrounds, and POPE's yes/no questions about them.

Objects of one theme nearly always come together in the scenes a model is trained on, and some are so small or so well
hidden that the objects around them are the better clue. In the test scenes themes are often broken: a model that relies
on them then says yes to what is not there (false yes), or misses what stands alone (false no).

Every scene follows from its split and number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from whymask.arrays import Bools
from whymask.errors import WhymaskError, unknown

Split: TypeAlias = Literal["train", "test"]
Values: TypeAlias = NDArray[np.floating[Any]]
Window: TypeAlias = tuple[slice, slice]
"""The rows and the columns of a rectangle of pixels."""

SIZE = 112  # pixels a side
THEMES = {  # in order of how often they come up
    "play": ("ball", "flag", "tent"),
    "table": ("cup", "plate", "spoon"),
    "garden": ("tree", "mushroom", "leaf"),
    "sky": ("moon", "star", "kite"),
}
FREQUENCY = (0.34, 0.28, 0.22, 0.16)
OBJECTS = tuple(chain(*THEMES.values()))
# One for each theme, so that an object differs from its companions in shape alone.
COLOURS = ((150, 70, 180), (60, 110, 210), (60, 150, 70), (230, 170, 50))
# How likely each object of the scene's theme is there, and each other one.
COMPANY: dict[Split, tuple[float, float]] = {"train": (0.88, 0.15), "test": (0.6, 0.2)}
HIDDEN = 0.3  # how likely a board covers part of an object
HAZE = 0.25  # how likely an object is half transparent
VISIBLE = 16  # pixels: what shows less of itself is not drawn
SEED = 2025


@dataclass(frozen=True, eq=False)
class Scene:
    """Pixels (SIZE, SIZE, 3), and which object each shows: its place in `OBJECTS` plus one, 0 for none."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    @property
    def objects(self) -> tuple[str, ...]:
        """The names of the objects that show."""
        return tuple(OBJECTS[i - 1] for i in np.unique(self.labels) if i)

    def mask(self, name: str) -> Bools:
        """Where an object shows, (SIZE, SIZE)."""
        if name not in OBJECTS:
            raise unknown("object", name, OBJECTS)
        return np.asarray(self.labels == OBJECTS.index(name) + 1)


def scene(split: Split, number: int) -> Scene:
    """The scene of this number."""
    rng = generator(split, number)
    return _draw(plan(split, rng), rng)


def named(name: str) -> Scene:
    """The test scene that "scene:12" stands for wherever an image is asked for."""
    number = name.removeprefix("scene:")
    if not number.isdecimal():
        raise WhymaskError(f"a scene is named by its number, such as scene:12, not {name!r}.")
    return scene("test", int(number))


def generator(split: Split, number: int) -> np.random.Generator:
    """The random choices of one scene."""
    return np.random.default_rng((SEED, get_args(Split).index(split), number))


def plan(split: Split, rng: np.random.Generator) -> NDArray[np.int64]:
    """Which objects a scene shows, those drawn first first."""
    theme = rng.choice(len(THEMES), p=FREQUENCY)
    within, beyond = COMPANY[split]
    likely = np.full(len(OBJECTS), beyond)
    likely[3 * theme : 3 * theme + 3] = within
    chosen = np.flatnonzero(rng.random(len(OBJECTS)) < likely)
    if not len(chosen):
        chosen = np.array([3 * theme + rng.integers(3)])
    return rng.permutation(chosen)[:6]


def _draw(chosen: NDArray[np.int64], rng: np.random.Generator) -> Scene:
    """Objects in the order given, then boards before some of them."""
    covers = []  # (box, alpha) of each object on the canvas
    free = np.ones((SIZE, SIZE), dtype=bool)
    for i in chosen:
        alpha = shape(OBJECTS[i], float(np.exp(rng.uniform(np.log(5), np.log(17)))), rng.uniform(-0.4, 0.4))
        box = _room(free, len(alpha), rng)
        free[box] &= alpha < 0.5
        covers.append((box, alpha))
    boards = [board(box, rng) for box, _ in covers if rng.random() < HIDDEN]
    labels = np.zeros((SIZE, SIZE), dtype=np.uint8)
    for i, (box, alpha) in zip(chosen, covers, strict=True):
        labels[box][alpha > 0.5] = i + 1
    for plank in boards:
        labels[plank] = 0
    seen = np.bincount(labels.ravel(), minlength=len(OBJECTS) + 1)[1:] >= VISIBLE
    labels[:] = 0
    canvas = texture(rng)
    for i, (box, alpha) in zip(chosen, covers, strict=True):
        colour = np.array(COLOURS[i // 3], dtype=np.float32) + rng.uniform(-25, 25, 3).astype(np.float32)
        strength = np.float32(rng.uniform(0.35, 0.7) if rng.random() < HAZE else 1.0)
        if seen[i]:
            light = np.linspace(1.15, 0.8, len(alpha), dtype=np.float32)[:, None, None]
            canvas[box] += strength * alpha[..., None] * (light * colour - canvas[box])
            labels[box][alpha > 0.5] = i + 1
    for plank in boards:
        canvas[plank] = rng.uniform(0, 150) + rng.uniform(-10, 10, 3)
        labels[plank] = 0
    grain = rng.integers(-12, 13, canvas.shape, dtype=np.int8)
    return Scene(np.clip(canvas + grain, 0, 255).astype(np.uint8), labels)


def _room(free: Bools, side: int, rng: np.random.Generator) -> Window:
    """A place for a square of this side: the emptiest of four."""
    corners = rng.integers(0, SIZE - side + 1, (4, 2))
    boxes = [(slice(y, y + side), slice(x, x + side)) for y, x in corners.tolist()]
    return max(boxes, key=lambda box: int(free[box].sum()))


def board(box: Window, rng: np.random.Generator) -> Window:
    """A rectangle that hides between a third and all but a rest of what is in the box, from one side."""
    hides = rng.uniform(0.35, 0.9)
    axis, first = rng.integers(2), rng.random() < 0.5
    margin = rng.integers(2, 8, 4)
    start = np.array([box[0].start, box[1].start])
    side = box[0].stop - box[0].start
    low, high = start - margin[:2], start + side + margin[2:]
    if first:
        high[axis] = start[axis] + round(side * hides)
    else:
        low[axis] = start[axis] + side - round(side * hides)
    (top, left), (bottom, right) = np.clip(low, 0, SIZE), np.clip(high, 0, SIZE)
    return slice(int(top), int(bottom)), slice(int(left), int(right))


def texture(rng: np.random.Generator) -> Values:
    """A dull background: coarse clouds of colour and finer ones of light around a random grey."""
    coarse = rng.uniform(60, 190) + rng.uniform(-25, 25, (4, 4, 3)) + rng.uniform(-18, 18, 3)
    fine = Image.fromarray(rng.uniform(-18, 18, (14, 14)).astype(np.float32))
    bilinear = ((SIZE, SIZE), Image.Resampling.BILINEAR)
    colours = Image.fromarray(np.clip(coarse, 0, 255).astype(np.uint8)).resize(*bilinear)
    canvas: Values = np.asarray(colours, dtype=np.float32) + np.asarray(fine.resize(*bilinear))[..., None]
    return canvas


def shape(name: str, half: float, turn: float) -> Values:
    """Coverage in 0 ... 1 of an object `half` pixels from its middle to its border, turned by `turn` radians."""
    reach = int(np.ceil(half * 1.1)) + 1
    steps = np.arange(-reach, reach + 1, dtype=np.float32) / half
    x, y = np.meshgrid(steps, steps)
    cos, sin = np.float32(np.cos(turn)), np.float32(np.sin(turn))
    inside = SHAPES[name](cos * x + sin * y, cos * y - sin * x)
    return np.asarray(np.clip(inside * half + 0.5, 0, 1), dtype=np.float32)


def _disc(x: Values, y: Values, radius: float) -> Values:
    return radius - np.hypot(x, y)


def _bar(x: Values, y: Values, left: float, right: float, top: float, bottom: float) -> Values:
    return np.asarray(np.minimum(np.minimum(x - left, right - x), np.minimum(y - top, bottom - y)))


def _cone(x: Values, y: Values, top: float, bottom: float, half: float) -> Values:
    """A triangle that stands on its base."""
    return np.asarray(np.minimum(half * (y - top) / (bottom - top) - np.abs(x), bottom - y))


def _star(x: Values, y: Values) -> Values:
    wave = np.abs(np.arctan2(x, -y) * (5 / (2 * np.pi)) % 1 * 2 - 1)
    return 0.38 + 0.6 * wave**1.5 - np.hypot(x, y)


# Each gives how far inside a point is, in half sizes: x grows to the right, y downwards, both -1 ... 1 inside.
SHAPES: dict[str, Callable[[Values, Values], Values]] = {
    "ball": lambda x, y: _disc(x, y, 0.85),
    "flag": lambda x, y: np.maximum(_bar(x, y, -0.8, -0.58, -0.95, 0.95), _bar(x, y, -0.6, 0.85, -0.9, 0.1)),
    "tent": lambda x, y: np.minimum(_cone(x, y, -0.8, 0.75, 0.95), -_cone(x, y, 0.0, 0.9, 0.4)),
    "cup": lambda x, y: np.maximum(
        np.minimum(0.75 - np.abs(y), 0.55 - 0.18 * y - np.abs(x + 0.25)), 0.13 - np.abs(np.hypot(x - 0.4, y) - 0.36)
    ),
    "plate": lambda x, y: 0.2 - np.abs(np.hypot(x, y) - 0.7),
    "spoon": lambda x, y: np.maximum(_disc(x * 1.3, y + 0.5, 0.45), _bar(x, y, -0.12, 0.12, -0.2, 0.95)),
    "tree": lambda x, y: np.maximum(_cone(x, y, -0.95, 0.5, 0.75), _bar(x, y, -0.15, 0.15, 0.4, 0.95)),
    "mushroom": lambda x, y: np.maximum(np.minimum(_disc(x, y, 0.9), 0.05 - y), _bar(x, y, -0.25, 0.25, 0.0, 0.85)),
    "leaf": lambda x, y: np.minimum(_disc(x - 0.75, y, 1.2), _disc(x + 0.75, y, 1.2)),
    "moon": lambda x, y: np.minimum(_disc(x, y, 0.95), -_disc(x - 0.5, y, 0.75)),
    "star": _star,
    "kite": lambda x, y: 0.6 * (1 - np.abs(x) / 0.7 - np.maximum((y + 0.3) / 1.25, -(y + 0.3) / 0.65)),
}
