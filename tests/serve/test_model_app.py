"""A model behind the chat API: its answers are those of the model, whoever asks beside."""

import json
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import exp

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import torch
from starlette.testclient import TestClient

import whymask
from whymask.images.imaging import load_image
from whymask.models.chat.messages import encoded
from whymask.models.multimodal import load
from whymask.serve.chat import MAX_BYTES
from whymask.serve.model_app import create_model_app
from whymask.serve.sampling import pick, places

from models.families import FAMILIES

QUESTION = "Is there a ball in the image?"
CHAT = "/v1/chat/completions"
IMAGE = np.asarray(load_image("scene:12"))


@pytest.fixture(scope="module", params=["tiny-qwen", "tiny-llava"])
def model(request):
    return whymask.load(request.param)


@pytest.fixture(scope="module")
def client(model):
    with serving(model) as made:
        yield made


@contextmanager
def serving(model, **options):
    """A client of a served model, whose requests share a loop; the worker ends with the block."""
    app = create_model_app(model, model.name, hosts={"testserver"}, **options)
    try:
        with TestClient(app) as client:
            yield client
    finally:
        app.state.jobs.stop()


def at(url):
    return {"type": "image_url", "image_url": {"url": url}}


def picture(image=IMAGE):
    return at(f"data:image/png;base64,{encoded(image, 'png')}")


def user(image=IMAGE, question=QUESTION):
    return {"role": "user", "content": [picture(image), {"type": "text", "text": question}]}


