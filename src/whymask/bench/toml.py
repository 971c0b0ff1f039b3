"""Dataclasses from TOML tables. The names, types and defaults of the fields say what a table may hold."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from whymask.errors import WhymaskError, unknown
from whymask.search.limits import check

T = TypeVar("T")


def parse(
    kind: type[T],
    table: Any,
    where: str,
    usual: Mapping[str, Any] | None = None,
    others: Collection[str] = (),
    **given: Any,
) -> T:
    """The dataclass that a table describes, or an error of one line.

    Args:
        kind: the dataclass.
        table: its options, or a text: the first option that it requires.
        where: what errors call the table.
        usual: defaults other than those of the dataclass.
        others: keys of the table that are read elsewhere.
        given: fields that are not options.
    """
    options = _options(kind, given)
    required = [name for name, needed in options.items() if needed]
    if isinstance(table, str) and required:
        table = {required[0]: table}
    if not isinstance(table, Mapping):
        raise WhymaskError(f"{where} must be a table{_number(table)}.")
    known = {*options, *others}
    for key in table:
        if key not in known:
            raise unknown(f"key in {where}:", key, known)
    table = {**(usual or {}), **table}
    for name in required:
        if name not in table:
            raise WhymaskError(f"{where} needs {name!r}.")
    hints = get_type_hints(kind, include_extras=True)
    return kind(**given, **{name: _value(name, table[name], hints[name], where) for name in table if name in options})


def _options(kind: Any, given: Collection[str]) -> dict[str, bool]:
    """The fields of a dataclass that a table may set, and whether it must."""
    own = [field for field in fields(kind) if field.init and field.name not in given]
    return {field.name: field.default is field.default_factory is MISSING for field in own}


def _value(name: str, value: Any, hint: Any, where: str) -> Any:
    """The value of a field, if it has the field's type."""
    kind = get_args(hint)[0] if NoneType in get_args(hint) else hint
    form = get_origin(kind) or kind
    if form is tuple:
        if not isinstance(value, list | tuple) or not value:
            of = "whole numbers" if int in get_args(get_args(kind)[0]) else "values"
            raise WhymaskError(f"{name} in {where} must be a list of {of}{_number(value)}.")
        return tuple(_value(f"each of {name}", each, get_args(kind)[0], where) for each in value)
    wanted = {str: (str, "text"), Path: (str | Path, "text"), Literal: (str, "text"), Mapping: (Mapping, "a table")}
    if form in wanted:
        right, called = wanted[form]
        if not isinstance(value, right):
            raise WhymaskError(f"{name} in {where} must be {called}{_number(value)}.")
    if form is Literal or form not in wanted:
        check(name, value, hint)
    return Path(value) if form is Path else value


def _number(value: Any) -> str:
    """The number that was given instead; texts and lists are not repeated, as they may hold secrets."""
    return f", not {value!r}" if isinstance(value, int | float) else ""
