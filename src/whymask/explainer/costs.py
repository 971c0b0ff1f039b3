"""What explanations cost where forwards are requests, and what their searches may still spend."""

from collections.abc import Sequence
from typing import Any

from whymask.errors import ExhaustedError
from whymask.images.controls import UNUSED
from whymask.models.base import Model
from whymask.models.spending import Purse, Spends, Spent
from whymask.search.driver import Search, SearchResult


def costs(model: Model, spent: Spent) -> dict[str, Any]:
    """What was spent on a result, for the provenance."""
    return {"spending": spent.as_dict(model.spending.price)} if isinstance(model, Spends) else {}


def unknown_cost(model: Model) -> bool:
    """Whether a forward is needed to know how many more of them the limits allow."""
    return isinstance(model, Spends) and not model.spending.known


def affordable(searches: Sequence[Search]) -> Purse | None:
    """What searches of one model may still spend: what is left without the requests that their results need.

    Those that have begun come first; others for whose results nothing is left are stopped.
    """
    model = searches[0].about.model
    if not isinstance(model, Spends) or model.spending.left is None:
        return None
    purse = Purse(int(model.spending.left / model.spending.each), model.spending.per_request)
    for search in sorted(searches, key=lambda search: not search.oracle.ledger.mec):
        needed = result_images(len(search.fills), search.recipe.parameters.get("alternatives", 0)) * search.about.times
        if search.oracle.ledger.mec or purse.images > needed:
            purse.pay(needed)
        elif not search.result:
            search.stop()
    return purse


def none_left(found: SearchResult) -> ExhaustedError | None:
    """The error to raise where a limit of its model kept a search from starting."""
    model = found.about.model
    if found.complete or found.ledger.mec or not isinstance(model, Spends) or model.spending.left is None:
        return None
    return model.spending.exhausted()


def result_images(fills: int, alternatives: int = 0) -> int:
    """The most images that a result needs besides its search: whole, blank, masks and their rests, and controls."""
    return fills * (2 + 2 * (1 + alternatives) + 2) + UNUSED
