"""Which few regions of an image are enough for a vision model's answer.

Names are loaded when they are first used, so that importing the package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError
from whymask.version import __version__

if TYPE_CHECKING:
    from whymask.api import explain, explain_many, register, repair, replay
    from whymask.explainer.explainer import Explainer, Settings
    from whymask.metrics.curves import Curves
    from whymask.models.own import wrap
    from whymask.models.registry import load
    from whymask.results.mask import EvidenceMask
    from whymask.results.ordering import Ordering
    from whymask.results.repair import Repair
    from whymask.search.stage import stage

__all__ = [
    "METHOD",
    "Curves",
    "EvidenceMask",
    "Explainer",
    "Ordering",
    "Repair",
    "Settings",
    "WhymaskError",
    "__version__",
    "explain",
    "explain_many",
    "load",
    "register",
    "repair",
    "replay",
    "stage",
    "wrap",
]

_HOME = {
    "register": "whymask.api",
    "repair": "whymask.api",
    "stage": "whymask.search.stage",
    "Explainer": "whymask.explainer.explainer",
    "Settings": "whymask.explainer.explainer",
    "Repair": "whymask.results.repair",
    "explain": "whymask.api",
    "explain_many": "whymask.api",
    "replay": "whymask.api",
    "load": "whymask.models.registry",
    "wrap": "whymask.models.own",
    "Curves": "whymask.metrics.curves",
    "EvidenceMask": "whymask.results.mask",
    "METHOD": "whymask.methods",
    "Ordering": "whymask.results.ordering",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'whymask' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
