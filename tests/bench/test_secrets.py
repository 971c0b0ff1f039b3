"""What a run must never write or print: passwords, keys, headers."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from urllib.parse import quote

import numpy as np
import pytest

from whymask.bench.config import ModelSpec, config
from whymask.bench.export import export
from whymask.bench.records import Store
from whymask.bench.render import FORMATS
from whymask.bench.report import bench_report
from whymask.bench.runner import run
from whymask.bench.table import table as numbers
from whymask.utils.redact import public, redacted, secrets_in

from bench.toy import photos, table, toml
from models.serving import serving

PASSWORD, QUERY, HEADER, KEY = "pass/W0rd&1", "Query=Key 77", "HeaderToken12", "sk-OptionKey34"
TOKEN, OPENAI, OTHER = "OwnToken56", "sk-EnvironmentKey78", "EnvironmentSecret90"
USER = "ann"
# A model of the user's own, whose errors repeat what it was given; one masked image in nine fails.
OWN = """
import os


def load(token, nested, plain):
    def score(images):
        if images.sum() % 9 == 0:
            raise RuntimeError(f"{token} {nested} {plain} {os.environ['MY_SECRET']} are wrong")
        return images.mean(axis=(1, 2, 3)) / 255

    return score
"""


def forms():
    """The secrets as they are, quoted, and encoded as headers have them."""
    plain = [PASSWORD, QUERY, HEADER, KEY, TOKEN, OPENAI, OTHER]
    basic = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return [*plain, *(quote(text, safe="") for text in plain), *(json.dumps(text)[1:-1] for text in plain), basic]


def found_in(data):
    return [secret for secret in forms() if secret.encode() in data]


def whymask(*words, **options):
    done = subprocess.run([sys.executable, "-m", "whymask", *map(str, words)], capture_output=True, **options)
    return done.returncode, done.stdout + done.stderr


def answer(body):
    """What a server says of images, or in a chat."""
    if "images" in body:
        return {"scores": [0.5] * len(body["images"])}
    tokens = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -3.0}]
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": tokens}]}}]}


@pytest.fixture
def server():
    """Some of its answers are errors that repeat all the secrets that were sent."""

    def fault(number):
        sent = {"path": log.paths[-1], **{name: log.headers[-1].get(name) for name in ("Authorization", "X-Auth")}}
        return (400, {}, {"error": sent}) if number % 20 == 3 else None

    with serving(answer, fault) as log:
        yield log


def test_no_secret_is_written_or_printed(tmp_path, server):
    (tmp_path / "own.py").write_text(OWN)
    photos(tmp_path, 6)
    cases = [json.loads(line) | {"question": "Is it?"} for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    host = server.url.removeprefix("http://")
    where = f"http://{USER}:{quote(PASSWORD, safe='')}@{host}/v1?key={quote(QUERY, safe='')}"
    served = {"id": where, "options": {"headers": {"X-Auth": f"Bearer {HEADER}"}, "retries": 0, "concurrency": 1}}
    chats = [
        {"id": "openai:mine", "name": name, "options": {"base_url": url, "retries": 0, "concurrency": 1, **options}}
        for name, url, options in [
            ("password", where, {}),
            ("key", where.replace(f"{where[7:].split('@')[0]}@", ""), {"api_key": KEY}),
            ("environment", server.url, {}),
        ]
    ]
    own = {
        "id": "own.py:load",
        "options": {"token": TOKEN, "nested": {"api_key": KEY, "url": where}, "plain": OTHER},
    }
    few = {"seeds": [0], "methods": [{"method": "random-k", "params": {"k": 2}}], "regions": "grid:2x2", "together": 1}
    runs = {
        "scores": table(tmp_path, models=[served, own], out="scores", **few),
        "chats": table(tmp_path, models=chats, out="chats", splits={"mine": {"manifest": "asked.jsonl"}}, **few),
    }
    environment = {**os.environ, "OPENAI_API_KEY": OPENAI, "MY_SECRET": OTHER}
    for name, given in runs.items():
        folder = tmp_path / name
        code, told = whymask("bench", "run", toml(tmp_path / "bench.toml", given), cwd=tmp_path, env=environment)
        assert (code, found_in(told)) == (1, [])  # some failed
        store = Store(folder)
        assert store.records
        assert {row.model for row in store.rows.values()} == {
            store.rows[one["row"]].model for one in store.errors.values()
        }
        assert all("***" in record["error"] for record in store.errors.values())
        made = numbers([folder])
        for kind, render in FORMATS.items():
            (folder / kind).write_text(render(made))
        (folder / "report.html").write_text(bench_report([folder]))
        export([folder], folder / "records.parquet")
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert len(files) > 10
        for file in files:
            assert found_in(file.read_bytes() + str(file).encode()) == [], file
    sent = f"{server.paths} {server.headers}".encode()
    assert len(found_in(sent)) >= 5  # they were in use


@pytest.mark.parametrize(
    "models",
    [
        [{"id": f"http://{USER}:{TOKEN}@127.0.0.1:9/?key={TOKEN}", "options": {"no_such_option": TOKEN}}],
        [{"id": "own.py:broken", "options": {"token": TOKEN}}],
        [{"id": f"http://{USER}:{TOKEN}@127.0.0.1:9/?key={TOKEN}", "options": TOKEN}],
        [[f"http://{USER}:{TOKEN}@127.0.0.1:9/", TOKEN]],
        [f"http://{USER}:{TOKEN}@127.0.0.1:9/?key={TOKEN}", f"http://{USER}:{TOKEN}@127.0.0.1:9/?key={KEY}"],
    ],
)
def test_no_secret_in_what_cannot_run(tmp_path, models):
    (tmp_path / "own.py").write_text("def broken(token):\n    raise RuntimeError(f'{token} is wrong')\n")
    photos(tmp_path, 1)
    code, told = whymask("bench", "run", toml(tmp_path / "bench.toml", table(tmp_path, models=models)), cwd=tmp_path)
    assert code == 2
    assert told.startswith(b"whymask: ")
    assert found_in(told) == []


def test_no_secret_in_what_explain_cannot_do(tmp_path):
    photos(tmp_path, 1)
    url = f"http://{USER}:{TOKEN}@127.0.0.1:9/?key={TOKEN}"
    for options in (["no_such_option=3"], [TOKEN]):
        words = [word for option in options for word in ("--model-option", option)]
        code, told = whymask("explain", tmp_path / "0.png", "--model", url, *words, cwd=tmp_path)
        assert code == 2
        assert told.startswith(b"whymask: ")
        assert found_in(told) == []


@pytest.mark.parametrize("userinfo", [f"{USER}:{TOKEN}@", ""])  # a password or a key: both would be an error
def test_no_secret_in_results_of_explain(tmp_path, userinfo):
    photos(tmp_path, 1)
    words = ["--question", "Is it?", "--method", "random-k", "--k", "2", "--regions", "grid:2x2", "--json"]
    with serving(answer) as server:
        url = f"{server.url.replace('//', f'//{userinfo}')}/v1?key={TOKEN}"
        words += ["--model-option", f"base_url={url}", "--model-option", f"api_key={'' if userinfo else KEY}"]
        code, told = whymask("explain", tmp_path / "0.png", "--model", "openai:mine", *words, cwd=tmp_path)
    assert code == 0, told
    with np.load(tmp_path / "whymask-out" / "0-random-k.npz") as stored:
        assert found_in(told + str(stored["header"]).encode()) == []
    code, told = whymask("report", "whymask-out/0-random-k.npz", cwd=tmp_path)
    assert code == 0, told
    assert found_in((tmp_path / "report.html").read_bytes()) == []


def test_another_key_is_no_other_row(tmp_path):
    photos(tmp_path, 2)
    (tmp_path / "own.py").write_text(
        "def load(api_key, size):\n    return lambda images: images.mean((1, 2, 3)) / 255\n"
    )

    def given(**options):
        models = [{"id": f"{tmp_path}/own.py:load", "name": "own", "options": options}]
        return config(table(tmp_path, models=models, methods=["greedy"], seeds=[0]))

    assert run(given(api_key=KEY, size=1), quiet=True).done == 2
    before = [file.name for file in (tmp_path / "run").glob("records-*")]
    assert run(given(api_key=TOKEN, size=1), quiet=True).done == 2
    assert [file.name for file in (tmp_path / "run").glob("records-*")] == before  # nothing was computed
    with pytest.raises(ValueError, match=r"another model size \(1, now 2\)"):
        run(given(api_key=TOKEN, size=2), quiet=True)


def test_a_header_may_name_a_model_and_a_number_is_a_setting():
    """Rows of different models must differ, whatever their settings are called."""

    def settings(**options):
        return ModelSpec("http://host/score", "name", options).settings

    assert settings(headers={"X-Model": "a"}) != settings(headers={"X-Model": "b"})
    assert settings(headers={"X-Model": "a", "X-Auth": KEY}) == settings(headers={"X-Model": "a", "X-Auth": TOKEN})
    assert settings(cls_token=1) != settings(cls_token=2)
    assert settings(monkey="a") != settings(monkey="b")
    for name in ("tokens", "passwd", "api_keys", "secrets", "db_pwd", "passphrase", "AWS_ACCESS_KEY_ID", "apikey"):
        for value in (KEY, [KEY], {"of": KEY}):
            assert KEY not in json.dumps(settings(**{name: value, "headers": {"X-Model": KEY}}))


def test_long_texts_and_the_punctuation_after_a_url():
    assert redacted("a" * 1_000_000) == "a" * 1_000_000
    assert redacted("(see http://ann:pw@host/x?y=1).") == "(see http://host/x)."


def test_what_is_not_secret_stays_as_it_is(monkeypatch):
    monkeypatch.setenv("MY_KEY", OTHER)
    options = {"device": "cuda", "size": 224, "classes": ["a@b", "c?"], "base_url": "http://host:8000/v1", "x": None}
    for name in ("http://host/score", "mine@2.py:load", "models/a#1.onnx", "openai:gpt"):
        assert ModelSpec(name, "name", options).settings == {"id": name, **options}
    hidden = {"api_key": "x", "Authorization": "x", "headers": {}, "hf_token": "x", "SECRET": "x", "db_password": "x"}
    assert public({**options, **hidden, "plain": OTHER}) == {**options, "headers": {}}
    assert public({"url": f"https://{USER}:{TOKEN}@host/v1?a=b#c"}) == {"url": "https://host/v1"}
    assert redacted("see https://host/docs.", secrets_in({})) == "see https://host/docs."
