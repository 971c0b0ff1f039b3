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
    with pytest.raises(WhymaskError, match=r"own.py:bright: unknown option 'size'; known: scale\.$"):
        whymask.load(f"{file}:bright", size=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import numpy\n\ndef bright(:\n    pass\n", r"own\.py, line 3: SyntaxError: invalid syntax$"),
        ("import numpy\n\nnumpy.nothing\n", r"own\.py, line 3: AttributeError: module 'numpy' has no attribute"),
        ("import no_such_package\n", r"own\.py, line 1: ModuleNotFoundError: No module named 'no_such_package'$"),
        (
            "import json\n\n\ndef bright():\n    x = 1\n    return json.loads('{')\n",
            r"own\.py, line 6: JSONDecodeError: Expecting",
        ),
        ("bright = 'a\0b'\n", r"own\.py(, line 1)?: \w+: source code string cannot contain null bytes$"),
        ("def bright():\n    raise ValueError('two\\nlines')\n", r"own\.py, line 2: ValueError: two lines$"),
    ],
)
def test_an_error_in_the_file_is_one_line_that_says_where(text, words, file, monkeypatch):
    file.write_text(text)
    monkeypatch.chdir(file.parent)
    for name in (f"{file}:bright", "own.py:bright"):
        with pytest.raises(WhymaskError, match=words) as caught:
            whymask.load(name)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is not None


def test_an_error_about_what_the_function_uses_is_passed_on(file):
    file.write_text("import whymask\n\n\ndef bright():\n    return whymask.load('no such thing')\n")
    with pytest.raises(WhymaskError, match=r"^unknown model 'no such thing'"):
        whymask.load(f"{file}:bright")
