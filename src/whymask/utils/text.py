"""Labels, questions and answers for display: they come from models and files, and may hold anything."""

import re
from typing import Any

CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
DIRECTIONS = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def displayed(text: str) -> str:
    r"""The text without control characters and without those that change the direction of the text around them.

    Half of a character (a lone surrogate, as of a file name that is not UTF-8) is replaced.

    >>> displayed("tabby\u202e cat\n")
    'tabby cat '
    """
    return DIRECTIONS.sub("", CONTROLS.sub(" ", text)).encode("utf-8", "replace").decode()


def shortened(text: str, most: int = 40) -> str:
    """The text as `displayed`, of at most this many characters.

    >>> shortened("a bird on a wire", 9)
    'a bird...'
    """
    text = displayed(text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def all_displayed(value: Any) -> Any:
    """A JSON value with every text in it as `displayed`."""
    if isinstance(value, str):
        return displayed(value)
    if isinstance(value, dict):
        return {all_displayed(name): all_displayed(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [all_displayed(one) for one in value]
    return value
