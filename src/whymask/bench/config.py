"""What a benchmark run measures: models, splits, methods and seeds, from a TOML file.

Paths are relative to where the command runs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np

from whymask.data.pope import Sampling
from whymask.data.splits import CORRECT, SOURCES, WRONG
from whymask.errors import WhymaskError, unknown, whole
from whymask.explainer.answers import PLAIN, VQA
from whymask.images.imaging import Resize
from whymask.images.masking import fill_canvas
from whymask.images.partition import check_regions
from whymask.search import Recipe
from whymask.utils.redact import public, secrets_in

EMPHASES = {"ins": "insertion_auc", "high": "high", "repair": "repaired", "score": "score"}
PROMPTS = {"plain": PLAIN, "vqa": VQA}


@dataclass(frozen=True)
class ModelSpec:
    """A model as `whymask models` names it, and what it is called in tables."""

    id: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Id and options for files and pages: without secrets."""
        return {"id": public(self.id), **public(self.options)}

    @property
    def secrets(self) -> set[str]:
        """What errors of the model must not show."""
        return secrets_in([self.id, self.options])


@dataclass(frozen=True)
class MethodSpec:
    """A recipe, and what it is called in tables."""

    name: str
    recipe: Recipe
    seeds: tuple[int, ...]
    budgets: tuple[int, ...] = ()  # the mask's score is recorded after so many forwards too
    target: str | None = None  # "given": the search is for the model's own answer, a control


@dataclass(frozen=True)
class SplitSpec:
    """A manifest, or a split that is made from a source; all of it, or a part that is drawn."""

    name: str
    emphasis: str  # the column that decides
    manifest: str | None = None
    draw: int | None = None


@dataclass(frozen=True)
class Photos:
    """A labelled set, and how much of it the splits take."""

    source: str
    correct: int = CORRECT
    wrong: int = WRONG
    seed: int = 0


@dataclass(frozen=True)
class Questions:
    """POPE's questions: those of a file about the images of a folder, or about so many scenes."""

    file: str | None = None
    images: str | None = None
    scenes: int | None = None
    sampling: Sampling = "adversarial"  # of the questions about scenes
    prompt: str = "vqa"  # or the plain question, for small models


@dataclass(frozen=True)
class Config:
    """A benchmark: every method with every seed on every split of every model."""

    out: Path
    models: tuple[ModelSpec, ...]
    splits: tuple[SplitSpec, ...]
    methods: tuple[MethodSpec, ...]
    photos: Photos | None = None
    questions: Questions | None = None
    objects: str | None = None  # a folder of photos with COCO's outlines
    regions: str = "slico:64"
    fill: str = "black"
    fills: tuple[str, ...] = ()  # what was found is scored on these too
    resize: Resize = "own"
    budget: int | None = None
    batch_size: int | None = None
    together: int = 16  # samples searched at the same time

    @property
    def case(self) -> dict[str, Any]:
        """How images are bound and divided."""
        return {"regions": self.regions, "fill": self.fill, "resize": self.resize, "batch_size": self.batch_size}


