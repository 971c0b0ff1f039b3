"""Labels that hold control characters, directions, formulas or a book change nothing but their own text."""

import re

import pytest
from matplotlib.text import Text

import whymask
from whymask.utils.text import displayed
from whymask.views.report import report

from models.tiny import lit, quadrants

CONTROLS = "".join(map(chr, [*range(32), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x200F, 0x2028, 0x2029,
                             *range(0x202A, 0x202F), *range(0x2066, 0x206A)]))  # fmt: skip
LABELS = [f"cat{CONTROLS}dog", "\u202e0.41 \u05e9\u05dc\u05d5\u05dd", r"$\frac{$", "word " * 40_000]


@pytest.fixture(params=LABELS, ids=["controls", "override", "formula", "long"])
def evidence(request):
    model = quadrants()
    model.labels[0] = request.param
    return whymask.explain(lit(0), model, regions="grid:2x2", k=1)


def without_controls(text):
    return not set(text) & set(CONTROLS)


def test_plain_text(evidence):
    assert without_controls(str(evidence))


def test_figures(evidence, tmp_path):
    figure = evidence.figure()
    figure.savefig(tmp_path / "figure.png")  # a character without a glyph is a warning, a wrong formula an error
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert all(without_controls(text.replace("\n", "")) for text in texts)
    assert max(map(len, texts)) < 1000


def test_reports(evidence):
    page = report([evidence], ["trace"])
    assert without_controls(re.search("<title>(.*)</title>", page)[1])
    data = re.search(r'"target":\{[^}]*\}', page)[0]
    assert not re.search(r"\\u(00[0189]|061c|200[ef]|202[89a-e]|206[6-9])", data)


def test_other_text_stays_as_it_is():
    text = 'Is there a "cup"? \u05db\u05d5\u05e1 \u0643\u0648\u0628 \u8336 \U0001f375 a\u200db'
    assert displayed(text) == text
