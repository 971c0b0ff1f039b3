from itertools import pairwise

import numpy as np
import pytest

from whymask.models.chat.tokens import said, spans

TEXTS = ["a red cup", "Yes", "42", "It's  3.50 €, 禁止停车!", "naïve 🙂 ok", " a\nnew line ", "aa a aa"]


def decoded(parts):
    """Bytes of tokens as servers show them: what is no whole character is not readable."""
    return [part.decode(errors="replace") for part in parts]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seed", range(12))
def test_tokens_stand_for_their_own_characters(text, seed):
    """Whatever bytes a text is cut into, a token stands for all characters that it holds a readable part of."""
    random = np.random.default_rng(seed)
    raw = text.strip().encode()
    places = sorted({0, len(raw), *random.integers(0, len(raw) + 1, random.integers(0, 12)).tolist()})
    parts = [raw[a:b] for a, b in pairwise(places)]
    if seed % 2:  # some tokenizers drop the spaces of a single token
        parts = [part.strip() or part for part in parts]
    found = spans(text.strip(), decoded(parts))
    assert found is not None
    assert len(found) == len(parts)
    assert all(a <= b for a, b in found)
    assert [a for a, _ in found] == sorted(a for a, _ in found)
    for (a, b), piece in zip(found, decoded(parts), strict=True):
        if "\ufffd" not in piece:
            assert text.strip()[a:b] == piece.strip()
    covered = {i for a, b in found for i in range(a, b)}
    assert covered >= {i for i, character in enumerate(text.strip()) if not character.isspace()}


def test_where_the_parts_of_a_character_are_empty():
    """Some servers show a character with its last token alone; a token of the space before a text shows nothing too."""
    assert spans("你 2", ["", "", "你", " 2"]) == [(0, 1), (0, 1), (0, 1), (2, 3)]
    assert spans("42", ["", "4", "2"]) == [(0, 0), (0, 1), (1, 2)]


@pytest.mark.parametrize(
    "pieces", [["Yes", "."], ["No"], ["Ye"], [""], [" "], [], ["Yes", "<|im_end|>"], ["\ufffd", "No"]]
)
def test_tokens_that_spell_something_else(pieces):
    assert spans("Yes", pieces) is None


def numbered(*pieces):
    return [*enumerate(pieces)]


def test_an_answer_is_found_from_the_end_of_a_prompt():
    prompt = numbered("<image>", "<image>", "Yes", "?", "ASSISTANT", ":", " Yes", ",", " it", " is")
    found = said("Yes, it is", prompt)
    assert found.ids == (6, 7, 8, 9)
    assert found.spans == ((0, 3), (3, 4), (5, 7), (8, 10))
    assert said("is", prompt).ids == (9,)  # no longer than the text


def test_a_first_character_of_several_tokens():
    assert said("你 2", numbered(":", "\ufffd", "\ufffd", "\ufffd", " 2")).ids == (1, 2, 3, 4)
    assert said("你 2", numbered(":", "", "", "你", " 2")).ids == (1, 2, 3, 4)


@pytest.mark.parametrize("end", [["<|im_end|>"], ["<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]])
def test_a_server_that_ends_the_turn_does_not_continue_it(end):
    assert said("Yes", numbered("?", "assistant", "\n", "Yes", *end)) is None
