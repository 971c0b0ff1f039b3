import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.data.pope import Question
from whymask.explainer.answers import PLAIN, VQA, answer_all, begins, pope_cases, repope_cases, yes_or_no

from models.talker import BRIGHT, Talker


def test_an_answer_begins_with_a_whole_word():
    assert begins(" yes, it is", "Yes")
    assert begins("No.", "no")
    assert not begins("Not at all", "No")
    assert not begins("I see no dog", "No")
    assert [yes_or_no(text) for text in ("YES!", "no", "", "maybe")] == ["Yes", "No", None, None]


@pytest.fixture
def folder(tmp_path):
    """A scene that misleads, one that does not, and one that leaves the talker undecided."""
    calm, odd = BRIGHT.copy(), BRIGHT.copy()
    calm[16:, 16:] = 0
    odd[:16], odd[:, 16:] = 0, 0
    for name, image in {"misleading": BRIGHT, "calm": calm, "odd": odd}.items():
        Image.fromarray(image).save(tmp_path / f"{name}.png")
    return tmp_path


def asked(label):
    names = ("misleading", "calm", "odd", "misleading")
    return [Question(i, f"{name}.png", "Is there a dog?", label) for i, name in enumerate(names)]


def test_case_lists(folder):
    answered = list(answer_all(Talker("well..."), asked("no"), folder, prompt=PLAIN, batch_size=3))
    assert [one.answer for one in answered] == ["Yes", "No", "well...", "Yes"]
    assert [one.mistake for one in answered] == ["false_yes", None, None, "false_yes"]
    # POPE explains what was said, RePOPE what should have been; what is neither yes nor no belongs to neither list.
    assert [(one.question.number, target) for one, target in pope_cases(answered)] == [
        (0, "Yes"),
        (1, "No"),
        (3, "Yes"),
    ]
    assert [(one.question.number, target) for one, target in repope_cases(answered)] == [(0, "No"), (3, "No")]


def test_one_image_too_many(folder):
    class Full(Talker):
        def bind(self, *args, **options):
            raise MemoryError

    with pytest.raises(WhymaskError, match="one image does not fit into memory"):
        list(answer_all(Full(), asked("no"), folder, prompt=PLAIN))


def test_false_no(folder):
    answered = list(answer_all(Talker(), asked("yes"), folder, prompt=PLAIN))
    assert [one.mistake for one in answered] == [None, "false_no", "false_no", None]
    assert {target for _, target in repope_cases(answered)} == {"Yes"}


def test_the_prompt_asks_for_yes_or_no(folder):
    class Hears(Talker):
        def bind(self, image, *, question=None, **options):
            self.heard = question
            return super().bind(image, question=question, **options)

    model = Hears()
    (one,) = answer_all(model, asked("no")[:1], folder)
    assert one.prompt == model.heard == VQA.format(question="Is there a dog?")
    assert "Question: Is there a dog?\nAnswer:" in one.prompt


def test_missing_images_are_named(folder):
    with pytest.raises(WhymaskError, match="there is no image folder"):
        list(answer_all(Talker(), asked("no"), folder / "photos"))
