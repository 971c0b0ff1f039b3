"""docs/servers.md on servers without log-probabilities and on serving a model: its code runs, its numbers hold."""

import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

import whymask
from whymask.models.sampled import AnsweringModel
from whymask.search import measured
from whymask.serve import chat
from whymask.serve.model_app import create_model_app

from models.chat_servers import serve_model

PAGE = (Path(__file__).parents[1] / "docs" / "servers.md").read_text()


def section(title):
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return text


def test_scores_from_answers(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", section("Servers without log-probabilities"), re.DOTALL)
    # A smaller search: the code is the same.
    block = block.replace("budget=40", "budget=12, regions='grid:3x3', fill='black'").replace(
        '/v1")', '/v1", samples=4, reported=8)'
    )
    with serve_model(whymask.load("tiny-qwen")) as url:
        exec(block.replace("http://127.0.0.1:8000/v1", url), {})
    assert re.match(
        r"[01]\.\d+ \([01]\.\d+, [01]\.\d+\) .* Scores are measured from 8 answers", capsys.readouterr().out
    )


def test_every_field_is_listed():
    table = section("Serving a model").partition("| field |")[2]
    cells = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    listed = {name for cell in cells for name in re.findall(r"`(\w+)", "".join(cell))} - {"true", "false"}
    silent = {"model", "stream", "user", "add_special_tokens"}  # as any client sends them
    assert chat.ChatRequest.model_fields.keys() - silent <= listed
    assert {name.strip("/") for name in ("v1/chat/completions", "tokenize")} <= {
        route.strip("`/") for route in re.findall(r"`/[\w/]+`", section("Serving a model"))
    }


def test_limits_are_those_of_the_code():
    text = " ".join(section("Serving a model").split())
    assert f"{chat.MAX_BYTES / 1e6:.0f} MB" in text
    assert f"{chat.MAX_IMAGES} images" in text
    assert f"{chat.MAX_TOKENS:,} tokens" in text
    assert f"{chat.MAX_LOGPROBS:,} log-probabilities" in text
    assert f"{chat.SHORT} by default" in text
    assert f"{create_model_app.__kwdefaults__['waiting']} others" in text
    assert f"up to {chat.TOP_LOGPROBS}" in text
    assert f"({AnsweringModel.__init__.__kwdefaults__['samples']}) times" in section(
        "Servers without log-probabilities"
    )
    assert measured.ASKED == 4
    assert "up to four times" in section("Servers without log-probabilities").replace("\n", " ")
