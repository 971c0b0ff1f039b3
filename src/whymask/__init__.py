"""Which few regions of an image are enough for a vision model's answer.

Names are loaded when they are first used, so that importing the package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError
from whymask.version import __version__

if TYPE_CHECKING:
    from whymask.api import check, explain, explain_many, explain_words, register, repair, replay
    from whymask.explainer.explainer import Explainer
    from whymask.explainer.settings import Settings
    from whymask.metrics.curves import Curves
    from whymask.models.own import wrap
    from whymask.models.registry import load
    from whymask.results import EvidenceMask, EvidenceMasks, Ordering, Repair, Word
    from whymask.results.frame import to_frame
    from whymask.search.stage import stage

__all__ = [
    "METHOD", "Curves", "EvidenceMask", "EvidenceMasks", "Explainer", "Ordering", "Repair", "Settings", "WhymaskError",
    "Word", "__version__",
    "check", "explain", "explain_many", "explain_words", "load", "register", "repair", "replay", "stage", "to_frame",
    "wrap",
]  # fmt: skip

_NAMES = {
    "whymask.api": ("check", "explain", "explain_many", "explain_words", "register", "repair", "replay"),
    "whymask.explainer.explainer": ("Explainer",),
    "whymask.explainer.settings": ("Settings",),
    "whymask.methods": ("METHOD",),
    "whymask.metrics.curves": ("Curves",),
    "whymask.models.own": ("wrap",),
    "whymask.models.registry": ("load",),
    "whymask.results": ("EvidenceMask", "EvidenceMasks", "Ordering", "Repair", "Word"),
    "whymask.results.frame": ("to_frame",),
    "whymask.search.stage": ("stage",),
}


def __dir__() -> list[str]:
    """The public names, for completion: they are there before they are loaded."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'whymask' has no attribute {name!r}")
    if module in ("whymask.api", "whymask.explainer.explainer", "whymask.results"):
        import_module("whymask.views.notebook")  # results show the viewer in notebooks
    return getattr(import_module(module), name)
