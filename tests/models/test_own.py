import numpy as np
import pytest

import whymask
from whymask import WhymaskError

FILE = """
from dataclasses import dataclass

import whymask


@dataclass
class Scale:
    by: float = 1.0


def bright(scale=1.0):
    by = Scale(scale).by
    return lambda images: by * images.mean(axis=(1, 2, 3)) / 255


def named():
    return whymask.wrap(bright(), name="mine")
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(FILE)
    return path


def test_what_the_function_returns_is_wrapped_unless_it_is_a_model(file):
    assert whymask.load(f"{file}:named").name == "mine"
    bright = whymask.load(f"{file}:bright", scale=0.5)
    white = bright.bind(np.full((2, 2, 3), 255, np.uint8))
    assert bright.respond(white.inputs[None], [white]).score.tolist() == [0.5]


def test_what_is_missing_is_named(file):
    with pytest.raises(WhymaskError, match=r"unknown function of .*own.py 'brigt'; did you mean 'bright'\?"):
        whymask.load(f"{file}:brigt")
    with pytest.raises(WhymaskError, match=r"there is no file none.py"):
        whymask.load("none.py:bright")
    with pytest.raises(WhymaskError, match="unexpected keyword argument 'size'"):
        whymask.load(f"{file}:bright", size=3)
