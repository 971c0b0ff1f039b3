"""Several answers by one search, the words of a text, and one answer against another."""

import json

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError
from whymask.explainer.words import SINGLE, marked, role, spans
from whymask.results import EvidenceMasks
from whymask.results.base import Explanation

from models.talker import Talker
from models.tiny import lit, quadrants

rng = np.random.default_rng(0)
PHOTO = Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
LABELS = ["north west", "north east", "south west", "south east"]


def quarters(images):
    """The brightness of every quarter, as probabilities of four labels that do not exclude each other."""
    shown = images.reshape(len(images), 2, 32, 2, 32, 3).mean(axis=(2, 4, 5)) / 255
    return shown.reshape(len(images), 4)


def model():
    return whymask.wrap(quarters, labels=LABELS, size=64)


OPTIONS = {"regions": "grid:8x8", "fill": "black"}


def test_each_answer_has_the_mask_and_score_of_its_own():
    found = whymask.explain(PHOTO, model(), answers=LABELS, k=16, **OPTIONS)
    assert isinstance(found, EvidenceMasks)
    assert [mask.target.label for mask in found] == LABELS
    for number, mask in enumerate(found):
        shown = np.where(mask.mask[..., None], np.asarray(PHOTO), 0).astype(np.uint8)
        assert mask.score == pytest.approx(quarters(shown[None])[0, number], abs=1e-12)
        row, column = divmod(number, 2)
        inside = mask.mask.reshape(2, 32, 2, 32)[row, :, column]
        # A quarter is 16 regions. Other answers' searches say little about it; three quarters of it must be found.
        assert inside.sum() >= 0.75 * mask.mask.sum()
        assert mask.full_score == pytest.approx(quarters(np.asarray(PHOTO)[None])[0, number])


def test_the_ledger_counts_every_image_once():
    sent = []

    def counted(images):
        sent.append(len(images))
        return quarters(images)

    wrapped = whymask.wrap(counted, labels=LABELS, size=64)
    found = whymask.explain(PHOTO, wrapped, answers=LABELS[:3], k=16, **OPTIONS)
    assert sum(sent) == found.ledger.mec + found.ledger.stage("probe")[1]
    assert found.ledger.mec <= 2 * 160
    for mask in found:
        assert mask.ledger.mec <= found.ledger.mec
        assert mask.provenance["together"] == {"answers": 3, "forwards": found.ledger.mec}


def test_the_likeliest_classes():
    found = whymask.explain(PHOTO, model(), top=2, k=16, **OPTIONS)
    order = np.argsort(-quarters(np.asarray(PHOTO)[None])[0])
    assert [mask.target.index for mask in found] == order[:2].tolist()
    assert found.prediction == LABELS[order[0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"top": 5}, "top is 5, but the number of answers of function is 4"),
        ({"top": 2, "answers": ["north west"]}, "pass top=5"),
        ({"answers": "north west"}, "a list of answers"),
        ({"top": 2, "method": "trace"}, "leave method out"),
        ({"top": 2, "keep": "answer"}, "keep a share"),
        ({"top": 2, "target": 0}, "leave target and against out"),
        ({"answers": []}, "a list of answers"),
        ({"answers": 5}, "a list of answers"),
        ({"against": 1, "target": 1}, "are both 'north east'"),
        ({"against": 1, "target": 0, "keep": "answer"}, "keep a share"),
    ],
)
def test_what_does_not_fit_together_is_an_error(options, words):
    with pytest.raises(WhymaskError, match=words):
        whymask.explain(PHOTO, model(), **{"k": 16, **OPTIONS} | options)


def test_answers_that_score_the_same_count_once():
    found = whymask.explain(PHOTO, model(), answers=["north west", 1, "north east", "NORTH WEST", 3], k=16, **OPTIONS)
    assert [mask.target.index for mask in found] == [0, 1, 3]


@pytest.mark.parametrize("options", [{"k": 4}, {}, {"k": 16, "fill": ["black", "mean"]}])
@pytest.mark.parametrize("budget", [None, 1, 10, 30])
@pytest.mark.parametrize("wanted", [{"answers": LABELS}, {"top": 2}])
def test_the_ledger_is_what_was_sent(options, budget, wanted):
    sent = []

    def counted(images):
        sent.append(len(images))
        return quarters(images)

    wrapped = whymask.wrap(counted, labels=LABELS, size=64)
    found = whymask.explain(
        PHOTO, wrapped, budget=budget, **wanted, **{"regions": "grid:4x4", "fill": "black"} | options
    )
    assert sum(sent) == found.ledger.mec + found.ledger.stage("probe")[1]
    assert budget is None or found.ledger.mec <= budget
    for mask in found:
        assert mask.ledger.mec <= found.ledger.mec


