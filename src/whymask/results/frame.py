"""Many results as one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError
from whymask.results.base import Explanation
from whymask.results.masks import EvidenceMasks
from whymask.results.words import Word

if TYPE_CHECKING:
    import pandas as pd

PROVENANCE = ("model", "method", "question", "seed", "seconds")


def to_frame(results: Iterable[Explanation | tuple[int, Explanation]]) -> pd.DataFrame:
    """A pandas table with a row per result; what a result does not have is missing in its row.

    A result for several answers has a row per answer, one for the words of a text a row per word, in that order.

    Args:
        results: results, or the pairs of `whymask.explain_many`, whose numbers become the index.
    """
    try:
        import pandas as pd
    except ImportError:
        raise WhymaskError("to_frame needs pandas: pip install pandas.") from None
    pairs = [one if isinstance(one, tuple) else (number, one) for number, one in enumerate(results)]
    if not all(isinstance(result, Explanation) for _, result in pairs):
        raise WhymaskError("to_frame takes the results of whymask.explain, whymask.explain_many or whymask.repair.")
    rows = [(number, row) for number, result in pairs for row in _rows(result)]
    table = pd.DataFrame([row for _, row in rows], index=[number for number, _ in rows])
    return table.sort_index(kind="stable")


def _rows(result: Explanation) -> list[dict[str, Any]]:
    """A row, or one for each word or answer."""
    if not isinstance(result, EvidenceMasks):
        return [_row(result)]
    if result.text is None:
        return [_row(mask) for mask in result]
    return [_word_row(result, word) for word in result.words]


def _word_row(result: EvidenceMasks, word: Word) -> dict[str, Any]:
    """The values of a word, and of its mask where it has one."""
    own = {name: getattr(word, name) for name in ("role", "full_score", "blank_score", "support")}
    found = _about(result) if word.mask is None else _row(word.mask)
    return found | {"target": result.text, "word": word.text} | own


def _row(result: Explanation) -> dict[str, Any]:
    """The values of a result that fit into a cell."""
    values = result.as_dict()
    plain = {name: value for name, value in values.items() if isinstance(value, str | int | float | None)}
    verdict = {"verdict": values["verdict"]["code"]} if "verdict" in values else {}
    chosen = {name: values[name] for name in ("regions", "order") if values.get(name)}
    target, forwards = result.target.label, result.ledger.mec
    return {"target": target, **verdict, **plain, **chosen, "forwards": forwards, **_about(result)}


def _about(result: Explanation) -> dict[str, Any]:
    """The provenance of a result."""
    return {name: result.provenance.get(name) for name in PROVENANCE}
