"""How much of the hostile input is run: a sample of it, or with WHYMASK_HOSTILE=full everything."""

import os
from itertools import islice

FULL = os.environ.get("WHYMASK_HOSTILE") == "full"


def sample(items, every=5):
    """All items, or every fifth of them."""
    return islice(items, 0, None, 1 if FULL else every)
