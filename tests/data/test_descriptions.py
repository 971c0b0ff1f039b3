import numpy as np
import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.data.base import Place
from whymask.data.descriptions import Descriptions
from whymask.images.described import described, plan
from whymask.images.sentences import QUESTION, judge, read, sentence

from models.talker import Talker


class Teller(Talker):
    """Says these sentences, one for each scene in turn."""

    labels = tuple(sentence(plan("test", number)) for number in range(6))

    def __init__(self, sentences):
        super().__init__()
        self.sentences = iter(sentences)

    def generate(self, inputs, bounds, tokens):
        return [next(self.sentences) for _ in inputs]


def splits(tmp_path, sentences, *names):
    place, source = Place(tmp_path, names), Descriptions(scenes=len(sentences))
    samples = source.read(place)
    assert [sample.image for sample in samples] == [f"described:{number}" for number in range(len(sentences))]
    return source.splits(samples, Teller(sentences), place)


def test_true_sentences_give_all_their_words(tmp_path):
    true = [sentence(plan("test", number)) for number in range(3)]
    found = splits(tmp_path, true, "words", "misread", "unsupported")
    assert found["misread"] == found["unsupported"] == []
    assert [s.target.replace("[[", "").replace("]]", "") for s in found["words"]] == [
        text for text in true for _ in read(text)
    ]
    assert {s.question for s in found["words"]} == {QUESTION}
    assert len({s.id for s in found["words"]}) == len(found["words"])


def test_a_word_has_the_mask_of_what_it_refers_to(tmp_path):
    truth = sentence(plan("test", 0))
    for sample, one in zip(splits(tmp_path, [truth])["words"], judge(read(truth), plan("test", 0)), strict=True):
        assert f"[[{truth[one.word.start : one.word.end]}]]" in sample.target
        drawn = np.asarray(Image.open(sample.mask))
        np.testing.assert_array_equal(drawn > 0, described("test", 0).mask(one.groups))


def test_words_that_are_wrong_are_kept_apart(tmp_path):
    (group, *_) = plan("test", 2).groups  # one group
    other = "blue" if group.colour != "blue" else "red"
    wrong = sentence(plan("test", 2)).replace(group.colour, other) + " above a red kite"
    found = splits(tmp_path, ["no sentence", "nor this", wrong], "words", "misread", "unsupported")
    assert [s.target[s.target.index("[[") :] for s in found["misread"]] == [f"[[{other}]]" + wrong.split(other, 1)[1]]
    assert [s.mask for s in found["unsupported"]] == [None] * 4  # above, a, red, kite
    assert all(s.mask for s in found["words"])
    assert {s.id.split("-")[0] for s in found["words"]} == {"2"}


def test_a_model_without_words_is_refused(tmp_path):
    class Mute:
        name, fingerprint, settings = "mute", "mute", {}

    place, source = Place(tmp_path), Descriptions(scenes=1)
    with pytest.raises(WhymaskError, match="generates text, not mute"):
        source.splits(source.read(place), Mute(), place)
