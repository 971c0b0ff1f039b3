"""What a chat server may answer: capabilities are read from replies, and numbers are checked."""

import json
from math import exp, log

import numpy as np
import pytest

from whymask import WhymaskError
from whymask.models.openai_chat import OpenAIChatModel

from models.serving import serving
from models.test_chat_requests import NOISE, QUESTION, answer, chat, pictures

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
CHOSEN, PROMPT, TOP = "logprob_token_ids, prompt_logprobs", "prompt_logprobs", "top_logprobs"


def level(serve):
    with serving(serve) as server:
        return chat(server).settings["scores"]


def without(*names):
    """A server that ignores some fields."""
    return lambda body: answer({name: value for name, value in body.items() if name not in names})


def strict(*names):
    """A server that does not accept some fields."""
    return lambda body: (400, {}, {"error": "unknown field"}) if set(names) & set(body) else answer(body)


def ends_the_turn(body):
    """A server that takes a final message of the assistant for a turn that is over."""
    reply = answer(body)
    if "prompt_logprobs" in reply:
        reply["prompt_logprobs"] += [{"77": {"logprob": -0.1, "decoded_token": "<|im_end|>"}}]
    return reply


@pytest.mark.parametrize(
    ("serve", "expected"),
    [
        (answer, CHOSEN),
        (without("logprob_token_ids"), PROMPT),
        (strict("logprob_token_ids"), PROMPT),
        (without("return_tokens_as_token_ids"), TOP),
        (without("prompt_logprobs"), TOP),
        (strict("prompt_logprobs"), TOP),
        (strict("continue_final_message"), TOP),
        (ends_the_turn, TOP),
        (lambda body: (500, {}, {}) if "prompt_logprobs" in body else answer(body), TOP),
    ],
)
def test_what_a_server_can_is_read_from_its_replies(serve, expected, monkeypatch):
    monkeypatch.setattr("whymask.models.endpoints.FIRST_WAIT", 0.0)
    assert level(serve) == expected


def test_a_server_that_is_busy_while_it_is_probed_is_an_error(monkeypatch):
    """Else a run would quietly be another one."""
    monkeypatch.setattr("whymask.models.endpoints.FIRST_WAIT", 0.0)
    with pytest.raises(WhymaskError, match="answered 503"):
        level(lambda body: (503, {}, {}) if "prompt_logprobs" in body else answer(body))


def scored(change, target="Yes dark"):
    """The score of a text where the log-probabilities of its tokens are changed by `change(entries)`."""

    def serve(body):
        reply = answer(body)
        if pictures(body)[0].shape == NOISE.shape and "prompt_logprobs" in reply:
            text = json.dumps(reply)
            entries = json.dumps(reply["prompt_logprobs"])
            return text.replace(entries, change(reply["prompt_logprobs"])).encode()
        return reply

    with serving(serve) as server:
        model = chat(server)
        bound = model.bind(NOISE, question=QUESTION, target=target)
        return model.respond(bound.inputs[None], [bound]).score[0]


def last(text):
    """The entries with another log-probability of the last token, as text: it need not be JSON."""

    def change(entries):
        value = str(next(iter(entries[-1].values()))["logprob"])
        return json.dumps(entries)[: json.dumps(entries).rindex(value)] + text + (
            json.dumps(entries)[json.dumps(entries).rindex(value) + len(value) :]
        )  # fmt: skip

    return change


@pytest.mark.parametrize(("text", "value"), [("-1.5", exp(-1.5)), ("-Infinity", 0.0), ("-9999", 0.0), ("0.005", 1.0)])
def test_log_probabilities_of_a_prompt(text, value):
    assert scored(last(text)) == pytest.approx((0.5 + value) / 2)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "3", "0.02", "9" * 400, "1e400"])
def test_numbers_of_a_prompt_that_are_no_log_probabilities(text):
    with pytest.raises(WhymaskError, match="returned prompt_logprobs of tiny-vlm that are not log-probabilities"):
        scored(last(text))


@pytest.mark.parametrize("text", ["true", "null", '"-0.1"', "[-0.1]"])
def test_log_probabilities_of_a_prompt_of_another_type(text):
    with pytest.raises(WhymaskError, match="returned no prompt_logprobs of tiny-vlm, from which scores are computed"):
        scored(last(text))