def test_the_ledger_of_words_is_what_was_sent():
    scene, wrapped = _scene()
    sent, logits = [], wrapped.logits
    wrapped.logits = lambda inputs, bounds: sent.append(len(inputs)) or logits(inputs, bounds)
    found = whymask.explain_words(scene, wrapped, text="a red tree", question="Describe the image.", k=4, **OPTIONS)
    assert sum(sent) == found.ledger.mec + found.ledger.stage("probe")[1]


def test_against_another_answer():
    """The margin: regions that show the rival cost as much as those of the answer gain."""
    bright = np.full((64, 64, 3), 250, dtype=np.uint8)
    bright[:32, 32:] = 200

    def sums(images):
        both = quarters(images)
        return np.stack([(both[:, 0] + both[:, 1]) / 2, both[:, 1]], axis=1)

    wrapped = whymask.wrap(sums, labels=["north", "north east"], size=64)
    plain = whymask.explain(bright, wrapped, target="north", k=16, **OPTIONS)
    found = whymask.explain(bright, wrapped, target="north", against="north east", k=16, **OPTIONS)
    assert found.score == pytest.approx(250 / 255 / 2)  # all of the north west, and nothing of the north east
    assert found.mask[:32, :32].all()
    assert not found.mask[:32, 32:].any()
    assert found.full_score == pytest.approx((250 - 200) / 255 / 2)
    assert found.provenance["against"] == "north east"
    assert "scores 0.10 more than 'north east'" in str(found)
    assert plain.full_score > found.full_score


def test_gradients_explain_one_answer():
    with pytest.raises(WhymaskError, match="leave against out"):
        whymask.explain(lit(2), quadrants(), target=0, against=1, method="grad-cam", regions="grid:2x2")


def test_an_ordering_against_another_answer_is_replayed_so():
    found = whymask.explain(PHOTO, model(), target=0, against=1, method="greedy", regions="grid:2x2", fill="black")
    assert whymask.replay(found, model()).insertion[-1] == pytest.approx(found.full_score, abs=1e-12)
    assert found.full_score < quarters(np.asarray(PHOTO)[None])[0, 0]


def test_other_answers_are_neither_of_the_two():
    found = whymask.explain(PHOTO, model(), target=0, against=1, null=2, k=4, **OPTIONS)
    assert set(found.controls.null) == {"south west", "south east"}
    named = whymask.explain(PHOTO, model(), target=0, against=1, null=[1, 2], k=4, **OPTIONS)
    assert set(named.controls.null) == {"south west"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ledger", {"stages": {"init": {"suff": {"nominal": -5, "mec": -1.5}}}}),
        ("ledger", None),
        ("regions", [-1]),
        ("target", {"index": "x", "label": 3}),
    ],
)
def test_a_damaged_file_is_an_error(name, value, tmp_path):
    found = whymask.explain(PHOTO, model(), answers=LABELS[:2], k=16, **OPTIONS)
    damaged = _changed(found, tmp_path, name, value)
    with pytest.raises(WhymaskError, match="not a saved explanation"):
        Explanation.load(damaged)


def test_what_masks_share_is_read_once(tmp_path):
    found = whymask.explain(PHOTO, model(), answers=LABELS[:2], k=16, **OPTIONS)
    for name, value in (("box", [0, 0, 5, -1]), ("photo_size", [2**30, 2**30]), ("complete", "no")):
        again = Explanation.load(_changed(found, tmp_path, name, value))
        assert again.as_dict() == found.as_dict()
        assert again[0].photo_mask().shape == (64, 64)


def _changed(found, folder, name, value):
    """The file of a result in whose first mask one entry was changed."""
    with np.load(found.save(folder / "whole.npz")) as file:
        arrays = dict(file)
    header = json.loads(str(arrays.pop("header")))
    header["each"][0][name] = value
    np.savez_compressed(folder / "changed.npz", header=np.array(json.dumps(header)), **arrays)
    return folder / "changed.npz"


def test_several_answers_are_saved_and_loaded(tmp_path):
    found = whymask.explain(PHOTO, model(), answers=LABELS[:2], k=16, **OPTIONS)
    again = Explanation.load(found.save(tmp_path / "two.npz"))
    assert again.as_dict() == found.as_dict() == json.loads(json.dumps(found.as_dict()))
    assert str(again) == str(found)
    np.testing.assert_array_equal(again["north east"].mask, found[1].mask)
    assert again.savefig(tmp_path / "two.png").exists()
    assert len(found.heatmap()) == 64
    assert found.as_dict()["each"][0]["rle"]["size"] == [64, 64]


