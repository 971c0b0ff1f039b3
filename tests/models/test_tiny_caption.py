"""The checkpoint that describes scenes."""

import json
import math

import pytest

pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import whymask
from whymask import WhymaskError
from whymask.images.described import plan
from whymask.images.sentences import QUESTION, judge, read
from whymask.models.tiny import CHECKPOINTS

FOLDER = CHECKPOINTS / "tiny-caption"
TOLD = json.loads((FOLDER / "training.json").read_text())


@pytest.fixture(scope="module")
def model():
    return whymask.load("tiny-caption")


def test_ships_as_plain_tensors_of_at_most_four_megabytes():
    assert {file.suffix for file in FOLDER.iterdir()} <= {".safetensors", ".json", ".jinja"}
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 4e6


def test_the_accuracy_told_is_the_accuracy_found(model):
    """Of nouns and colours, on the first of the scenes that training was tested on."""
    right = {"noun": [], "colour": []}
    for number in range(12):
        text = model.answer(f"described:{number}", QUESTION, tokens=14)
        for one in judge(read(text), plan("test", number)):  # a sentence of the grammar
            if one.word.kind in right:
                right[one.word.kind].append(one.verdict == "right")
    for kind, found in right.items():
        told = TOLD["test"][kind]["accuracy"]
        assert abs(sum(found) / len(found) - told) < 3 * math.sqrt(max(told * (1 - told), 0.01) / len(found))


def test_a_noun_of_its_sentence_is_explained(model):
    text = model.answer("described:0", QUESTION, tokens=14)
    noun = next(word for word in read(text) if word.kind == "noun")
    target = f"{text[: noun.start]}[[{text[noun.start : noun.end]}]]{text[noun.end :]}"
    mask = whymask.explain(
        "described:0", model, question=QUESTION, target=target, method="discs+swap", k=4, regions="grid:4x4"
    )
    assert mask.image.full_score > 0
    assert len(mask.regions) == 4


def test_other_questions_are_refused(model):
    with pytest.raises(WhymaskError, match="no token for 'What' in tiny-caption"):
        model.answer("described:0", "What is this?")
