import gc
from math import exp, log

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.models.function import FunctionModel
from whymask.models.openai_chat import OpenAIChatModel

from models.serving import DROP, decode, fault_every, quadrant_probabilities, serving
from models.tiny import lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
QUESTION = "Is the top left bright?"
KEY = "sk-do-not-show-me-123"
PREFIX = "data:image/png;base64,"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def picture(body):
    message = body["messages"][0]
    (url,) = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    return decode(url.removeprefix(PREFIX))


def reply(tokens):
    """A chat completion of one token, with its alternatives."""
    top = [{"token": text, "logprob": log(value), "bytes": None} for text, value in tokens]
    first = max(top, key=lambda entry: entry["logprob"])
    choice = {"index": 0, "message": {"role": "assistant", "content": first["token"]}, "finish_reason": "length"}
    return {
        "object": "chat.completion",
        "choices": [choice | {"logprobs": {"content": [first | {"top_logprobs": top}]}}],
    }


def says_yes(images):
    """Probability (B,) of "yes", by how bright the top left quadrant is."""
    return quadrant_probabilities(images)[:, 0]


def answer(body):
    """Yes in three spellings, No in two, and a little of something else."""
    yes = says_yes(picture(body)[None])[0]
    spellings = [("Yes", 0.5 * yes), (" yes", 0.25 * yes), ("YES", 0.125 * yes), ("Y", 0.125 * yes)]
    return reply([*spellings, ("No", 0.75 * (1 - yes)), (" no", 0.125 * (1 - yes))])


def chat(server, **options):
    return OpenAIChatModel("tiny-vlm", base_url=f"{server.url}/v1", **options)


@pytest.mark.parametrize(
    ("fault", "timeout"),
    [(None, 5.0), (fault_every(8, (500, {}, {})), 5.0), (fault_every(8, DROP), 5.0), (fault_every(20, 1.0), 0.5)],
    ids=["well", "500 now and then", "drops the connection", "too slow"],
)
def test_explains_as_the_probability_of_the_word_does(fault, timeout):
    image = lit(0)
    search = {"method": "trace", "regions": "grid:4x4", "k": 4, "params": {"rounds": 2, "samples": 16}}
    expected = whymask.explain(image, FunctionModel(lambda images: 0.875 * says_yes(images)), **search)
    with serving(answer, fault) as server:
        model = chat(server, timeout=timeout)
        found = whymask.explain(image, model, question=QUESTION, target=" yes", **search)
    assert found.regions == expected.regions
    assert found.score == pytest.approx(expected.score, abs=1e-12)
    assert found.image.full_score == pytest.approx(expected.image.full_score, abs=1e-12)
    assert found.target.label == "yes"
    assert found.provenance["deterministic"] is False
    spent = model.spending.spent
    assert spent.retries + spent.hedges > 0 if fault else spent.retries == 0
    assert server.most_under_way <= 8
    assert model.floored == 0


@pytest.mark.parametrize(("quadrant", "word"), [(0, "Yes"), (3, "No")])
def test_by_default_explains_the_model_s_own_answer(quadrant, word):
    with serving(answer) as server:
        bound = chat(server).bind(lit(quadrant), question=QUESTION)
    assert (bound.target.label, bound.probes) == (word, 1)


def test_the_request():
    with serving(answer) as server:
        model = chat(server, api_key=KEY)
        image = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        bound = model.bind(image, question=QUESTION, target="No")
        model.respond(bound.inputs[None], [bound])
    body = server.bodies[-1]
    (image_part, text_part) = body["messages"][0]["content"]
    assert image_part["image_url"]["url"].startswith(PREFIX)
    np.testing.assert_array_equal(picture(body), image)
    assert text_part == {"type": "text", "text": QUESTION}
    assert {**body, "messages": [{**body["messages"][0], "content": ...}]} == {
        "model": "tiny-vlm",
        "messages": [{"role": "user", "content": ...}],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 20,
    }
    assert set(server.paths) == {"/v1/chat/completions"}
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_each_row_has_its_own_question_and_word():
    images = np.stack([lit(0), lit(1), lit(0)])
    with serving(answer) as server:
        model = chat(server)
        asked = [("One?", "Yes"), ("Two?", "no"), ("Three?", "NO")]
        bounds = [model.bind(lit(0), question=question, target=word) for question, word in asked]
        scores = model.respond(images, bounds).score
    yes = says_yes(images)
    np.testing.assert_allclose(scores, [0.875 * yes[0], 0.875 * (1 - yes[1]), 0.875 * (1 - yes[2])], rtol=1e-12)
    assert {body["messages"][0]["content"][1]["text"] for body in server.bodies[-3:]} == {"One?", "Two?", "Three?"}


@pytest.mark.parametrize(
    ("tokens", "floor", "expected"),
    [
        ([("Yes", 0.5), ("No", 0.3)], None, 0.2),  # what is left of 1
        ([("Yes", 0.5), ("No", 0.05)], None, 0.05),  # the least returned
        ([("Yes", 0.7), ("No", 0.3000001)], None, 0.0),
        ([("Yes", 0.5), ("No", 0.3)], 1e-4, 1e-4),
    ],
)
def test_a_word_outside_the_returned_tokens_gets_a_floor_and_is_counted(tokens, floor, expected):
    with serving(lambda body: reply(tokens)) as server:
        model = chat(server, floor=floor)
        bound = model.bind(lit(0), question=QUESTION, target="Maybe")
        scores = model.respond(np.stack([bound.inputs] * 3), [bound] * 3).score
        assert scores == pytest.approx([expected] * 3, abs=1e-12)
        assert model.floored == 3
        known = model.bind(lit(0), question=QUESTION, target="yes")
        assert model.respond(known.inputs[None], [known]).score == pytest.approx([tokens[0][1]])
        assert model.floored == 3


