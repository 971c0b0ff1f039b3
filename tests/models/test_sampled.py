"""Servers that show no probabilities: a score is a share of answers."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")

pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import whymask
from whymask import WhymaskError
from whymask.explainer.case import Case
from whymask.explainer.responder import Responder
from whymask.methods import Recipe
from whymask.models.sampled import AnsweringModel, rightness
from whymask.search.driver import drive
from whymask.search.measured import interval

from models.chat_servers import serve_model
from models.serving import decode, serving
from models.tiny import lit

QUESTION = "Is there a light?"


def chat(answer, most=None):
    """A chat server: `answer(pixels, number)` is the text of the number-th answer; it gives at most `most` at once."""
    count = iter(range(10**6))

    def reply(body):
        content = body["messages"][-1]["content"]
        pixels = decode(content[0]["image_url"]["url"].partition(",")[2])
        number = body.get("n", 1)
        if most == "refuses" and "n" in body:
            return 400, {}, {"error": {"message": "n is not supported"}}
        if most == "at most 4" and number > 4:
            return 422, {}, {"error": {"message": "n must be at most 4"}}
        texts = [answer(pixels, next(count)) for _ in range(1 if most == 1 else number)]
        choices = [{"index": i, "message": {"role": "assistant", "content": text}} for i, text in enumerate(texts)]
        return {"choices": choices, "usage": {"prompt_tokens": 5, "completion_tokens": 2 * len(texts)}}

    return serving(reply)


def made(log, **options):
    return AnsweringModel("m", base_url=log.url, api_key="", max_side=32, **options)


def respond(model, target="Yes", times=1):
    bound = model.bind(lit(0), target=target, question=QUESTION)
    return model.respond(np.stack([bound.inputs] * times), [bound] * times).score


@pytest.mark.parametrize(("most", "each"), [(None, 8), ("at most 4", 4), (1, 1), ("refuses", 1)])
def test_a_score_is_the_share_of_right_answers(most, each):
    with chat(lambda _, number: "Yes, there is." if number % 4 else "No.", most) as log:
        model = made(log, samples=8, concurrency=1)
        assert model.at_once == each
        before = len(log.bodies)
        assert respond(model, times=3).tolist() == [0.75, 0.75, 0.75]
        asked = 3 * 8 // each
        assert asked <= len(log.bodies) - before <= 1.1 * asked + 1  # a late request may be sent again
        body = log.bodies[-1]
        assert body["temperature"] == 1
        assert body.get("n") == (each if each > 1 else None)
        assert not body.keys() & {"logprobs", "top_logprobs", "seed"}


def test_without_a_target_the_models_likeliest_answer_is_explained():
    with chat(lambda *_: "A bright square.") as log:
        model = made(log, samples=2)
        bound = model.bind(lit(0), question=QUESTION)
        assert (bound.target.label, bound.probes) == ("A bright square.", 1)
        assert log.bodies[-1]["temperature"] == 0
        assert model.respond(bound.inputs[None], [bound]).score.tolist() == [1.0]
        assert model.answer(lit(0), QUESTION) == "A bright square."


@pytest.mark.parametrize(
    ("said", "wanted", "score"),
    [
        ("YES!", "yes", 1),
        ("Yesterday", "yes", 0),
        ("no, not yes", "yes", 0),
        ("", "yes", 0),
        ("a dog on a sofa", "A dog on a sofa.", 1),
        ("a dog", "a dog on a sofa", 4 / 7),
        ("nothing here", "a dog on a sofa", 0),
        ("I see one dog", "a [[dog]] on a sofa", 1),
        ("I see one cat", "a [[dog]] on a sofa", 0),
        ("ein Hündchen", "Hündchen", 0),
        ("猫 です", "猫", 1),
    ],
)
def test_how_right_an_answer_is(said, wanted, score):
    assert rightness(said, wanted) == pytest.approx(score)


def test_the_scorer_may_be_ones_own():
    with chat(lambda *_: "two lights") as log:
        seen = []

        def scorer(answer, wanted):
            seen.append((answer, wanted))
            return 0.25

        assert respond(made(log, samples=4, scorer=scorer), "one light").tolist() == [0.25]
        assert seen == [("two lights", "one light")] * 4
        for wrong in (1.5, -0.1, float("nan")):
            with pytest.raises(WhymaskError, match=r"the scorer must return a number in \[0, 1\]"):
                respond(made(log, samples=1, scorer=lambda *_, wrong=wrong: wrong))


def test_fingerprints_know_how_scores_are_measured():
    with chat(lambda *_: "Yes") as log:
        models = [made(log), made(log, samples=4), made(log, temperature=0.5), made(log, scorer=rightness)]
        assert len({model.fingerprint for model in models}) == 4
        assert made(log).fingerprint == models[0].fingerprint
        assert "16 answers" in models[0].settings["scores"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "answers have to vary"),
        ({"samples": 0}, "samples"),
        ({"tokens": 0}, "tokens"),
        ({"reported": 0}, "reported"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(WhymaskError, match=message):
        AnsweringModel("m", base_url="http://localhost:1", **options)


@pytest.mark.parametrize(
    "reply", [{}, {"choices": []}, {"choices": [{"message": {"content": None}}]}, {"choices": "x"}]
)
def test_replies_without_an_answer(reply):
    with serving(lambda _: reply) as log, pytest.raises(WhymaskError, match="returned no answer of m"):
        respond(made(log, samples=1))


@pytest.mark.parametrize(
    "reply", [{"choices": [{"message": {"content": []}, "finish_reason": "stop"}]}, {"choices": ["x"]}, []]
)
def test_replies_of_another_shape(reply):
    with serving(lambda _: reply) as log, pytest.raises(WhymaskError, match="returned no answer of m"):
        respond(made(log, samples=1))


def test_a_model_that_says_nothing_is_wrong():
    def reply(body):
        texts = [None if i % 2 else "Yes" for i in range(body["n"])]
        return {"choices": [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]}

    with serving(reply) as log:
        assert respond(made(log, samples=4)).tolist() == [0.5]


def test_a_reasoning_model_needs_room_for_its_thoughts():
    def reply(body):
        text, end = (None, "length") if body["max_tokens"] < 100 else ("Yes", "stop")
        return {"choices": [{"message": {"content": text}, "finish_reason": end}] * body.get("n", 1)}

    with serving(reply) as log:
        assert respond(made(log, samples=4, tokens=100)).tolist() == [1.0]
        with pytest.raises(WhymaskError, match="pass a larger limit"):
            respond(made(log, samples=4))


def test_a_server_that_gives_fewer_answers_than_before():
    texts = iter([["Yes", "Yes"], ["Yes"]])

    def reply(_):
        return {"choices": [{"message": {"content": text}} for text in next(texts)]}

    with serving(reply) as log, pytest.raises(WhymaskError, match="was asked for 2 answers but returned 1"):
        respond(made(log, samples=2))


def test_reported_scores_are_those_of_fresh_answers():
    """A server that is right as long as the search runs, and wrong from then on."""
    state = {"over": False}
    with chat(lambda *_: "No" if state["over"] else "Yes") as log:
        model = made(log, samples=4, reported=8)
        case = Case.of(lit(0), model, target="Yes", question=QUESTION, regions="grid:2x2")
        ((_, found),) = drive([case.start(Recipe("discs", {"k": 1, "centres": 2}))], Responder(), batch_size=4)
        assert found.score == 1
        state["over"] = True
        result = case.result(found, {"method": "discs", **case.answers})
    assert result.score == result.full_score == 0
    assert result.answers == 8
    assert result.intervals["score"][0] == 0
    assert 0 < result.intervals["score"][1] < 0.4


def test_an_explanation_by_answers_alone(tmp_path):
    local = whymask.load("tiny-qwen")
    asked = {"target": "Yes", "question": "Is there a ball in the image?", "k": "auto", "regions": "grid:4x4"}
    asked["fill"] = ["black", "mean"]
    with serve_model(local) as url:
        model = whymask.load("answers:tiny-qwen", base_url=url, samples=16, reported=32)
        assert model.at_once == 16
        found = whymask.explain("scene:12", model, budget=40, **asked)
    # The true score of the mask lies far outside of a 99.99% interval only where something is wrong.
    low, high = interval(found.score, found.answers, 4)
    truth = np.mean([score(local, found.image.only(found.regions), fill, found) for fill in found.image.fills])
    assert low <= truth <= high
    assert found.answers == 32
    assert found.ledger.mec <= 40
    assert "Scores are measured from" in found.verdict.sentence
    again = whymask.EvidenceMask.load(found.save(tmp_path / "found.npz"))
    assert again.intervals == found.intervals
    assert again.verdict == found.verdict
    for low, says in ((found.goal - 0.01, False), (0.0, True)):  # the first may be as good as the goal
        remarks = replace(found, score=low).remarks
        assert any("was found that reaches the required score" in remark for remark in remarks) == says
    assert set(found.as_dict()["intervals"]) == {"score", "removed_score", "full_score", "blank_score"}


def score(local, _, fill, found):
    kept = np.where(found.mask[..., None], found.image.canvas, fill)
    bound = local.bind(kept, target="Yes", question="Is there a ball in the image?")
    return local.respond(bound.inputs[None], [bound]).score[0]
