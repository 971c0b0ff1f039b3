"""Results with several masks wherever results are listed."""

from dataclasses import replace

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.results.base import Explanation
from whymask.results.masks_figure import COLOURS
from whymask.views.document import document
from whymask.views.index import Entry, index_page
from whymask.views.report import report

from cli.command import whymask_command
from views.spoken import LIGHT, NUMBERS, TEXT, answers, spoken
from views.test_document import decoded


@pytest.fixture(scope="module")
def found():
    return spoken()


def test_a_document_has_the_text_in_pieces(found):
    (entry,) = document([found], ["a"])["explanations"]
    between = entry["between"]
    words = [word["text"] for word in entry["words"]]
    assert "".join(piece + word for piece, word in zip(between, [*words, ""], strict=True)) == TEXT
    assert entry["colours"] == [*COLOURS]
    assert entry["title"] == TEXT
    (entry,) = document([answers(2)], ["a"])["explanations"]
    assert (entry["title"], entry["between"]) == ("One, two", [""])


def test_words_cannot_break_out(found):
    nasty = "</script><script>alert(1)</script>"
    words = (replace(found.words[0], text=nasty, start=0, end=len(nasty)),)
    page = report([replace(found, text=nasty, words=words)], ["a"])
    assert "<script>alert" not in page


@pytest.mark.parametrize("order", [(1, 0), (0, 0)])
def test_words_out_of_place_are_not_loaded(found, tmp_path, order):
    """A small file must not become a large page by words that hold each other's text."""
    words = tuple(found.words[i] for i in order)
    with pytest.raises(WhymaskError, match="after those before it"):
        Explanation.load(replace(found, words=words).save(tmp_path / "words.npz"))


def test_a_card_of_the_index_shows_all_masks(found):
    page = index_page([Entry("a.png", found, "a-words.png")], "One")
    shown = decoded(page.split('<img src="')[1].split('"')[0]).astype(int)
    height, width = shown.shape[:2]
    centres = [shown[height * (2 * (i // 4) + 1) // 8, width * (2 * (i % 4) + 1) // 8].mean() for i in range(16)]
    lit = [bool(seen > 0.7 * light) for seen, light in zip(centres, LIGHT, strict=True)]
    assert lit == [i < 9 for i in range(16)]
    assert f"<span>{TEXT}</span>" in page


def test_a_table_has_a_row_per_word_and_per_answer(found):
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = whymask.to_frame([found, answers(2), answers(2)[0]])
    assert [*table.index] == [0] * len(found.words) + [1, 1, 2]
    words = table.loc[0]
    assert [*words.word] == [word.text for word in found.words]
    assert [*words.role] == [word.role for word in found.words]
    assert (words.target == TEXT).all()
    np.testing.assert_array_equal(words.full_score, [word.full_score for word in found.words])
    assert [*words.score.dropna()] == [mask.score for mask in found]
    assert [*words.verdict.dropna()] == [mask.verdict.code for mask in found]
    assert [*table.loc[1].target] == NUMBERS[:2]
    assert [*table.loc[1].score] == [mask.score for mask in answers(2)]


def test_a_report_of_saved_files_by_the_command(tmp_path, found):
    found.save(tmp_path / "words.npz")
    found[0].save(tmp_path / "mask.npz")
    whymask_command("report", tmp_path, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '"kind":"masks"' in page
    assert '"name":"words"' in page


def test_it_is_named_by_its_text(found):
    assert repr(found).startswith(f"<EvidenceMasks of {TEXT[:20]!r}"[:-1])
    assert repr(answers(2)).startswith("<EvidenceMasks of 'One, two'")