def test_probabilities_that_round_above_1_are_clipped():
    with serving(lambda body: reply([("Yes", 0.9), ("yes", 0.100001)])) as server:
        model = chat(server)
        bound = model.bind(lit(0), question=QUESTION, target="yes")
        assert model.respond(bound.inputs[None], [bound]).score.tolist() == [1.0]


def test_the_key_comes_from_the_environment_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")

    def refuse(body):
        return 401, {}, {"error": {"message": f"Incorrect API key provided: {KEY}."}}

    with serving(answer) as server:
        model = chat(server)
    words = r"answered 401 Unauthorized .*Incorrect API key"
    with serving(refuse) as server, pytest.raises(WhymaskError, match=words) as caught:
        chat(server)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    public = [str(caught.value), repr(model), repr(vars(model)), repr(model.remote), model.fingerprint, model.name]
    assert not any(KEY in text for text in [*public, *model.settings.values()])
    with pytest.raises(WhymaskError, match="'Authorization' contains characters") as caught:
        chat(server, api_key="sk-\u00e9-secret")
    assert "secret" not in str(caught.value)


def test_without_a_key_none_is_sent():
    with serving(answer) as server:
        chat(server).bind(lit(0), question=QUESTION)
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    "bad",
    [
        {},
        [],
        {"choices": []},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"content": []}}]},
        {"choices": [{"logprobs": {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": []}]}}]},
        {"choices": [{"logprobs": {"content": [{"top_logprobs": [{"token": "Yes", "logprob": "high"}]}]}}]},
    ],
)
def test_a_server_without_logprobs_is_one_sentence(bad):
    with serving(lambda body: bad) as server, pytest.raises(WhymaskError, match="returned no top_logprobs") as caught:
        chat(server)
    assert f"{server.url}/v1/chat/completions" in str(caught.value)


def with_logprobs(*logprobs):
    """A reply as text: its numbers need not be JSON."""
    entries = ", ".join(f'{{"token": "Yes{" " * i}", "logprob": {value}}}' for i, value in enumerate(logprobs))
    return f'{{"choices": [{{"logprobs": {{"content": [{{"top_logprobs": [{entries}]}}]}}}}]}}'.encode()


def score_of(*logprobs):
    with serving(lambda body: with_logprobs(*logprobs)) as server:
        model = chat(server)
        bound = model.bind(lit(0), question=QUESTION, target="yes")
        return model.respond(bound.inputs[None], [bound]).score[0]


@pytest.mark.parametrize(
    "logprobs",
    [["NaN"], ["Infinity"], [3], ["0.02"], [-1, "NaN"], ["9" * 400], ["1e400"], [-0.1, -0.1], ["-0.0"] * 20],
    ids=str,
)
def test_numbers_that_are_not_log_probabilities_are_an_error(logprobs):
    with pytest.raises(WhymaskError, match="that are not log-probabilities") as caught:
        score_of(*logprobs)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("logprob", ["true", "null", '"-0.1"', "[-0.1]", "[" * 900 + "]" * 900])
def test_log_probabilities_of_another_type_are_an_error(logprob):
    with pytest.raises(WhymaskError, match="returned no top_logprobs"):
        score_of(logprob)


@pytest.mark.parametrize(
    ("logprobs", "score"),
    [
        (["-Infinity"], 0.0),
        ([-9999], 0.0),
        (["-" + "9" * 400], 0.0),
        ([0, "-Infinity"], 1.0),
        ([1e-6], 1.0),
        ([0.009], 1.0),
        ([-1, -2.0], exp(-1) + exp(-2)),
    ],
)
def test_no_probability_and_rounding_are_allowed(logprobs, score):
    assert score_of(*logprobs) == pytest.approx(score, abs=1e-12)


def test_a_url_that_is_no_text_is_an_error():
    with pytest.raises(WhymaskError, match="must look like http"):
        OpenAIChatModel("tiny-vlm", base_url=5)


def test_a_key_and_a_password_in_the_url_are_an_error():
    with pytest.raises(WhymaskError, match=r"for a chat server, api_key\): pass only one"):
        OpenAIChatModel("tiny-vlm", base_url="http://ann:hunter2secret@localhost/v1", api_key=KEY)


def test_the_key_of_the_environment_is_not_sent_to_a_server_that_has_a_password(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(answer) as server:
        url = f"{server.url.replace('http://', 'http://ann:hunter2secret@')}/v1"
        OpenAIChatModel("tiny-vlm", base_url=url).bind(lit(0), question=QUESTION)
        assert KEY not in str(server.headers[-1])
        assert server.headers[-1]["Authorization"].startswith("Basic ")


def test_after_the_last_retry_the_error_names_the_url():
    words = "/v1/chat/completions answered 503 .* after 2 tries"
    with serving(answer, fault_every(1, (503, {}, {}))) as server, pytest.raises(WhymaskError, match=words) as caught:
        chat(server, retries=1)
    assert str(caught.value).startswith(server.url)


def test_bad_binds():
    with serving(lambda body: reply([("\n", 0.9), ("Yes", 0.1)])) as server:
        model = chat(server)
        for question in (None, "  "):
            with pytest.raises(WhymaskError, match="pass a question"):
                model.bind(lit(0), question=question)
        with pytest.raises(WhymaskError, match=r"returns no prompt_logprobs .* 'two words' .*: pass a one-word target"):
            model.bind(lit(0), question=QUESTION, target="two words")
        with pytest.raises(WhymaskError, match="begins its answer with white space: pass a target"):
            model.bind(lit(0), question=QUESTION)
        with pytest.raises(WhymaskError, match="floor must lie"):
            chat(server, floor=2.0)
    gc.collect()  # what is left over must not warn
