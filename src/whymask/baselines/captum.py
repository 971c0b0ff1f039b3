"""captum, where it is installed."""

from typing import Any

from whymask.errors import WhymaskError
from whymask.models.packages import optional


def attr() -> Any:
    """captum's attribution methods."""
    module = optional("captum.attr")
    if module is None:
        raise WhymaskError("this method needs captum: pip install 'whymask[gradients]'.")
    return module
