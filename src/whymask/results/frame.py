"""Many results as one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError
from whymask.results.base import Explanation

if TYPE_CHECKING:
    import pandas as pd

PROVENANCE = ("model", "method", "question", "seed", "seconds")


def to_frame(results: Iterable[Explanation | tuple[int, Explanation]]) -> pd.DataFrame:
    """A pandas table with a row per result; what a result does not have is missing in its row.

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
    table = pd.DataFrame([_row(result) for _, result in pairs], index=[number for number, _ in pairs])
    return table.sort_index()


def _row(result: Explanation) -> dict[str, Any]:
    """The values of a result that fit into a cell."""
    values = result.as_dict()
    plain = {name: value for name, value in values.items() if isinstance(value, str | int | float | None)}
    verdict = {"verdict": values["verdict"]["code"]} if "verdict" in values else {}
    chosen = {name: values[name] for name in ("regions", "order") if values.get(name)}
    about = {name: result.provenance.get(name) for name in PROVENANCE}
    return {"target": result.target.label, **verdict, **plain, **chosen, "forwards": result.ledger.mec, **about}
