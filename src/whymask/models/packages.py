"""Packages that a model family can use and the project does not need."""

from importlib import import_module
from typing import Any


def optional(name: str) -> Any:
    """The module, or None where it is missing or (as torchvision beside another torch) cannot be imported."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError):
        return None
