"""A registry by name: things of the package, registered ones, and those of installed packages (entry points)."""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar

from whymask.errors import WhymaskError


class Named(Protocol):
    """What can be registered."""

    @property
    def name(self) -> str:
        """What it is looked up by."""


T = TypeVar("T", bound=Named)


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to things of one kind.

    The entry points of `group` are loaded when a name is not known yet, or when all names are asked for. One that
    cannot be loaded costs only itself: it is reported by a warning.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind, self.group = kind, group
        self._things: dict[str, T] = {}
        self._loading = self._complete = False
        self._lock = RLock()

    def add(self, thing: T) -> T:
        """Register a thing; a name that another one has raises an error.

        The same definition may come again, as in a notebook cell that is run twice: the later one counts.
        """
        known = self._things.get(thing.name, thing)
        if known is not thing and _origin(known) != _origin(thing):
            raise WhymaskError(f"there is already a {self.kind} called {thing.name!r}.")
        self._things[thing.name] = thing
        return thing

    def more(self) -> Iterable[T]:
        """Things of the package that are imported only when they are needed."""
        return ()

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self._load()
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter([*self._things])

    def __len__(self) -> int:
        self._load()
        return len(self._things)

    def _load(self) -> None:
        with self._lock:  # other threads wait until all names are there
            if self._complete or self._loading:  # what is loaded may look names up
                return
            self._loading = True
            self._things |= {thing.name: thing for thing in self.more()}
            for point in entry_points(group=self.group):
                try:
                    self.add(point.load())
                except Exception as error:  # of any package
                    problem = f"{type(error).__name__}: {error}"
                    warnings.warn(
                        f"the {self.kind} {point.name!r} ({point.value}) cannot be loaded: {problem}", stacklevel=3
                    )
            self._complete = True


def _origin(thing: Any) -> tuple[str, str]:
    """Where the function or class of a thing is defined."""
    code = getattr(thing, "loader", thing)
    return getattr(code, "__module__", ""), getattr(code, "__qualname__", str(code))
