"""What a benchmark run measures: models, splits, methods and seeds, from a TOML file.

Paths are relative to where the command runs.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from whymask.bench.toml import parse
from whymask.data.sources import SOURCES, Place, Source
from whymask.errors import WhymaskError
from whymask.explainer.settings import Settings
from whymask.images.imaging import Resize
from whymask.images.masking import fills_of
from whymask.methods import Recipe
from whymask.search.limits import Count, NonNegative
from whymask.search.objective import OverFills
from whymask.utils.redact import public, secrets_in

EMPHASES = {"ins": "insertion_auc", "high": "high", "repair": "repaired", "score": "score"}
Spec = TypeVar("Spec", "ModelSpec", "MethodSpec")


@dataclass(frozen=True)
class ModelSpec:
    """A model as `whymask models` names it, and what it is called in tables."""

    id: str
    name: str = ""  # by default the id
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", public(self.name or self.id))

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

    method: str
    name: str = ""  # by default the method
    params: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[NonNegative, ...] = (0,)
    budgets: tuple[NonNegative, ...] = ()  # the mask's score is also recorded after each of these numbers of forwards
    target: Literal["given"] | None = None  # the search is for the model's own answer: a control
    recipe: Recipe = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.method)
        object.__setattr__(self, "seeds", tuple(dict.fromkeys(self.seeds)))
        object.__setattr__(self, "recipe", Recipe(self.method, self.params))
        if self.budgets and self.recipe.method.returns != "mask":
            raise WhymaskError(f"{self.name!r} has budgets, but {self.recipe.name} does not return a mask.")


@dataclass(frozen=True)
class SplitSpec:
    """A manifest, or a split that a source makes; all of it, or a part that is drawn."""

    name: str
    emphasis: Literal["ins", "high", "repair", "score"] = "ins"  # the column that decides
    manifest: str | None = None
    draw: Count | None = None


@dataclass(frozen=True)
class Config:
    """A benchmark: every method with every seed on every split of every model."""

    out: Path
    models: tuple[ModelSpec, ...]
    splits: tuple[SplitSpec, ...]
    methods: tuple[MethodSpec, ...]
    sources: Mapping[str, Source]  # by name
    seeds: tuple[NonNegative, ...] = (0,)  # of methods that name none
    regions: str = "slico:64"
    fill: str = "black"  # also several, "black,blur", or "several"
    over_fills: OverFills = "mean"
    fills: tuple[str, ...] = ()  # what was found is scored on these too
    resize: Resize = "own"
    budget: NonNegative | None = None
    batch_size: Count | None = None
    together: Count = 16  # samples searched at the same time
    keep: Literal["masks"] | None = None  # what figures of evidence need besides the records

    @property
    def case(self) -> dict[str, Any]:
        """How images are bound and divided."""
        several = {"over_fills": self.over_fills} if len(fills_of(self.fill)) > 1 else {}
        names = ("regions", "fill", "resize", "batch_size")
        return {name: getattr(self, name) for name in names} | several

    @property
    def place(self) -> Place:
        """What the sources need to know of the run."""
        return Place(self.out, {split.name for split in self.splits if split.manifest is None}, self.resize)


def read_config(path: str | Path) -> Config:
    """The configuration of a file; unknown keys, methods and parameters raise an error."""
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
    table = {"out": f"runs/{name}", **table}
    sources = {key: parse(kind, table[key], f"[{key}]") for key, kind in SOURCES.items() if key in table}
    given = {"models": _entries(table, "models", ModelSpec), "splits": _splits(table.get("splits"), sources)}
    others = {*given, *SOURCES, "methods"}
    made = parse(Config, table, "the configuration", None, others, **given, methods=(), sources=sources)
    for fill in (made.fill, *made.fills):
        Settings(regions=made.regions, fill=fill)  # raises an error where one of them is unknown
    return replace(made, methods=_entries(table, "methods", MethodSpec, seeds=made.seeds))


def _entries(table: Mapping[str, Any], key: str, kind: type[Spec], **usual: Any) -> tuple[Spec, ...]:
    entries = table.get(key)
    if not isinstance(entries, list) or not entries:
        raise WhymaskError(f"the configuration needs a list of {key}.")
    specs = tuple(parse(kind, entry, f"an entry of {key}", usual) for entry in entries)
    _no_name_twice([spec.name for spec in specs], key)
    return specs


def _no_name_twice(names: list[str], kind: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise WhymaskError(f"two {kind} are called {twice!r}; give one another name.")


def _splits(table: Any, sources: Mapping[str, Source]) -> tuple[SplitSpec, ...]:
    """The splits of a table; without one, all that the sources make by default."""
    makes = [(name, source) for source in sources.values() for name in source.makes]
    _no_name_twice([name for name, _ in makes], "splits of sources")
    if table is None:
        table = {name: {} for name, source in makes if name not in source.optional}
    if not isinstance(table, Mapping):
        raise WhymaskError("splits in the configuration must be a table.")
    if not table:
        raise WhymaskError(
            f"the configuration names nothing to explain: give it {', '.join(f'[{key}]' for key in SOURCES)}, or "
            "[splits] with manifests."
        )
    made = {name: source.makes[name] for name, source in makes}
    return tuple(_split(name, entry, made) for name, entry in table.items())


def _split(name: str, entry: Any, made: Mapping[str, str]) -> SplitSpec:
    """A split of the configuration, given the splits that its sources make and their emphases."""
    usual = made.get(name) or ("high" if name.lower().startswith(("repair", "repope")) else "ins")
    split = parse(SplitSpec, entry, f"the split {name!r}", {"emphasis": usual}, name=name)
    if split.manifest is None and name not in made:
        source = next((f"{key!r} or " for key, kind in SOURCES.items() if name in kind.makes), "")
        raise WhymaskError(f"the split {name!r} needs {source}a manifest.")
    return split
