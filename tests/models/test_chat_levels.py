"""A served model is explained as one that runs here, whatever its server returns."""

from functools import cache

import numpy as np
import pytest
import torch

import whymask
from whymask import WhymaskError
from whymask.models.tiny import CHECKPOINTS

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
pytest.importorskip("fastapi", reason="FastAPI is not installed: whymask[serve]")
pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from models.chat_servers import at_level, chat

WHOLE = ["logprob_token_ids, prompt_logprobs", "prompt_logprobs", "input_token_logprobs"]
LEVELS = [*WHOLE, "top_logprobs"]
SEARCH = {"method": "discs+swap", "k": 2, "regions": "grid:3x3", "fill": "mean", "budget": 12}
QUESTION = "Is there a cup in the image ?"
WORDS = {"question": "Describe the image .", "k": 2, "regions": "grid:3x3", "fill": "mean", "budget": 12}


@pytest.fixture(scope="module")
def local():
    """The models that are served."""
    return {name: whymask.load(name) for name in ("tiny-qwen", "tiny-llava", "tiny-caption")}


@pytest.fixture(scope="module", params=[(level, name) for level in LEVELS for name in ("tiny-qwen", "tiny-llava")])
def pair(request, local):
    """A model here and behind a server, which has the same canvas for scenes: no side is resized."""
    level, name = request.param
    with at_level(level, local[name]) as (options, log):
        model = chat(local[name], options)
        assert model.settings["scores"] == level
        log.bodies.clear()
        yield local[name], model


@pytest.fixture(autouse=True)
def _one_copy(monkeypatch):
    """A slow machine makes requests late: no second copies, so that they can be counted."""
    monkeypatch.setattr("whymask.models.remote.LATE", float("inf"))


def same(found, expected):
    """Equal masks and scores."""
    assert found.regions == expected.regions
    assert found.score == pytest.approx(expected.score, abs=1e-6)
    assert found.image.full_score == pytest.approx(expected.image.full_score, abs=1e-6)
    assert found.image.blank_score == pytest.approx(expected.image.blank_score, abs=1e-6)
    assert found.verdict.code == expected.verdict.code


@pytest.fixture(scope="module")
def expected(local):
    """What the models here give, each search run once."""

    @cache
    def found(name, target):
        return whymask.explain("scene:12", local[name], question=QUESTION, target=target, **SEARCH)

    return found


@pytest.mark.parametrize("target", ["no", "Yes there", "[[No]] there"])
def test_masks_and_scores_are_those_of_the_model_here(pair, expected, target):
    here, served = pair
    if " " in target and served.settings["scores"] == "top_logprobs":
        words = r"returns no prompt_logprobs with continue_final_message, from which the score of .* is computed"
        with pytest.raises(WhymaskError, match=words):
            served.bind("scene:12", target=target, question=QUESTION)
        return
    found = whymask.explain("scene:12", served, question=QUESTION, target=target, **SEARCH)
    same(found, expected(here.name, target))
    assert found.target.label == target
    assert found.provenance["scores"] == served.settings["scores"]


def test_the_model_s_own_answer(pair):
    here, served = pair
    bounds = [model.bind("scene:12", question=QUESTION) for model in (served, here)]
    assert bounds[0].target.label == bounds[1].target.label
    assert [bound.probes for bound in bounds] == [1, 1]
    assert served.answer("scene:12", QUESTION) == here.answer("scene:12", QUESTION)


def test_a_word_in_the_middle_of_an_answer(pair):
    """Its probability is tiny here, so it is compared as a ratio."""
    here, served = pair
    if served.settings["scores"] == "top_logprobs":
        return
    for target in ("a cup", "Is there a [[cup]] in the image"):
        bounds = [model.bind("scene:12", target=target, question=QUESTION) for model in (served, here)]
        assert bounds[0].answer == bounds[1].answer
        found = served.respond(np.stack([bounds[0].inputs, bounds[0].fill_inputs]), [bounds[0]] * 2)
        expected = here.respond(torch.stack([bounds[1].inputs, bounds[1].fill_inputs]), [bounds[1]] * 2)
        np.testing.assert_allclose(found.score, expected.score, rtol=1e-4)
        np.testing.assert_array_equal(found.top, expected.top)


@pytest.mark.parametrize("pair", [("logprob_token_ids, prompt_logprobs", "tiny-llava"), ("top_logprobs", "tiny-qwen")],
                         indirect=True)  # fmt: skip
def test_a_repair(pair):
    here, served = pair
    want = {"Yes": "No", "No": "Yes"}[here.answer("scene:12", QUESTION)]
    options = {"question": QUESTION, "want": want, **SEARCH}
    found, other = (whymask.repair("scene:12", model, **options) for model in (served, here))
    assert (found.regions, found.given, found.answer) == (other.regions, other.given, other.answer)
    assert found.repaired == other.repaired


@pytest.fixture(scope="module")
def described(local):
    """Every word of a description by the model here."""
    return whymask.explain_words("described:12", local["tiny-caption"], **WORDS)


@pytest.mark.parametrize("level", WHOLE)
def test_every_word_of_a_description(local, described, level):
    here = local["tiny-caption"]
    with at_level(level, here) as (where, log):
        served = chat(here, where)
        assert served.settings["scores"] == level
        before = len(log.bodies)
        found = whymask.explain_words("described:12", served, **WORDS)
        sent = len(log.bodies) - before
    assert found.text == described.text
    assert [word.role for word in found.words] == [word.role for word in described.words]
    for word, other in zip(found.words, described.words, strict=True):
        np.testing.assert_allclose(
            [word.full_score, word.blank_score], [other.full_score, other.blank_score], atol=1e-6
        )
        assert (word.mask is None) == (other.mask is None)
        if word.mask:
            same(word.mask, other.mask)
    # One request an image for all words, the answer itself, and one in which the server cuts it into tokens; the
    # controls of each word, whose pictures are its own, may repeat those.
    assert sent <= found.ledger.mec + found.ledger.stage("probe")[1] + 2


def test_several_images_of_one_question():
    here = whymask.load(str(CHECKPOINTS / "tiny-qwen"), fast=False)
    images, asked = ["scene:12", "scene:13"], {"question": QUESTION, "target": "Yes there"}
    with at_level("logprob_token_ids, prompt_logprobs", here) as (where, log):
        served = chat(here, where)
        alone = len(log.bodies) + 1  # and the tokens of the answer are learned with one picture
        found = whymask.explain(images, served, **asked, **SEARCH | {"k": 1, "regions": "grid:1x2", "budget": 3})
    contents = [body["messages"][0]["content"] for body in log.bodies[alone:]]
    assert all([part["type"] for part in content] == ["image_url", "image_url", "text"] for content in contents)
    bound = here.bind(images, **asked)
    expected = here.respond(bound.inputs[None], [bound]).score[0]
    assert found.image.full_score == pytest.approx(expected, abs=1e-6)


def test_a_server_that_hides_log_probabilities_is_one_sentence(local):
    words = "returned no top_logprobs of tiny-qwen, from which scores are computed; answers:tiny-qwen measures scores"
    with at_level("none", local["tiny-qwen"]) as (where, _), pytest.raises(WhymaskError, match=words):
        chat(local["tiny-qwen"], where)
