"""The one exception users meet: its message is a sentence that says what to change."""

from collections.abc import Iterable
from difflib import get_close_matches


class WhymaskError(ValueError):
    """Something the caller can mend."""


def unknown(kind: str, name: str, known: Iterable[str]) -> WhymaskError:
    """An error for a name that does not exist, with the closest one that does."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}."
    return WhymaskError(f"unknown {kind} {name!r}; {hint}")
