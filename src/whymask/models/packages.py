"""Packages that may be missing, and the folder for files that are computed once."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from whymask.errors import WhymaskError


def optional(name: str) -> Any:
    """The module, or None where it is missing or (as torchvision beside another torch) cannot be imported."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError):
        return None


def required(name: str, message: str) -> Any:
    """The module; this message is the error where there is none."""
    module = optional(name)
    if module is None:
        raise WhymaskError(message)
    return module


def cache_folder() -> Path:
    """Where computed files are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whymask"
