"""What is sent to a chat server."""

import json
from base64 import b64decode
from io import BytesIO
from math import log

import numpy as np
import pytest
from PIL import Image

from whymask import WhymaskError
from whymask.models.chat import messages
from whymask.models.openai_chat import OpenAIChatModel

from models.serving import serving
from models.tiny import lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
QUESTION = "Is the top left bright?"
TOKENS = ["?", ":", "Yes", "No", " Yes", "yes", " dark", " red", "unsaid"]
FIRST = [0.0, 0.0, 0.5, 0.2, 0.1, 0.05, 0.0, 0.0, 0.0]  # what an answer may begin with
AFTER = 0.25  # the probability of any later token
NOISE = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def _one_copy(monkeypatch):
    """A slow machine makes requests late: no second copies, so that they can be counted."""
    monkeypatch.setattr("whymask.models.remote.LATE", float("inf"))


def tokens(text):
    """A text as tokens: the longest that fits, again and again."""
    found = []
    while text:
        piece = max((piece for piece in TOKENS if text.startswith(piece)), key=len, default=text[0])
        found.append(TOKENS.index(piece) if piece in TOKENS else 99)
        text = text[len(piece) :]
    return found


def entry(token, value):
    return {
        str(token): {"logprob": log(value or 1e-30), "rank": 1, "decoded_token": dict(enumerate(TOKENS)).get(token)}
    }


def answer(body, shown=2, ids=True):
    """As vLLM answers, with the likeliest `shown` tokens, or those of logprob_token_ids."""
    asked = body.get("logprob_token_ids") if ids else None
    likeliest = sorted(range(len(TOKENS)), key=lambda token: -FIRST[token])
    top = [
        {"token": f"token_id:{token}" if body.get("return_tokens_as_token_ids") else TOKENS[token],
         "logprob": log(FIRST[token] or 1e-30)}
        for token in (asked or likeliest[:shown])
    ]  # fmt: skip
    content = {"token": f"token_id:{likeliest[0]}", "logprob": log(FIRST[likeliest[0]]), "top_logprobs": top}
    choice = {"message": {"content": TOKENS[likeliest[0]]}, "logprobs": {"content": [content]}}
    reply = {"choices": [choice]}
    last = body["messages"][-1]
    if "prompt_logprobs" in body:
        own = tokens(last["content"])
        values = [FIRST[own[0]] if own[0] < len(FIRST) else 0.0, *[AFTER] * (len(own) - 1)]
        prompt = [entry(0, 0.5), entry(1, 0.5)]
        tail = [entry(token, value) for token, value in zip(own, values, strict=True)]
        reply["prompt_logprobs"] = [None, *prompt, *tail]
    return reply


def chat(server, **options):
    return OpenAIChatModel("tiny-vlm", base_url=f"{server.url}/v1", api_key="", **options)


def of_canvas(server, shape):
    """The requests about images of a size: those that learn what the server can are about a grey one."""
    sent = [body for body in server.bodies if pictures(body)[0].shape[:2] == shape]
    assert sent
    return sent


def pictures(body):
    (user,) = [message for message in body["messages"] if message["role"] == "user"]
    urls = [part["image_url"]["url"] for part in user["content"] if part["type"] == "image_url"]
    return [np.asarray(Image.open(BytesIO(b64decode(url.partition(",")[2])))) for url in urls]


def test_every_request_begins_alike_up_to_the_image():
    with serving(answer) as server:
        model = chat(server, system="Answer in one word.", seed=3)
        assert model.settings["scores"] == "logprob_token_ids, prompt_logprobs"
        bound = model.bind(NOISE, question=QUESTION, target="Yes")
        bounds = [bound, *(model.answering(bound, text, QUESTION) for text in ("Yes dark", "No red", "No [[red]] red"))]
        model.respond_each(np.stack([bound.inputs, bound.fill_inputs]), bounds)
        model.generate(bound.inputs[None], [bound], 8)
    sent = [json.dumps(body) for body in server.bodies]
    assert len({text.partition("data:image")[0] for text in sent}) == 1
    assert '"role": "system", "content": "Answer in one word."' in sent[0].partition("data:image")[0]
    assert {body["seed"] for body in server.bodies} == {3}
    # Two images: all words by one request, and one for each text that begins otherwise. And the answer in words.
    assert len(of_canvas(server, (24, 40))) == 2 * 3 + 1


def test_an_image_is_encoded_once(monkeypatch):
    made = []
    encoded = messages.encoded

    def counted(canvas, form):
        made.append(canvas.tobytes())
        return encoded(canvas, form)

    with serving(answer) as server:
        model = chat(server)
        bound = model.bind(NOISE, question=QUESTION, target="Yes")
        bounds = [bound, *(model.answering(bound, text, QUESTION) for text in ("Yes dark", "No red", "No dark"))]
        monkeypatch.setattr(messages, "encoded", counted)
        model.respond_each(np.stack([bound.inputs, bound.fill_inputs]), bounds)
    assert sorted(made) == sorted([NOISE.tobytes(), bound.fill_inputs.tobytes()])


