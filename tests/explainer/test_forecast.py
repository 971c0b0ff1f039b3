"""What --dry-run says, beside what then happens."""

import json

import numpy as np
import pytest
from PIL import Image

from whymask import Explainer, WhymaskError
from whymask.models.http import HttpModel
from whymask.models.openai_chat import OpenAIChatModel

from cli.command import whymask_command
from models.serving import serving
from models.test_http import answer
from models.test_openai_chat import QUESTION
from models.test_openai_chat import answer as chat_answer
from models.tiny import lit, quadrants

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
SEARCH = {"regions": "grid:4x4", "method": "trace", "k": 4, "fill": "black"}


def billed(body):
    count = len(body["images"])
    return answer(body) | {"usage": {"prompt_tokens": 100 * count, "completion_tokens": 2 * count}}


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "photo.png"
    Image.fromarray(lit(1)).save(path)
    return path


def test_of_a_model_that_runs_here_forwards_are_known():
    explainer = Explainer(quadrants(), **SEARCH)
    found = explainer.forecast(lit(1))
    made = explainer.explain(lit(1))
    sent = made.ledger.nominal + made.ledger.stage("probe")[0]
    assert 0.8 * sent <= found.forwards <= 1.25 * sent
    assert str(found) == f"About {found.forwards:,} forwards for 1 image."


def test_a_budget_seeds_and_other_answers_count():
    one = Explainer(quadrants(), **SEARCH).forecast(lit(1)).forwards
    budget = Explainer(quadrants(), budget=50, **SEARCH)
    more = budget.forecast(lit(1)).forwards
    assert more < one
    assert budget.forecast(lit(1), searches=3).forwards == 3 * more
    assert Explainer(quadrants(), budget=50, null=2, **SEARCH).forecast(lit(1)).forwards == more + 100
    assert Explainer(quadrants(), **SEARCH).forecast(lit(1), targets=5).forwards > one


def test_nothing_is_sent_and_the_replies_so_far_count():
    with serving(billed) as server:
        explainer = Explainer(HttpModel(server.url, batch_size=8, price="10/100"), method="discs+swap", k=4)
        before = explainer.forecast(lit(1))
        assert server.bodies == []
        made = explainer.explain(lit(1), target=1)
        found = explainer.forecast(lit(1))
    assert (before.tokens_in, before.cost) == (None, None)
    assert "tokens are not known before a reply" in str(before)
    assert before.requests == -(-before.forwards // 8)
    assert (found.tokens_in, found.tokens_out) == (100 * found.forwards, 2 * found.forwards)
    assert found.cost == pytest.approx(found.forwards * 1200e-6)
    assert made.provenance["spending"]["cost"] == pytest.approx(found.cost, rel=0.25)


def test_of_a_chat_server_tokens_are_estimated():
    with serving(chat_answer) as server:
        model = OpenAIChatModel("tiny-vlm", base_url=f"{server.url}/v1", price="1/0", max_side=300)
        found = Explainer(model, **SEARCH).forecast(np.zeros((600, 300, 3), np.uint8), question=QUESTION)
    assert found.requests == found.forwards
    assert found.tokens_out == found.forwards
    assert 300 * 150 / 1000 < found.tokens_in / found.forwards < 300 * 150 / 500 + 50
    assert found.cost == pytest.approx(found.tokens_in / 1e6)


def test_replies_about_the_server_itself_do_not_count():
    """A server is asked about small images while it is probed; what those cost says nothing of a photo."""

    def reply(body):
        return chat_answer(body) | {"usage": {"prompt_tokens": 7, "completion_tokens": 1}}

    with serving(reply) as server:
        model = OpenAIChatModel("tiny-vlm", base_url=f"{server.url}/v1", max_side=300)
        assert model.spending.spent.tokens_in > 0
        photo = np.zeros((300, 300, 3), np.uint8)
        before = Explainer(model, **SEARCH).forecast(photo, question=QUESTION)
        model.bind(photo, question=QUESTION)
        after = Explainer(model, **SEARCH).forecast(photo, question=QUESTION)
    assert before.tokens_in > 100 * before.forwards
    assert after.tokens_in == 7 * after.forwards


def test_on_the_command_line(photo, tmp_path):
    with serving(billed) as server:
        words = ["--model", server.url, "--method", "trace", "--regions", "grid:4x4", "--dry-run"]
        words += ["--max-requests", "3", "--out", str(tmp_path / "out")]
        one = whymask_command("explain", photo, *words)
        several = json.loads(whymask_command("explain", photo, photo, "scene:1", *words, "--json").stdout)
    assert server.bodies == []
    assert not (tmp_path / "out").exists()
    assert one.stdout.startswith("About ")
    assert "With max_requests=3 the search will end before that." in one.stdout
    assert several["images"] == 2  # each of them once
    assert several["requests"] > 3
    assert several["limits"] == "max_requests=3"
    assert several["cost"] is None


def test_words_need_their_answer(photo):
    found = whymask_command("explain", photo, "--model", "tiny-caption", "--words", "--dry-run")
    assert (found.returncode, found.stdout) == (2, "")
    assert "pass --text" in found.stderr


def test_limits_on_the_command_line(photo, tmp_path):
    """Of two images one is explained as far as the money goes; the same command continues."""
    cost = 30 * 120e-6
    with serving(billed) as server:
        words = ["explain", photo, "scene:1", "--model", server.url, "--target", "top right", "--json"]
        words += ["--method", "discs+swap", "--k", "3", "--regions", "grid:4x4", "--out", str(tmp_path)]
        words += ["--model-option", "batch_size=1", "--price", "1/10"]
        first = whymask_command(*words, "--max-cost", str(cost))
        (report,) = map(json.loads, first.stdout.splitlines())
        again = whymask_command(*words)
    assert report["complete"] is False
    assert report["provenance"]["spending"]["cost"] <= cost
    assert first.returncode == 1
    assert "max_cost=0.0036" in first.stderr
    assert "0 of 2 images have a complete result: run the same command again to continue." in first.stderr
    assert again.returncode == 0
    assert all(json.loads(line)["complete"] for line in again.stdout.splitlines())
    assert (tmp_path / "index.html").exists()


def test_limits_are_for_one_process(photo, tmp_path):
    found = whymask_command(
        "explain", photo, "scene:1", "--model", "http://localhost:9", "--max-requests", "5", "--jobs", "2",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert "leave --jobs out" in found.stderr


def test_a_model_that_runs_here_has_no_price(photo):
    found = whymask_command("explain", photo, "--model", "tiny-llava", "--price", "1/2", "--dry-run")
    assert found.returncode == 2
    assert "price" in found.stderr


def test_a_wrong_price():
    with pytest.raises(WhymaskError, match="IN/OUT"):
        HttpModel("http://localhost:9", price="cheap")