@pytest.mark.parametrize(
    "entries",
    [
        None, 5, [], [None], {}, "text", [[]], [{}], [{}, {}], [{"7": -0.1}, {"8": -0.1}], [None, None, None],
        [{"yes": {"logprob": -0.1}}] * 2, [{"9" * 5000: {"logprob": -0.1}}] * 2, [{"-1": {"logprob": -0.1}}] * 2,
        [{"2": {"logprob": -0.1}}], [{"3": {"logprob": -0.1}}, {"4": {"logprob": -0.1}}],
        [None, {"6": {"logprob": -1.0}}],
    ],
)  # fmt: skip
def test_entries_that_are_something_else(entries):
    with pytest.raises(WhymaskError, match=r"returned no prompt_logprobs .*from which scores are computed"):
        scored(lambda _: json.dumps(entries))


def test_tokens_of_one_place_have_at_most_all_of_the_probability():
    with pytest.raises(WhymaskError, match="their probabilities must add up to at most 1"):
        scored(lambda entries: json.dumps([*entries[:-1], entries[-1] | {"5": {"logprob": log(0.9)}}]))


@pytest.mark.parametrize(("mebibytes", "accepted"), [(5, True), (17, False)])
def test_a_reply_may_have_an_entry_for_each_token_of_an_image_but_not_more(mebibytes, accepted):
    one = {"151655": {"logprob": -11.75, "rank": 12345, "decoded_token": "<|image_pad|>"}}
    many = [one] * (mebibytes * 2**20 // len(json.dumps(one)))
    if accepted:
        assert scored(lambda entries: json.dumps([None, *many, *entries[1:]])) == pytest.approx(0.375)
    else:
        with pytest.raises(WhymaskError, match="with more than 16 MiB"):
            scored(lambda entries: json.dumps([None, *many, *entries[1:]]))


@pytest.mark.parametrize(
    "meta",
    [
        None, {}, {"output_token_logprobs": []}, {"output_token_logprobs": [["-0.1", 1, "a"]]},
        {"output_token_logprobs": [[-0.1, 1e300, "a"]]}, {"output_token_logprobs": [[-0.1, 1.5, "a"]]},
        {"output_token_logprobs": [[-0.1, 1, "a"]], "output_token_ids_logprobs": [[[-0.5, 1, "a"]]]},
        {"output_token_logprobs": "text"}, {"output_token_logprobs": [5]},
    ],
)  # fmt: skip
def test_replies_of_generate_that_lack_something(meta):
    words = "returned no output_token.*_logprobs of tiny-vlm"
    with serving(lambda body: {"text": "a", "meta_info": meta}) as server, pytest.raises(WhymaskError, match=words):
        generate(server)


def generate(server):
    return OpenAIChatModel("tiny-vlm", base_url=server.url, api_key="", prompt="<image>{question} ASSISTANT:")


def test_generate_is_asked_for_what_follows_the_prompt():
    ids = {"Yes": 5, "dark": 6}

    def serve(body):
        said = body["text"].partition("ASSISTANT:")[2].split()
        own = [[log(0.25), ids.get(word, 9), f" {word}"] for word in said]
        meta = {
            "output_token_logprobs": [[log(0.5), 5, " Yes"]],
            "output_token_ids_logprobs": [[[log(0.5 if token == 5 else 0.01), token, None]
                                           for token in body.get("token_ids_logprob", [])]],
            "input_token_logprobs": [[None, 0, "<image>"], [-3.0, 1, ":"], *own],
            "input_top_logprobs": [None, None, *([one] for one in own)],
        }  # fmt: skip
        return {"text": " Yes, dark", "meta_info": meta}

    with serving(serve) as server:
        model = generate(server)
        assert model.settings["scores"] == "input_token_logprobs"
        images = np.stack([NOISE, NOISE[::-1]])
        text, word = (model.bind(NOISE, question=QUESTION, target=target) for target in ("Yes dark", "Yes"))
        assert model.respond(images, [text] * 2).score == pytest.approx([0.25] * 2)
        assert server.bodies[-1]["text"] == f"<image>{QUESTION} ASSISTANT: Yes dark"
        assert model.respond(images, [word] * 2).score == pytest.approx([0.5 + 0.01] * 2)  # "Yes" and "yes"
        assert server.bodies[-1]["text"] == f"<image>{QUESTION} ASSISTANT:"
        assert model.generate(images, [word] * 2, 8) == ["Yes, dark"] * 2
    assert set(server.paths) == {"/generate"}
    assert server.bodies[-1]["sampling_params"] == {"max_new_tokens": 8, "temperature": 0}
