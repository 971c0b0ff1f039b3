"""Scenes that one sentence describes: "a red cup left of two white plates and a blue kite".

A scene is one to three groups of equal objects on a textured ground. Training scenes keep habits, which a model learns
and relies on where it sees little: a star is nearly always yellow, a cup nearly always comes with a plate. Test scenes
break them more often. Objects may be small, half transparent, or partly hidden behind a board.

A scene is drawn from its plan, and a plan may be changed: the same scene without a group, or with another noun, colour,
count or place in its stead, shows by intervention what a word of a model rests on.

Every scene follows from its split and number.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from whymask.arrays import Bools
from whymask.errors import WhymaskError
from whymask.images.scenes import SEED, SIZE, VISIBLE, Split, Values, Window, board, shape, texture

NOUNS = ("tree", "mushroom", "cup", "plate", "moon", "star", "ball", "kite")  # a sentence names them in this order
COLOURS = {
    "red": (205, 50, 45),
    "green": (50, 150, 70),
    "blue": (55, 95, 205),
    "yellow": (235, 195, 50),
    "purple": (150, 70, 180),
    "white": (235, 235, 235),
}
MATES = {"tree": "mushroom", "cup": "plate", "moon": "star"}  # nearly always come together
USUAL = {"tree": "green", "moon": "white", "star": "yellow"}  # nearly always of this colour
HABIT: dict[Split, float] = {"train": 0.85, "test": 0.5}  # how often both hold, beyond chance
GROUPS = (0.15, 0.55, 0.3)  # how likely one, two or three groups are
MEMBERS = (0.55, 0.25, 0.2)  # and one, two or three objects of a group
HAZE = 0.2  # how likely a group is half transparent
HIDDEN = 0.15  # how likely a board hides part of a group's first object


@dataclass(frozen=True)
class Group:
    """Equal objects that stand together, within a square of half the scene."""

    noun: str
    colour: str
    count: int
    corner: tuple[int, int]  # (x, y) of the square
    places: tuple[tuple[float, float, float, float], ...]  # of three objects: x, y in the square, half size, turn
    tint: tuple[float, float, float]  # added to the colour
    strength: float  # 1 is opaque


@dataclass(frozen=True)
class Board:
    """A rectangle before the objects."""

    box: tuple[int, int, int, int]  # top, bottom, left, right
    colour: tuple[float, float, float]


@dataclass(frozen=True)
class Plan:
    """What a scene shows. The first group stands `relation` the second one."""

    split: Split
    number: int
    groups: tuple[Group, ...]  # in the order of NOUNS
    boards: tuple[Board, ...] = ()

    @property
    def relation(self) -> str | None:
        """The relation of the first group to the second."""
        return self.relation_of(0, 1) if len(self.groups) > 1 else None

    def relation_of(self, i: int, j: int) -> str:
        """The relation of group i to group j, along the axis on which their squares are further apart."""
        (x, y), (other_x, other_y) = (self.groups[g].corner for g in (i, j))
        if abs(x - other_x) > abs(y - other_y):
            return "left of" if x < other_x else "right of"
        return "above" if y < other_y else "below"

    def without(self, i: int) -> "Plan":
        """The same scene without group i; a board before it stays."""
        return replace(self, groups=(*self.groups[:i], *self.groups[i + 1 :]))

    def changed(self, i: int, **fields: object) -> "Plan":
        """The same scene with another noun, colour, count or corner of group i, which keeps its place among groups."""
        group = replace(self.groups[i], **fields)  # type: ignore[arg-type]
        return replace(self, groups=(*self.groups[:i], group, *self.groups[i + 1 :]))

    def swapped(self, i: int = 0, j: int = 1) -> "Plan":
        """The same scene with two groups in each other's place, so that their relation is reversed."""
        return self.changed(i, corner=self.groups[j].corner).changed(j, corner=self.groups[i].corner)


@dataclass(frozen=True, eq=False)
class Described:
    """A plan, its pixels (SIZE, SIZE, 3), and which group each shows: its place in the plan plus one, 0 for none."""

    plan: Plan
    pixels: NDArray[np.uint8]
    labels: NDArray[np.uint8]

    def mask(self, groups: tuple[int, ...]) -> Bools:
        """Where any of these groups shows, (SIZE, SIZE)."""
        return np.isin(self.labels, [i + 1 for i in groups])


@dataclass(frozen=True, eq=False)
class Stencil:
    """Where an object covers the canvas."""

    group: int
    box: Window
    alpha: Values

    @cached_property
    def solid(self) -> Bools:
        """Where its labels are."""
        return np.asarray(self.alpha > 0.5)


def described(split: Split, number: int) -> Described:
    """The scene of this number."""
    return draw(plan(split, number))


def named(name: str) -> Described:
    """The test scene that "described:12" stands for wherever an image is asked for."""
    number = name.removeprefix("described:")
    if not number.isdecimal():
        raise WhymaskError(f"a described scene is named by its number, such as described:12, not {name!r}.")
    return described("test", int(number))


