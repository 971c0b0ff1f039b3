"""Results in the output of a notebook's cell."""

from importlib import import_module
from typing import Any


def displayed_in_notebook(result: object) -> bool:
    """Display a result as the output of a cell; False where this runs in no notebook."""
    try:
        shell: Any = import_module("IPython").get_ipython()
    except ImportError:
        return False
    if not hasattr(shell, "kernel"):  # there is none, or one in a terminal, which shows no pictures
        return False
    import_module("IPython.display").display(result)
    return True
