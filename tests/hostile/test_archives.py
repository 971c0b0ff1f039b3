import os
import time
import tracemalloc
import warnings
from io import BytesIO

import pytest

from whymask import WhymaskError
from whymask.results.base import Explanation
from whymask.views.document import thumbnail
from whymask.views.report import report

from hostile.archives import archives, crafted
from hostile.sample import FULL

FINE = {
    "good", "label-words", "label-math", "label-controls", "label-surrogate", "regions-none", "labels-big-endian",
    "goal-without-most", "map-half", "photo-line", "photo-pixel", "photo-fortran", "more", "answer-math", "no-map",
}  # fmt: skip
"""Crafted files that are odd and yet results."""


def used(path, draw=True):
    """Whether the file is a result; then it can be shown everywhere."""
    problem, found = "", None
    try:
        found = Explanation.load(path)
    except WhymaskError as error:
        problem = str(error)
    assert "\n" not in problem
    assert len(problem) < 300
    if found is None:
        return False
    assert thumbnail(found.image.photo)
    assert report([found], ["x"]).encode()
    if draw:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that the font does not have
            found.figure().savefig(BytesIO(), format="png", dpi=40)
    return True


def test_hostile_files_are_refused_or_shown(tmp_path):
    file = tmp_path / "x.npz"
    for name, data in archives(500 if FULL else 300):
        file.write_bytes(data)
        start = time.process_time()
        shown = used(file, draw=FULL or "math" in name)
        assert not FULL or time.process_time() - start < 5, name
        if not name[0].isdigit():
            assert shown == any(name.startswith(fine) for fine in FINE), name


def test_sizes_are_checked_before_memory_is_spent(tmp_path):
    large = {"bomb", "bomb-header", "bomb-lying", "photo-huge", "shape-huge"}
    file = tmp_path / "x.npz"
    for name, data in crafted():
        if name in large:
            file.write_bytes(data)
            tracemalloc.start()
            assert not used(file)
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert most < 20_000_000, name
            large.remove(name)
    assert not large


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    for path in (tmp_path / "pipe.npz", tmp_path / "folder.npz", "a\0b", tmp_path / ("x" * 5000)):
        with pytest.raises(WhymaskError):
            Explanation.load(path)