def test_words_of_a_text():
    text = "A cat's paw is left of the red-brown dog."
    found = [(text[a:b], function) for a, b, function in spans(text)]
    content = [word for word, function in found if not function]
    assert content == ["cat's", "paw", "left", "red-brown", "dog"]
    assert [word for word, function in found if function] == ["A", "is", "of", "the"]
    assert marked(text, spans(text)[1]) == "A [[cat's]] paw is left of the red-brown dog."


@pytest.mark.parametrize(
    "word", ["हिन्दी", "สวัสดี", "cafe\u0301", "3.5", "cat\u2019s", "red-brown", "snake_case", "Straße"]
)
def test_a_word_is_whole_in_any_script(word):
    text = f"({word}), {word}."
    assert [text[a:b] for a, b, _ in spans(text)] == [word, word]


def test_neighbours_are_one_target_in_a_long_text():
    text = " and ".join(["small red mug, green"] * SINGLE)
    content = [text[a:b] for a, b, function in spans(text) if not function]
    assert content == ["small red mug", "green"] * SINGLE
    text = "dog " * (2 * SINGLE)
    assert {text[a:b] for a, b, _ in spans(text)} == {"dog dog dog dog"}  # no more than four


@pytest.mark.parametrize(
    ("full", "blank", "expected"),
    [(0.9, 0.1, "content"), (0.9, 0.8, "prior"), (0.04, 0.0, "unlikely"), (0.5, 0.39, "content"), (0.5, 0.41, "prior")],
)
def test_the_role_of_a_word(full, blank, expected):
    (span,) = spans("cat")
    assert role(span, full, blank) == expected


def test_only_words_that_the_image_moves_have_masks(tmp_path):
    scene, wrapped = _scene()
    found = whymask.explain_words(scene, wrapped, question="Describe the image.", k=8, **OPTIONS)
    assert found.text == found.target.label
    content = [word for word in found.words if word.role == "content"]
    assert [word.mask for word in content] == list(found.each)
    for word in found.words:
        assert found.text[word.start : word.end] == word.text
        assert (word.mask is None) == (word.role != "content")
        assert word.sentence
    spoken = wrapped.dialogue.tokenizer(found.text, add_special_tokens=False, return_offsets_mapping=True)
    for word, saved in zip(found.words, found.as_dict()["words"], strict=True):
        own = [i for i, (a, b) in enumerate(spoken["offset_mapping"]) if a < word.end and word.start < b]
        assert own
        assert [*word.tokens] == saved["tokens"] == own
    assert 0 < len(content) < len(found.words)
    again = Explanation.load(found.save(tmp_path / "words.npz"))
    assert again.as_dict() == found.as_dict()
    assert str(again) == str(found)
    assert again.savefig(tmp_path / "words.png").exists()


def test_the_score_of_a_word_is_its_probability_after_those_before_it():
    scene, wrapped = _scene()
    text = "a red tree above a yellow plate"
    found = whymask.explain_words(scene, wrapped, text=text, question="Describe the image.", k=8, **OPTIONS)
    for word in found.words:
        target = f"{text[: word.start]}[[{word.text}]]{text[word.end :]}"
        bound = wrapped.bind(scene, target=target, question="Describe the image.")
        alone = wrapped.respond(bound.inputs[None], [bound]).score[0]
        assert word.full_score == pytest.approx(alone, rel=1e-4)
        if word.mask is not None:
            shown = np.where(word.mask.mask[..., None], scene, 0).astype(np.uint8)
            bound = wrapped.bind(shown, target=target, question="Describe the image.")
            assert word.mask.score == pytest.approx(wrapped.respond(bound.inputs[None], [bound]).score[0], rel=1e-3)


def _scene():
    pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")
    from whymask.images.described import described

    return described("test", 0).pixels, whymask.load("tiny-caption")


@pytest.mark.parametrize("text", ["", "...", "a [[red]] tree", "a [red] tree", 5, ["a", "tree"]])
def test_a_text_without_words_or_with_marks_is_an_error(text):
    scene, wrapped = _scene()
    with pytest.raises(WhymaskError, match="a sentence in plain words"):
        whymask.explain_words(scene, wrapped, text=text, question="Describe the image.", **OPTIONS)


def test_a_model_without_words():
    with pytest.raises(WhymaskError, match="function has no words to explain"):
        whymask.explain_words(PHOTO, model(), **OPTIONS)


def test_a_model_that_scores_one_answer_at_a_time():
    with pytest.raises(WhymaskError, match="scores one answer at a time"):
        whymask.explain(PHOTO, Talker(), question="?", answers=["Yes", "No"], k=4, **OPTIONS)