def read_config(path: str | Path) -> Config:
    """The configuration of a file; unknown keys, methods and parameters are refused."""
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise WhymaskError(f"the configuration {file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise WhymaskError(f"{file} is not TOML: {error}.") from None
    return config(table, name=file.stem)


def config(table: Mapping[str, Any], name: str = "run") -> Config:
    """The configuration a table describes; without `out` its records go to runs/NAME."""
    given = Reader(table, "the configuration", Config)
    seeds = given.whole_numbers("seeds", [0])
    methods = tuple(_method(entry, seeds) for entry in given.list("methods"))
    models = tuple(_model(entry) for entry in given.list("models"))
    photos = given.table("photos")
    questions = given.table("questions")
    made = [name for source, names in SOURCES.items() if source in table for name in names]
    splits = given.table("splits")
    if splits is None:
        splits = {name: {} for name in made}
    checked = Config(
        out=Path(given.text("out", f"runs/{name}")),
        models=models,
        splits=tuple(_split(name, entry, made) for name, entry in splits.items()),
        methods=methods,
        photos=None if photos is None else _photos(photos),
        questions=None if questions is None else _questions(questions),
        objects=given.text("objects", None),
        regions=given.text("regions", Config.regions),
        fill=given.text("fill", Config.fill),
        fills=given.texts("fills"),
        resize=given.one_of("resize", Config.resize, get_args(Resize)),
        budget=given.whole("budget", None, 0),
        batch_size=given.whole("batch_size", None, 1),
        together=given.whole("together", Config.together, 1),
    )
    if not checked.splits:
        raise WhymaskError(
            "the configuration names nothing to explain: give it [photos], [questions], objects, or [splits] with "
            "manifests."
        )
    check_regions(checked.regions)
    for fill in (checked.fill, *checked.fills):
        fill_canvas(fill, np.zeros((1, 1, 3), dtype=np.uint8))
    for kind, specs in (("models", models), ("methods", methods)):
        names = [spec.name for spec in specs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise WhymaskError(f"two {kind} are called {twice!r}; give one another name.")
    return checked


class Reader:
    """Takes checked values out of a TOML table."""

    def __init__(self, table: Any, where: str, kind: type) -> None:
        if not isinstance(table, Mapping):
            raise WhymaskError(f"{where} must be a table{_number(table)}.")
        names = {*kind.__dataclass_fields__, *MORE.get(kind, ())} - LESS.get(kind, set())  # type: ignore[attr-defined]
        for key in table:
            if key not in names:
                raise unknown(f"key in {where}:", key, names)
        self.values, self.where = table, where

    def text(self, name: str, default: Any = ...) -> Any:
        """A text; required where there is no default."""
        value = self.values.get(name, default)
        if value is ...:
            raise WhymaskError(f"{self.where} needs {name!r}.")
        if value is not default and not isinstance(value, str):
            raise WhymaskError(f"{name} in {self.where} must be text{_number(value)}.")
        return value

    def one_of(self, name: str, default: Any, known: Any) -> Any:
        """One of some texts."""
        value = self.text(name, default)
        if value is not default and value not in known:
            raise unknown(name, value, known)
        return value

    def whole(self, name: str, default: Any, least: int) -> Any:
        """A whole number."""
        return whole(name, self.values[name], least) if name in self.values else default

    def whole_numbers(self, name: str, default: Any) -> tuple[int, ...]:
        """A list of them."""
        values = self.values.get(name, default)
        if not isinstance(values, list | tuple) or not (values or values is default):
            raise WhymaskError(f"{name} in {self.where} must be a list of whole numbers, not {values!r}.")
        return tuple(dict.fromkeys(whole(f"each of {name}", value, 0) for value in values))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty where it is not there."""
        values = self.values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise WhymaskError(f"{name} in {self.where} must be a list of texts{_number(values)}.")
        return tuple(dict.fromkeys(values))

    def list(self, name: str) -> list[Any]:
        """A list that is not empty."""
        values = self.values.get(name)
        if not isinstance(values, list) or not values:
            raise WhymaskError(f"{self.where} needs a list of {name}.")
        return values

    def table(self, name: str) -> Mapping[str, Any] | None:
        """A table, if it is there."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise WhymaskError(f"{name} in {self.where} must be a table{_number(value)}.")
        return value


def _number(value: Any) -> str:
    """The number that was given instead; texts and lists are not repeated, as they may hold secrets."""
    return f", not {value!r}" if isinstance(value, int | float) else ""


MORE: dict[type, set[str]] = {Config: {"seeds"}, MethodSpec: {"method", "params"}}
LESS: dict[type, set[str]] = {MethodSpec: {"recipe"}, SplitSpec: {"name"}}


def _model(entry: Any) -> ModelSpec:
    if isinstance(entry, str):
        return ModelSpec(entry, public(entry))
    given = Reader(entry, "an entry of models", ModelSpec)
    return ModelSpec(given.text("id"), public(given.text("name", given.text("id"))), given.table("options") or {})


def _method(entry: Any, seeds: tuple[int, ...]) -> MethodSpec:
    if isinstance(entry, str):
        return MethodSpec(entry, Recipe(entry), seeds)
    given = Reader(entry, "an entry of methods", MethodSpec)
    recipe = Recipe(given.text("method"), given.table("params") or {})
    name, budgets = given.text("name", given.text("method")), given.whole_numbers("budgets", ())
    if budgets and recipe.method.returns != "mask":
        raise WhymaskError(f"{name!r} has budgets, but {recipe.name} does not return a mask.")
    return MethodSpec(
        name, recipe, given.whole_numbers("seeds", seeds), budgets, given.one_of("target", None, ("given",))
    )


def _split(name: str, entry: Any, made: Collection[str]) -> SplitSpec:
    given = Reader(entry, f"the split {name!r}", SplitSpec)
    manifest = given.text("manifest", None)
    if manifest is None and name not in made:
        source = next((source for source, names in SOURCES.items() if name in names), None)
        raise WhymaskError(f"the split {name!r} needs {f'{source!r} or ' if source else ''}a manifest.")
    usual = "high" if name.lower().startswith(("repair", "repope")) else "ins"
    return SplitSpec(name, given.one_of("emphasis", usual, EMPHASES), manifest, given.whole("draw", None, 1))


def _questions(entry: Mapping[str, Any]) -> Questions:
    given = Reader(entry, "[questions]", Questions)
    made = Questions(
        given.text("file", None),
        given.text("images", None),
        given.whole("scenes", None, 1),
        given.one_of("sampling", Questions.sampling, get_args(Sampling)),
        given.one_of("prompt", Questions.prompt, PROMPTS),
    )
    if (made.file is None) == (made.scenes is None) or (made.file is None) != (made.images is None):
        raise WhymaskError("[questions] needs a file and the folder of its images, or a number of scenes.")
    return made


def _photos(entry: Mapping[str, Any]) -> Photos:
    given = Reader(entry, "[photos]", Photos)
    return Photos(
        given.text("source"),
        given.whole("correct", Photos.correct, 0),
        given.whole("wrong", Photos.wrong, 0),
        given.whole("seed", Photos.seed, 0),
    )