def plan(split: Split, number: int) -> Plan:
    """What the scene of this number shows."""
    rng = _generator(split, number, 0)
    nouns = _nouns(HABIT[split], rng)
    corners = _corners(len(nouns), rng)
    groups = tuple(_group(noun, corner, HABIT[split], rng) for noun, corner in zip(nouns, corners, strict=True))
    bare = Plan(split, number, groups)
    behind = np.flatnonzero(rng.random(len(groups)) < HIDDEN)
    if not len(behind):
        return bare
    firsts = {stencil.group: stencil.box for stencil in reversed(_stencils(bare))}
    hidden = replace(bare, boards=tuple(_plank(firsts[i], rng) for i in behind.tolist()))
    return hidden if _all_show(hidden) else bare


def draw(plan: Plan) -> Described:
    """The scene of a plan; its ground and grain follow from its number alone."""
    rng = _generator(plan.split, plan.number, 1)
    canvas, labels = texture(rng), np.zeros((SIZE, SIZE), dtype=np.uint8)
    for stencil in _stencils(plan):
        group, box = plan.groups[stencil.group], stencil.box
        colour = np.array(COLOURS[group.colour], dtype=np.float32) + np.array(group.tint, dtype=np.float32)
        light = np.linspace(1.15, 0.8, len(stencil.alpha), dtype=np.float32)[:, None, None]
        canvas[box] += np.float32(group.strength) * stencil.alpha[..., None] * (light * colour - canvas[box])
        labels[box][stencil.solid] = stencil.group + 1
    for plank in plan.boards:
        canvas[_slices(plank)], labels[_slices(plank)] = plank.colour, 0
    grain = rng.integers(-12, 13, canvas.shape, dtype=np.int8)
    return Described(plan, np.clip(canvas + grain, 0, 255).astype(np.uint8), labels)


def _generator(split: Split, number: int, part: int) -> np.random.Generator:
    return np.random.default_rng((SEED, 3 + get_args(Split).index(split), number, part))


def _nouns(habit: float, rng: np.random.Generator) -> list[str]:
    """Different nouns in the order of NOUNS: any one, by habit its mate, and others."""
    order = [NOUNS[i] for i in rng.permutation(len(NOUNS))]
    count, by_habit = 1 + int(rng.choice(3, p=GROUPS)), rng.random() < habit
    if by_habit and (mate := MATES.get(order[0])):
        order.remove(mate)
        order.insert(1, mate)
    return sorted(order[:count], key=NOUNS.index)


def _corners(count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """The squares of the groups: the first two side by side or one above the other, the third beside both."""
    half = SIZE // 2
    along, across = rng.integers(0, half + 1, 2).tolist()
    if count == 1:
        return [(along, across)]
    if count == 3:
        across = half * int(rng.integers(2))
    first = half * int(rng.integers(2))
    corners = [(first, across), (half - first, across), (along, half - across)][:count]
    return corners if rng.random() < 0.5 else [(y, x) for x, y in corners]


def _group(noun: str, corner: tuple[int, int], habit: float, rng: np.random.Generator) -> Group:
    """One object in the middle of its square, or several in different quarters of it."""
    count = 1 + int(rng.choice(3, p=MEMBERS))
    colours = tuple(COLOURS)
    colour = USUAL.get(noun, "") if rng.random() < habit else ""
    half = float(np.exp(rng.uniform(np.log(8), np.log(13))))
    quarters = rng.permutation(4)[:3]
    spread = 8 if count == 1 else 3
    middles = np.stack([quarters % 2, quarters // 2], axis=1) * 28.0 + 14
    if count == 1:
        middles[0] = 28
    middles += rng.uniform(-spread, spread, middles.shape)
    places = np.column_stack([middles, half * rng.uniform(0.9, 1.05, 3), rng.uniform(-0.4, 0.4, 3)])
    return Group(
        noun, colour or colours[rng.integers(len(colours))], count, corner,
        tuple((x, y, size, turn) for x, y, size, turn in places.tolist()),
        tuple(rng.uniform(-20, 20, 3).tolist()),
        float(rng.uniform(0.3, 0.6)) if rng.random() < HAZE else 1.0,
    )  # fmt: skip


def _plank(box: Window, rng: np.random.Generator) -> Board:
    """A grey board before part of a box."""
    rows, columns = board(box, rng)
    grey = rng.uniform(0, 150) + rng.uniform(-10, 10, 3)
    return Board((rows.start, rows.stop, columns.start, columns.stop), tuple(grey.tolist()))


def _stencils(plan: Plan) -> list[Stencil]:
    """The stencils of all objects, in the order in which they are drawn."""
    found = []
    for i, group in enumerate(plan.groups):
        for x, y, half, turn in group.places[: group.count]:
            alpha = shape(group.noun, half, turn)
            side = len(alpha)
            left, top = (
                min(max(round(corner + middle - side / 2), 0), SIZE - side)
                for corner, middle in zip(group.corner, (x, y), strict=True)
            )
            found.append(Stencil(i, (slice(top, top + side), slice(left, left + side)), alpha))
    return found


def _all_show(plan: Plan) -> bool:
    """Whether enough of every object shows, so that nouns, colours and counts can all be seen."""
    numbers = np.zeros((SIZE, SIZE), dtype=np.uint8)
    stencils = _stencils(plan)
    for number, stencil in enumerate(stencils, start=1):
        numbers[stencil.box][stencil.solid] = number
    for plank in plan.boards:
        numbers[_slices(plank)] = 0
    return bool((np.bincount(numbers.ravel(), minlength=len(stencils) + 1)[1:] >= VISIBLE).all())


def _slices(plank: Board) -> Window:
    top, bottom, left, right = plank.box
    return slice(top, bottom), slice(left, right)
