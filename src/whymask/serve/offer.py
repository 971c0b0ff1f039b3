"""What the page offers: models, methods by what they answer, fills."""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from whymask.methods import METHOD, OF_SIZE, Method, methods
from whymask.models.registry import Ability
from whymask.serve.request import CHOICES, MAX_ALTERNATIVES, MAX_BYTES

EVERYTHING = get_args(Ability)
RANKING = "discs+swap+lean"  # the default for all regions: near greedy's orderings for a third of its forwards
QUESTIONS = ("fewest", "exactly", "rank")


def page_options(models: Collection[str], abilities: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """What the page offers. Made when the server starts: listing parameters imports what the methods need."""

    def can(model: str) -> set[str]:
        return set(abilities.get(model, EVERYTHING))

    listed = [
        {
            "name": method.name,
            "answers": answered(method),
            "group": group(method),
            "summary": method.summary,
            "k": "k" in method.parameters,
            "share": "share" in method.parameters,
            "models": [name for name in models if method.abilities <= can(name)],
        }
        for method in methods()
        if not method.name.endswith("+others")  # these are offered as further masks
    ]
    return {
        "models": list(models),
        "asked": [name for name in models if "question" in can(name)],  # those that answer questions
        "must_ask": [name for name in models if "question" in can(name) and "caption" not in can(name)],
        "methods": listed,
        "usual": dict(zip(QUESTIONS, (METHOD, OF_SIZE, RANKING), strict=True)),
        "fills": CHOICES,
        "max_bytes": MAX_BYTES,
        "max_alternatives": MAX_ALTERNATIVES,
    }


def answered(method: Method) -> str:
    """Which of the page's questions a method answers."""
    if method.returns == "ordering":
        return "rank"
    return "exactly" if "k" in method.parameters else "fewest"


def group(method: Method) -> str:
    """The heading under which the page lists a method."""
    if method.needs == "gradients":
        return "Published baselines that use gradients"
    if method.baseline:
        return "Published baselines"
    if "+" not in method.name:
        return "Searches"
    return "A mask, made better or ordered" if method.returns == "mask" else "A mask first, then all other regions"
