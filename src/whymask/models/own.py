"""A user's own model by name: FILE.py:FUNCTION, a function that returns a model or anything `wrap` takes."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from whymask.errors import unknown
from whymask.models.base import Model


def load(name: str, **options: Any) -> Model:
    """Run the file and call its function with the options."""
    path, _, function = name.rpartition(":")
    file = Path(path)
    module_name = f"whymask_own_{file.stem}"
    spec = spec_from_file_location(module_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickles look there
    spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        known = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        raise unknown(f"function of {file}", function, known)
    made = getattr(module, function)(**options)
    if hasattr(made, "bind") and hasattr(made, "respond"):
        model: Model = made
        return model
    from whymask.models.registry import wrap

    return wrap(made)
