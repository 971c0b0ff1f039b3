"""The code of docs/servers.md that is about chat servers and targets."""

import re
from pathlib import Path

import pytest

import whymask

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
pytest.importorskip("fastapi", reason="FastAPI is not installed: whymask[serve]")
pytest.importorskip("transformers", reason="transformers is not installed: whymask[hf]")

from models.chat_servers import IGNORED, PROMPTS, at_level, serve_model

PAGE = (Path(__file__).parents[1] / "docs" / "servers.md").read_text()


def section(title):
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return text


def blocks(title):
    return re.findall(r"```python\n(.*?)```", section(title), re.DOTALL)


def test_its_code_runs(capsys):
    local = whymask.load("tiny-qwen")
    explained, generated = blocks("Chat servers")
    (targets,) = blocks("Targets")
    assert PROMPTS["tiny-qwen"] in generated
    with serve_model(local) as url, at_level("input_token_logprobs", local) as (options, _):
        for block in (explained, generated, targets):
            code = block.replace("http://127.0.0.1:8000/v1", url).replace("http://127.0.0.1:30000", options["base_url"])
            exec(code, {"whymask": whymask})
    printed = capsys.readouterr().out
    assert re.match(r"Yes 0\.\d+\ninput_token_logprobs\n", printed)
    assert re.search(r"\nYes 0\.\d+\nYes there 0\.\d+\nIs there a \[\[cup\]\] \S+\n$", printed)


def test_its_table_of_capabilities():
    """Every level that the tests know is in it."""
    table = set(re.findall(r"^\| `(.+?)` \|", section("Capabilities"), re.MULTILINE)) - {"scores"}
    assert table == {"logprob_token_ids, prompt_logprobs", "input_token_logprobs", *IGNORED} - {"none"}


def test_how_many_requests_are_made():
    local = whymask.load("tiny-qwen")
    for level in IGNORED.keys() - {"none"} | {"input_token_logprobs"}:
        with at_level(level, local) as (options, log):
            model = whymask.load("openai:tiny-qwen", **options)
            assert len(log.bodies) <= 6
            before = len(log.bodies)
            model.bind("scene:12", question="Is there a cup in the image ?", target="Yes")
            assert len(log.bodies) - before <= 8
