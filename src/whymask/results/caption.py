"""What the captions of all figures have in common."""

from collections.abc import Iterable, Sequence

from whymask.results.base import Explanation
from whymask.results.verdict import IN_ITS_PLACE, Controls
from whymask.utils.text import displayed


def quoted(text: str) -> str:
    """A label, question or answer in a sentence."""
    return f"\u201c{displayed(text)}\u201d"


def listed(texts: Iterable[str]) -> str:
    """Texts as a list: a, b and c."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def size(regions: Sequence[int], result: Explanation) -> str:
    """How many regions these are, and how much they cover."""
    area = float(result.image.partition.areas[list(regions)].sum())
    return f"{len(regions)} of {result.n} regions ({area:.1%} of what the model sees)"


def checks(blank_score: float, controls: Controls | None) -> str:
    """The controls of a mask."""
    scores = [f"{blank_score:.2f} on a blank image"]
    if controls is not None:
        fills, others = controls.fills.items(), controls.null.items()
        scores.append(f"{controls.flat:.2f} with a flat colour inside its outline")
        scores.append(f"{controls.shuffled:.2f} with shuffled pixels there")
        scores += [f"{score:.2f} with {IN_ITS_PLACE.get(name, name)} for the rest" for name, score in fills]
        scores += [f"the same search reaches {score:.2f} for {quoted(name)}" for name, score in others]
    return f"Controls: {'; '.join(scores)}."


def made(result: Explanation) -> str:
    """How a result was made."""
    settings = result.provenance
    asked = f", asked {quoted(settings['question'])}" if settings.get("question") else ""
    named = {name: settings.get(name) for name in ("regions", "fill", "seed")}
    listing = "".join(f", {name} {displayed(str(value))}" for name, value in named.items() if value is not None)
    early = "" if result.complete else " (the budget ended the search early)"
    model, method = (displayed(str(settings.get(name))) for name in ("model", "method"))
    return f"Model: {model}{asked}. Search: {method}{listing}; {result.ledger.mec} forwards{early}."