def asked(client, *messages, status=200, path=CHAT, **fields):
    answer = client.post(path, json={"messages": list(messages) or [user()], **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


def content(reply):
    return reply["choices"][0]["logprobs"]["content"][0]


def score(model, target, image=IMAGE):
    bound = model.bind(image, target=target, question=QUESTION)
    return float(model.respond(bound.inputs[None], [bound]).score[0]), bound.answer


def test_chosen_tokens_have_the_models_own_probabilities(model, client):
    probability, answer = score(model, "Yes")
    fields = {"logprobs": True, "logprob_token_ids": answer.wanted[0], "return_tokens_as_token_ids": True}
    found = content(asked(client, max_tokens=1, **fields))["top_logprobs"]
    assert [entry["token"] for entry in found] == [f"token_id:{token}" for token in answer.wanted[0]]
    assert sum(exp(entry["logprob"]) for entry in found) == pytest.approx(probability, abs=1e-6)


def test_the_likeliest_tokens_come_first(client):
    found = content(asked(client, max_tokens=1, temperature=0, logprobs=True, top_logprobs=5))
    top = found["top_logprobs"]
    assert [one["logprob"] for one in top] == sorted((one["logprob"] for one in top), reverse=True)
    assert found["token"] == top[0]["token"] == "Yes"
    assert bytes(found["bytes"]).decode() == "Yes"


@pytest.mark.parametrize("text", ["Yes", "Yes there a ball in the image"])
def test_a_message_that_is_continued_is_scored_token_by_token(model, client, text):
    said = {"role": "assistant", "content": text}
    ending = {"continue_final_message": True, "add_generation_prompt": False}
    reply = asked(client, user(), said, max_tokens=1, prompt_logprobs=2, **ending)
    probability, _ = score(model, text)
    count = len(text.split())
    assert len(reply["prompt_logprobs"]) == reply["usage"]["prompt_tokens"]
    assert not any(reply["prompt_logprobs"][:-count])
    own = [next(iter(place.values())) for place in reply["prompt_logprobs"][-count:]]
    assert [one["decoded_token"] for one in own] == text.split()
    mean = np.mean([exp(one["logprob"]) for one in own])
    # One word counts in all its surface forms, of which this vocabulary has one.
    assert mean == pytest.approx(probability, abs=1e-6)
    assert all(len(place) in (2, 3) for place in reply["prompt_logprobs"][-count:])
    assert own[0]["rank"] == 1


def test_requests_at_once_are_answered_as_alone(model, client):
    images = [np.asarray(load_image(f"scene:{number}")) for number in range(12)]
    questions = [QUESTION, "Is there a cup in the image?", "Is there a tree in the image?"] * 4
    fields = {"max_tokens": 1, "logprobs": True, "top_logprobs": 1, "temperature": 0}
    both = [*zip(images, questions, strict=True)]
    alone = [content(asked(client, user(*one), **fields)) for one in both]
    with ThreadPoolExecutor(12) as pool:
        together = list(pool.map(lambda one: content(asked(client, user(*one), **fields)), both))
    for one, other in zip(alone, together, strict=True):
        assert other["token"] == one["token"]
        assert other["logprob"] == pytest.approx(one["logprob"], abs=1e-5)


def test_answers_are_drawn_by_probability_and_repeat_with_their_seed(client):
    fields = {"n": 128, "max_tokens": 1, "temperature": 4, "return_token_ids": True}
    first, again, other = (asked(client, seed=seed, **fields)["choices"] for seed in (1, 1, 2))
    said = [[choice["token_ids"] for choice in choices] for choices in (first, again, other)]
    assert said[0] == said[1] != said[2]
    assert [choice["index"] for choice in first] == [*range(128)]


def test_draws_follow_the_distribution():
    shares = torch.tensor([[0.1, 0.2, 0.7]]).expand(9, 3)
    numbers = [0.0, 0.05, 0.0999, 0.1001, 0.25, 0.2999, 0.3001, 0.9, 1 - 2**-24]
    assert pick(shares, [1.0] * 9, numbers).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    nucleus = pick(shares, [0.6] * 9, numbers)
    assert nucleus.tolist() == [2] * 9
    two = pick(shares, [0.75] * 9, numbers)
    assert set(two.tolist()) == {1, 2}


def test_places_rank_tokens():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    (place,) = places(logits, torch.tensor([2]), 2)
    assert place.rank == 2
    assert [(token, rank) for token, _, rank in place.others] == [(1, 1), (2, 2)]
    assert sum(exp(place.logprob) for (place,) in [places(logits, torch.tensor([i]), 0) for i in range(3)]) == (
        pytest.approx(1)
    )


def test_longer_answers_end_where_the_model_ends_them(model, client):
    reply = asked(client, max_tokens=5, temperature=0, n=2, logprobs=True)
    for choice in reply["choices"]:
        assert choice["message"] == {"role": "assistant", "content": model.answer(IMAGE, QUESTION)}
        assert choice["finish_reason"] == "stop"
        assert len(choice["logprobs"]["content"]) == 2  # the word and the end
    assert reply["usage"]["completion_tokens"] == 4
    assert asked(client, max_tokens=1)["choices"][0]["finish_reason"] == "length"


def test_tokens_and_texts(model, client):
    tokenizer = model.dialogue.tokenizer
    prompt = asked(client, path="/tokenize", return_token_strs=True)
    assert prompt["tokens"] == model.dialogue.tokens(model.dialogue.prompt(QUESTION))
    assert prompt["count"] == len(prompt["tokens"]) == len(prompt["token_strs"])
    text = client.post("/tokenize", json={"prompt": "Yes a ball"}).json()
    assert text["tokens"] == tokenizer.convert_tokens_to_ids(["Yes", "a", "ball"])
    assert client.post("/detokenize", json={"tokens": text["tokens"]}).json() == {"prompt": "Yes a ball"}
    (card,) = client.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"]) == (model.name, 512)
    assert client.get("/health").status_code == 200


WRONG = [
    ({"messages": []}, "messages"),
    ({"stop": ["a"]}, "stop is not supported"),
    ({"stream": True}, "stream"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"n": 0}, "n is wrong"),
    ({"n": 100, "max_tokens": 100}, "lower n"),
    ({"max_tokens": 4000}, "more than 512"),
    ({"top_logprobs": 3}, "needs logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"logprobs": True, "logprob_token_ids": [10**6]}, "vocabulary"),
    ({"logprobs": True, "logprob_token_ids": [-1]}, "vocabulary"),
    ({"logprobs": True, "logprob_token_ids": [0] * 1000, "max_tokens": 101}, "lower max_tokens"),
    ({"prompt_logprobs": 0}, "continue_final_message"),
    ({"continue_final_message": True}, "add_generation_prompt"),
    ({"continue_final_message": True, "add_generation_prompt": False}, "assistant"),
    ({"messages": [{"role": "user", "content": "hi"}]}, "need an image"),
    ({"messages": [{"role": "tool", "content": "hi"}]}, "role"),
    ({"messages": [{"role": "user", "content": [at("http://a/b.png")]}]}, "URLs are not fetched"),
    ({"messages": [{"role": "user", "content": [at("data:image/png;base64,!")]}]}, "base64"),
    ({"messages": [{"role": "user", "content": [at("data:image/png;base64,aaaa")]}]}, "image_url cannot be read: "),
    ({"messages": [{"role": "user", "content": [picture()] * 17}]}, "16 images"),
    ({"messages": [{"role": "user", "content": [picture()] * 2}]}, "one image"),
    ({"mm_processor_kwargs": {"crop": 1}}, "crop"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_is_wrong_is_named(client, fields, message):
    answer = client.post(CHAT, json={"messages": [user()], **fields})
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert message in error["message"]
    assert error["type"] == "BadRequestError"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, json.dumps({"model": "other"}).encode()])
def test_bodies_that_are_no_request(client, body):
    answer = client.post(CHAT, content=body)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["message"]


def test_limits_of_bodies_and_of_the_queue(model):
    with serving(model, waiting=1) as client:
        large = client.post(CHAT, content=b"x" * (MAX_BYTES + 1))
        assert large.status_code == 413
        engine = client.app.state.jobs
        begun, go_on = threading.Event(), threading.Event()
        engine._answer = lambda some: (begun.set(), go_on.wait(20), [one.done.cancel() for one in some])
        engine.submit(None)
        assert begun.wait(20)
        engine.submit(None)
        full = client.post(CHAT, json={"messages": [user()]})
        assert full.status_code == 503
        assert full.headers["Retry-After"]
        go_on.set()


def test_only_who_has_the_key_is_answered(model):
    with serving(model, token="secret") as client:
        for headers in ({}, {"Authorization": "Bearer other"}):
            for path in ("/v1/models", "/health", "/nowhere"):
                answer = client.get(path, headers=headers)
                assert answer.status_code == 401
                assert "Authorization: Bearer KEY" in answer.json()["error"]["message"]
        assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
        evil = client.get("/v1/models", headers={"Authorization": "Bearer secret", "Host": "evil.example"})
        assert evil.status_code == 421
        missing = client.get("/nowhere", headers={"Authorization": "Bearer secret"})
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "NotFoundError")


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    folder = FAMILIES["qwen3_vl"].save(tmp_path_factory.mktemp("qwen3_vl"))
    return load(str(folder), max_side=None)


def test_any_family_with_several_images_and_a_system_prompt(family):
    question = "Is there a dog in the image ?"
    images = [IMAGE[:64, :96], IMAGE[30:94, :64]]
    with serving(family) as client:
        fields = {"max_tokens": 1, "logprobs": True, "return_tokens_as_token_ids": True}
        bound = family.bind(images, target="Yes", question=question)
        probability = float(family.respond(bound.inputs[None], [bound]).score[0])
        turn = {"role": "user", "content": [*map(picture, images), {"type": "text", "text": question}]}
        found = content(asked(client, turn, logprob_token_ids=bound.answer.wanted[0], **fields))["top_logprobs"]
        assert sum(exp(entry["logprob"]) for entry in found) == pytest.approx(probability, abs=1e-6)
        said = asked(client, turn, max_tokens=4, temperature=0)["choices"][0]["message"]["content"]
        assert said == family.generate(bound.inputs[None], [bound], 4)[0]
        system = asked(client, {"role": "system", "content": "Yes no dog"}, turn, max_tokens=1)
        plain = asked(client, turn, max_tokens=1)
        assert system["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]


def test_fewer_pixels_on_request(family):
    with serving(family) as client:
        large = np.asarray(load_image("scene:12").resize((256, 256)))
        whole, reduced = (
            asked(client, user(large, "is there a dog ?"), max_tokens=1, mm_processor_kwargs=fields)["usage"]
            for fields in ({}, {"max_pixels": 64 * 64})
        )
        assert reduced["prompt_tokens"] < whole["prompt_tokens"]


def test_the_command_serves_until_it_is_interrupted():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "whymask", "serve-model", "tiny-llava", "--port", str(port), "--api-key", "abc"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        process.terminate()
        _, trouble = process.communicate(timeout=30)
    assert re.fullmatch(rf"Serving http://127.0.0.1:{port}/v1 .*\n", line), line + trouble
    assert "abc" not in line  # a key that is given is known, and need not be in a log


def test_a_wrong_method_is_an_error_that_names_the_right_one(client):
    answer = client.get(CHAT)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["message"] == "method not allowed."
