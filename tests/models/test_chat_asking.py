"""Servers that want to be asked differently, and say so."""

import pytest

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")

from whymask import WhymaskError
from whymask.models.openai_chat import OpenAIChatModel
from whymask.models.sampled import AnsweringModel

from models.serving import serving
from models.test_openai_chat import answer as with_logprobs
from models.tiny import lit

QUESTION = "Is the top left bright?"
UNSUPPORTED = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
NOT_ALLOWED = "You are not allowed to request logprobs from this model"
MODELS = [OpenAIChatModel, AnsweringModel]


def error(status, message):
    return status, {}, {"error": {"message": message, "type": "invalid_request_error"}}


def says_yes(body):
    """A server whose answers are the same whether or not it shows probabilities."""
    if body.get("logprobs"):
        return with_logprobs(body)
    return {"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}] * body.get("n", 1)}


def newer(body):
    """As OpenAI's reasoning models answer."""
    return error(400, UNSUPPORTED) if "max_tokens" in body else says_yes(body)


def score(model):
    bound = model.bind(lit(0), question=QUESTION, target="Yes")
    return model.respond(bound.inputs[None], [bound]).score.tolist()


def made(kind, log, **options):
    return kind("m", base_url=f"{log.url}/v1", api_key="", max_side=32, concurrency=1, **options)


@pytest.mark.parametrize("kind", MODELS)
def test_the_newer_limit_of_tokens_is_learned_once(kind):
    with serving(says_yes) as log:
        expected = score(made(kind, log))
    with serving(newer) as log:
        model = made(kind, log)
        assert score(model) == expected
        assert model.answer(lit(0), QUESTION, tokens=7) == "Yes"
    assert ["max_tokens" in body for body in log.bodies] == [True] + [False] * (len(log.bodies) - 1)
    assert all("max_completion_tokens" in body for body in log.bodies[1:])
    assert log.bodies[-1]["max_completion_tokens"] == 7


def test_also_where_nothing_is_asked_before_the_first_image():
    with serving(newer) as log:
        model = made(AnsweringModel, log, samples=1)
        assert log.bodies == []
        assert score(model) == [1.0]
        assert score(model) == [1.0]
    assert ["max_tokens" in body for body in log.bodies] == [True, False, False]


@pytest.mark.parametrize("kind", MODELS)
def test_a_server_that_knows_neither_name_is_asked_no_more_than_twice(kind):
    with serving(lambda _: error(400, UNSUPPORTED)) as log, pytest.raises(WhymaskError, match="answered 400"):
        score(made(kind, log, **({"samples": 1} if kind is AnsweringModel else {})))
    assert len(log.bodies) == 2


def test_a_model_that_does_not_allow_logprobs_has_an_alternative():
    with (
        serving(lambda _: error(403, NOT_ALLOWED)) as log,
        pytest.raises(WhymaskError, match="answers:m measures scores from answers instead"),
    ):
        made(OpenAIChatModel, log)


@pytest.mark.parametrize("kind", MODELS)
def test_a_url_without_a_version(kind):
    def reply(body):
        return says_yes(body) if log.paths[-1].startswith("/v1/") else (404, {}, {"detail": "Not Found"})

    with serving(reply) as log:
        with pytest.raises(WhymaskError, match=r"answered 404 Not Found") as caught:
            kind("m", base_url=log.url.replace("//", "//ann:secret@") + "/?key=hidden", max_side=32)
        assert str(caught.value).endswith(f" base_url usually ends with the version: try {log.url}/v1.")
        assert len(log.bodies) == 1
        assert score(made(kind, log))


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_is_unknown_behind_a_url_with_a_version(kind):
    with (
        serving(lambda _: error(404, "The model 'm' does not exist")) as log,
        pytest.raises(WhymaskError, match=r"does not exist\); gave up after 1 try\.$"),
    ):
        made(kind, log)
