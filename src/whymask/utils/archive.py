"""Reads the arrays of an .npz file that may come from anywhere: every size is checked before memory is spent on it."""

import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from math import prod
from os import PathLike
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

ERRORS = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, EOFError, MemoryError,
    RecursionError, RuntimeError, SyntaxError, TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a damaged or hostile file may raise in zipfile, zlib, numpy and json."""
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
FRAME = 2**14  # bytes of a file or an array besides its data


class DamagedError(ValueError):
    """The parts of a file do not fit together."""


def require(good: bool, problem: str) -> None:
    """Raise a `DamagedError` unless all is good."""
    if not good:
        raise DamagedError(problem)


def read_arrays(path: str | PathLike[str], limits: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """The arrays of a file.

    Args:
        path: the file.
        limits: the names that are looked for, each with the most bytes its data may have.
    """
    require(Path(path).stat().st_size <= sum(limits.values()) + len(limits) * FRAME, "it is too large")
    require(Path(path).is_file(), "it is not a regular file")
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        require(len(members) == len(archive.infolist()), "it holds two arrays of one name")
        found = {name: members[f"{name}.npy"] for name in limits if f"{name}.npy" in members}
        for name, info in found.items():
            require(info.file_size <= limits[name] + FRAME, f"its {name} is too large")
            supported = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            require(supported, f"its {name} uses an unsupported compression")
        return {name: _array(_content(archive, info)) for name, info in found.items()}


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a member, as many as it says; `archive.read` would unpack all there are and cut them off then."""
    with archive.open(info) as opened:
        return opened.read(info.file_size)


def _array(data: bytes) -> NDArray[Any]:
    file = BytesIO(data)
    shape, fortran, dtype = HEADERS[np.lib.format.read_magic(file)](file)
    rest = memoryview(data)[file.tell() :]
    fits = not dtype.hasobject and prod(shape) * dtype.itemsize == len(rest)
    require(fits, "an array does not have the size it declares")
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C").copy()