@pytest.mark.parametrize(("form", "exact"), [("png", True), ("webp", True), ("jpeg", False)])
def test_image_formats(form, exact):
    with serving(answer) as server:
        model = chat(server, image_format=form)
        bound = model.bind(NOISE, question=QUESTION, target="Yes")
        model.respond(bound.inputs[None], [bound])
        (body,) = of_canvas(server, (24, 40))
    assert body["messages"][0]["content"][0]["image_url"]["url"].startswith(f"data:image/{form};base64,")
    assert np.array_equal(pictures(body)[0], NOISE) == exact
    assert ("image_format" in model.settings) == (not exact)  # the provenance says when pixels differ
    with pytest.raises(WhymaskError, match="unknown image_format 'jpg'; did you mean 'jpeg'"):
        chat(server, image_format="jpg")


def test_max_pixels_is_for_the_server_s_own_preprocessing():
    with serving(answer) as server:
        chat(server, max_pixels=50176)
    assert all(body["mm_processor_kwargs"] == {"max_pixels": 50176} for body in server.bodies)


def test_several_images_are_several_parts():
    with serving(answer) as server:
        model = chat(server)
        bound = model.bind([NOISE, lit(0, 16)], question=QUESTION, target="Yes")
        model.respond(bound.inputs[None], [bound])
        sent = pictures(of_canvas(server, (24, 40))[0])
    assert [part.shape for part in sent] == [(24, 40, 3), (16, 16, 3)]
    np.testing.assert_array_equal(sent[0], NOISE)
    np.testing.assert_array_equal(sent[1], lit(0, 16))


WORD = FIRST[2] + FIRST[4] + FIRST[5]  # "Yes", " Yes" and "yes"


@pytest.mark.parametrize(("ids", "asked_alone"), [(True, []), (False, [" Yes", "yes"])])
def test_a_word_is_all_its_spellings(ids, asked_alone):
    """Where the server returns the likeliest two tokens, each further spelling is asked for as an answer."""
    with serving(lambda body: answer(body, ids=ids)) as server:
        model = chat(server)
        assert model.settings["scores"] == ("logprob_token_ids, " if ids else "") + "prompt_logprobs"
        bound = model.bind(NOISE, question=QUESTION, target="yes")
        assert bound.answer.wanted == ((2, 4, 5),)
        assert model.respond(bound.inputs[None], [bound]).score == pytest.approx([WORD])
        sent = of_canvas(server, (24, 40))
    assert sorted(body["messages"][-1]["content"] for body in sent[1:]) == asked_alone
    assert model.floored == 0


def test_spellings_that_cannot_matter_are_not_asked_for(monkeypatch):
    monkeypatch.setitem(globals(), "FIRST", [0.0, 0.0, 1 - 1e-9, 1e-9, 0.0, 0.0, 0.0, 0.0, 0.0])
    with serving(lambda body: answer(body, ids=False)) as server:
        model = chat(server)
        bound = model.bind(NOISE, question=QUESTION, target="yes")
        assert model.respond(bound.inputs[None], [bound]).score == pytest.approx([1.0])
        assert len(of_canvas(server, (24, 40))) == 1


@pytest.mark.parametrize(
    ("target", "score"),
    [
        ("Yes dark", (FIRST[2] + AFTER) / 2),  # the mean over a text
        ("Yes [[dark]]", AFTER),
        ("[[No]] dark red", FIRST[3]),
        ("Yes dark [[red]]", AFTER),
        (3, FIRST[3]),  # a token by its number
    ],
)
@pytest.mark.parametrize("ids", [True, False])
def test_answers_of_several_tokens(target, score, ids):
    with serving(lambda body: answer(body, ids=ids)) as server:
        model = chat(server)
        bound = model.bind(NOISE, question=QUESTION, target=target)
        found = model.respond(bound.inputs[None], [bound])
        assert found.score == pytest.approx([score])
        assert len(of_canvas(server, (24, 40))) == 1


def test_a_text_is_cut_into_tokens_once():
    with serving(answer) as server:
        model = chat(server)
        bound = model.bind(NOISE, question=QUESTION, target="Yes dark")
        before = len(server.bodies)
        for target in ("Yes dark", "Yes [[dark]]", "[[Yes]] dark"):
            model.bind(NOISE, question=QUESTION, target=target, fill="mean")
            model.answering(bound, target, QUESTION)
        assert len(server.bodies) == before


def test_an_answer_that_the_server_does_not_take_as_it_is():
    with serving(answer) as server, pytest.raises(WhymaskError, match="does not take 'two unknown words' as an answer"):
        chat(server).bind(NOISE, question=QUESTION, target="two unknown words")


def test_options_that_generate_does_not_have():
    with pytest.raises(WhymaskError, match="with prompt=, put the system prompt into the prompt"):
        OpenAIChatModel("a", base_url="http://127.0.0.1:9", prompt="{question}", system="Be brief.")
    for prompt in ("no slot", "{question} {question}", ""):
        with pytest.raises(WhymaskError, match=r"prompt is the model's chat template as text, with \{question\} once"):
            OpenAIChatModel("a", base_url="http://127.0.0.1:9", prompt=prompt, api_key="")
