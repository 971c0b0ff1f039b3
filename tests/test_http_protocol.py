"""The code and the commands of docs/servers.md that are about endpoints, cost and the http: protocol."""

import json
import re
import shlex
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import whymask
from whymask import WhymaskError

from cli.command import whymask_command
from models.serving import serving
from models.test_http import answer
from models.test_openai_chat import answer as chat_answer
from models.tiny import lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
PAGE = (Path(__file__).parents[1] / "docs" / "servers.md").read_text()
SECTIONS = ("Several endpoints", "Cost", "The http: protocol")


def blocks(title, kind):
    (section,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a photo."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(lit(1)).save("photo.png")


@pytest.fixture
def replicas():
    """Two servers that answer as a chat server and by the http: protocol, and a text with their addresses."""

    def both(body):
        if "messages" in body:
            return chat_answer(body)
        return answer(body) | {"usage": {"prompt_tokens": 100, "completion_tokens": 1}}

    with serving(both) as one, serving(both) as other:
        yield lambda text: text.replace("http://127.0.0.1:8001", one.url).replace("http://127.0.0.1:8002", other.url)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("title", SECTIONS[:2])
def test_commands(replicas, title):
    for block in blocks(title, "sh"):
        for line in block.strip().splitlines():
            program, *words = shlex.split(replicas(line))
            assert program == "whymask"
            found = whymask_command(*words)
            assert (found.returncode, found.stderr) == (0, "")
            assert "requests" in found.stdout


@pytest.mark.usefixtures("here")
def test_models_of_several_endpoints_and_with_limits(replicas):
    (endpoints,), (limits,) = (blocks(title, "python") for title in SECTIONS[:2])
    space = {}
    exec(replicas(endpoints), space)
    found = whymask.explain("photo.png", space["model"], question="Is it?", target="Yes", k=2, regions="grid:4x4")
    assert found.provenance["url"].count("http://") == 2
    exec(replicas(limits), space)
    assert space["model"].spending.max_cost == 2.0
    found = whymask.explain("photo.png", space["model"], target=1, k=2, regions="grid:4x4")
    assert found.provenance["spending"]["cost"] > 0


@pytest.fixture
def uvicorn_server():
    """Runs an app on a free port in a thread; its address."""
    pytest.importorskip("fastapi", reason="fastapi is not installed: whymask[serve]")
    import uvicorn

    started = []

    def start(app):
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
        thread = threading.Thread(target=server.run)
        thread.start()
        started.append((server, thread))
        deadline = time.monotonic() + 60
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, thread in started:
        server.should_exit = True
        thread.join()


@pytest.mark.usefixtures("here")
def test_the_server_of_the_example(uvicorn_server, monkeypatch, capsys):
    monkeypatch.setenv("SCORE_KEY", "a-long-secret-key")
    server, client = blocks(SECTIONS[2], "python")
    assert 15 <= sum(bool(line.strip()) for line in server.splitlines()) <= 25
    space = {}
    exec(server, space)
    url = uvicorn_server(space["app"]) + "/v1/score"
    exec(client.replace("http://127.0.0.1:8001/v1/score", url), space)
    printed = capsys.readouterr().out
    assert "'bright' scores" in printed
    assert "a-long-secret-key" not in printed

    local = whymask.wrap(lambda images: space["brightness"](images), size=None, max_side=512)
    options = {"k": 4, "regions": "grid:4x4", "fill": "black"}
    served = whymask.explain("photo.png", space["model"], target="bright", **options)
    here = whymask.explain("photo.png", local, **options)
    assert (served.regions, served.score) == (here.regions, here.score)
    assert "a-long-secret-key" not in json.dumps(served.as_dict())

    wrong = whymask.load(url, headers={"Authorization": "Bearer another-key"})
    with pytest.raises(WhymaskError, match=r"answered 401 Unauthorized \(wrong key\)"):
        whymask.explain("photo.png", wrong, **options)
    with pytest.raises(WhymaskError, match=r"answered 422 Unprocessable.*there is no answer 'dark'"):
        whymask.explain("photo.png", space["model"], target="dark", **options)


def test_what_a_request_holds():
    """As the section says: PNGs of one size about one target, at most batch_size of them, and nothing else."""
    with serving(answer) as server:
        model = whymask.load(f"{server.url}/v1/score", batch_size=4, max_side=16)
        bounds = [model.bind(np.zeros(shape, np.uint8), target=t) for shape, t in [((20, 30, 3), 0), ((20, 30, 3), 1)]]
        model.respond(np.stack([bound.inputs for bound in bounds] * 3), bounds * 3)
    assert [set(body) for body in server.bodies] == [{"images", "target"}] * len(server.bodies)
    assert sorted((body["target"], len(body["images"])) for body in server.bodies) == [(0, 3), (1, 3)]
