"""Allowed values of stage parameters: declared in each signature, and validated before any forward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from whymask.errors import WhymaskError, unknown, whole
from whymask.search.objective import OBJECTIVES, Objective


@dataclass(frozen=True)
class In:
    """A number in an interval; ends that do not belong to it are open."""

    low: float
    high: float
    open: str = ""  # "(" the lower end, ")" the upper one

    def __call__(self, name: str, value: Any) -> None:
        """Raise an error for another value."""
        above = self.low < value if "(" in self.open else self.low <= value
        below = value < self.high if ")" in self.open else value <= self.high
        if not (above and below):
            raise WhymaskError(f"{name} must {self}, not {value}.")

    def __str__(self) -> str:
        if self.high == inf:
            return f"be {'more than' if '(' in self.open else 'at least'} {self.low:g}"
        first, last = "(" if "(" in self.open else "[", ")" if ")" in self.open else "]"
        return f"lie in {first}{self.low:g}, {self.high:g}{last}"


NonNegative: TypeAlias = Annotated[int, partial(whole, least=0)]
Count: TypeAlias = Annotated[int, partial(whole, least=1)]
Several: TypeAlias = Annotated[int, partial(whole, least=2)]
Share: TypeAlias = Annotated[float, In(0, 1)]
Proportion: TypeAlias = Annotated[float, In(0, 1, "(")]  # not nothing
Fraction: TypeAlias = Annotated[float, In(0, 1, "()")]  # neither nothing nor all
Rest: TypeAlias = Annotated[float, In(0, 1, ")")]  # not all
Positive: TypeAlias = Annotated[float, In(0, inf, "()")]
Weight: TypeAlias = Annotated[float, In(0, inf, ")")]


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "True or False"),
    int: (lambda value: isinstance(value, Integral) and _number(value), "a whole number"),
    float: (lambda value: _number(value) and isfinite(value), "a finite number"),
    Objective: (
        lambda value: isinstance(value, str | Objective) or _number(value),
        f"one of {', '.join(OBJECTIVES)}, an alpha, or an Objective",
    ),
}
NAME: tuple[Callable[[Any], bool], str] = (lambda value: isinstance(value, str), "a name")  # one of a Literal


def check(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that is not of a parameter's type, or is outside the limits written into it."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if value is None and NoneType in options:
        return
    limits = getattr(options[0], "__metadata__", ())
    kind = get_args(options[0])[0] if limits else options[0]
    fits, wanted = TYPES.get(kind, NAME)
    if not fits(value):
        raise WhymaskError(f"{name} must be {wanted}, not {value!r}.")
    if kind is Objective:
        Objective.of(value)
    elif get_origin(kind) is Literal and value not in get_args(kind):
        raise unknown(name, value, get_args(kind))
    for limit in limits:
        limit(name, value)
