"""Explanations as files: one .npz of arrays and JSON, without pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from whymask.errors import WhymaskError
from whymask.files import atomic
from whymask.models.base import Target
from whymask.objective import Ledger
from whymask.partition import Partition
from whymask.repaired import Repair
from whymask.results import SCHEMA, EvidenceMask, Explanation, Ordering, Scene

KINDS: dict[str, type[EvidenceMask | Ordering]] = {kind.kind: kind for kind in (EvidenceMask, Ordering, Repair)}


def write(explanation: Explanation, path: str | PathLike[str]) -> Path:
    """Write everything into one file; an interrupted one leaves none."""
    target = Path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    scene = explanation.scene
    arrays: dict[str, Any] = {
        "photo": scene.photo,
        "canvas": scene.canvas,
        "fill": scene.fill,
        "labels": scene.partition.labels,
    }
    if isinstance(explanation, Ordering) and explanation.map is not None:
        arrays["map"] = explanation.map
    header = json.dumps(explanation.as_dict())
    with atomic(target) as file:
        np.savez_compressed(file, header=np.array(header), **arrays)
    return target


def read(path: str | PathLike[str]) -> EvidenceMask | Ordering:
    """What `write` wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            header = json.loads(str(stored["header"]))
            arrays = {name: stored[name] for name in ("photo", "canvas", "fill", "labels")}
            optional = {name: stored[name] for name in ("map",) if name in stored}
            schema = header["schema"]
    except FileNotFoundError:
        raise WhymaskError(f"there is no file {path}.") from None
    except (OSError, ValueError, TypeError, KeyError, EOFError, TokenError, zipfile.BadZipFile, zlib.error):
        raise WhymaskError(f"{path} is not a saved explanation.") from None
    if schema != SCHEMA:
        raise WhymaskError(f"{path} has schema {schema}; this version reads schema {SCHEMA}.")
    try:
        found = _explanation(header, arrays, optional)
        json.dumps([str(found), found.as_dict()], allow_nan=False)  # what does not fit together fails here
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise WhymaskError(f"{path} is not a saved explanation.") from None
    return found


def _explanation(header: dict[str, Any], arrays: dict[str, Any], optional: dict[str, Any]) -> EvidenceMask | Ordering:
    """The result that a file's header and arrays describe."""
    values = header["label_values"]
    scene = Scene(
        photo=arrays["photo"],
        canvas=arrays["canvas"],
        fill=arrays["fill"],
        box=tuple(header["box"]),
        partition=Partition(
            arrays["labels"], header["provenance"]["regions"], None if values is None else tuple(values)
        ),
        target=Target(**header["target"]),
        prediction=header["prediction"],
        full_score=header["full_score"],
        blank_score=header["blank_score"],
    )
    common = {
        "scene": scene,
        "ledger": Ledger.from_dict(header["ledger"]),
        "provenance": {"method": header["provenance"]["method"], **header["provenance"]},
        "complete": header["complete"],
    }
    return KINDS[header["kind"]].restore(header, common | optional)
