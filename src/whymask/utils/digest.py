"""Short hashes."""

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """A short hash of plain values, the same in every process."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
