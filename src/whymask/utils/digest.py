"""Short hashes."""

import hashlib
import json
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    """A short hash of plain values, the same in every process.

    Numbers (numpy's too), texts, None, and lists, tuples and dictionaries of them are plain; others are a TypeError.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=_number).encode()).hexdigest()[:16]


def is_plain(value: Any) -> bool:
    """Whether `digest` takes the value."""
    try:
        digest(value)
    except (TypeError, ValueError):  # another kind; a list that contains itself
        return False
    return True


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is not a plain value.")
