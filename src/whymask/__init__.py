"""Which few regions of an image are enough for a vision model's answer.

Names are loaded when they are first used, so that importing the package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError

if TYPE_CHECKING:
    from whymask.api import explain, explain_many, replay
    from whymask.metrics.curves import Curves
    from whymask.models.registry import load, wrap
    from whymask.repaired import Repair
    from whymask.repairing import repair
    from whymask.results import EvidenceMask, Ordering

__version__ = "0.1.0"
METHOD = "discs+swap"  # the default, because of docs/results/masks.md
__all__ = [
    "METHOD",
    "Curves",
    "EvidenceMask",
    "Ordering",
    "Repair",
    "WhymaskError",
    "__version__",
    "explain",
    "explain_many",
    "load",
    "repair",
    "replay",
    "wrap",
]

_HOME = {
    "repair": "whymask.repairing",
    "Repair": "whymask.repaired",
    "explain": "whymask.api",
    "explain_many": "whymask.api",
    "replay": "whymask.api",
    "load": "whymask.models.registry",
    "wrap": "whymask.models.registry",
    "Curves": "whymask.metrics.curves",
    "EvidenceMask": "whymask.results",
    "Ordering": "whymask.results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'whymask' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
