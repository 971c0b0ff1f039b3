import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from whymask.serve.connections import MOST

from serve.served import Slow, photo, serving

SLOW = "/api/jobs?method=greedy&regions=grid:8x8"


@pytest.fixture
def slow():
    return Slow(0.02)


@pytest.fixture
def client(tmp_path, slow):
    limits = {"waiting": 1, "patience": 0.3}
    with serving(tmp_path, {"slow": slow.model}, **limits) as (url, jobs), httpx.Client(base_url=url) as client:
        client.jobs = jobs
        yield client


def test_a_job_whose_watcher_goes_away_stops_using_the_model(client, slow):
    name = client.post(SLOW, content=photo()).json()["id"]
    with client.stream("GET", f"/api/jobs/{name}/events") as events:
        told = (line for line in events.iter_lines() if '"running"' in line)
        next(told)
        time.sleep(0.6)  # longer than the server's patience: it knows that somebody watches
        assert client.jobs.jobs[name].state == "running"
    end = time.monotonic() + 20
    while (job := client.get(f"/api/jobs/{name}").json())["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert (job["state"], job["message"]) == ("cancelled", "Nobody was watching.")
    batches = slow.batches
    time.sleep(0.2)
    assert slow.batches == batches


def test_a_full_queue_answers_503_and_when_to_try_again(client):
    answers = [client.post(SLOW, content=photo()) for _ in range(4)]
    assert [answer.status_code for answer in answers][-1] == 503
    assert answers[-1].headers["retry-after"] == "10"
    assert "try again" in answers[-1].json()["error"]


@pytest.mark.parametrize(
    ("query", "size", "status"), [("", 12_000_000, 413), ("?method=trase", 9_000_000, 400), ("", 9_000_000, 400)]
)
def test_a_refusal_reaches_a_client_that_is_still_sending(client, query, size, status):
    for _ in range(3):
        answer = client.post(f"/api/jobs{query}", content=b"x" * size)
        assert answer.status_code == status
        assert answer.json()["error"]


def test_only_the_viewer_s_own_files_are_served(client):
    for name, kind in (("viewer.js", "text/javascript"), ("page.css", "text/css")):
        assert client.get(f"/static/{name}").headers["content-type"] == f"{kind}; charset=utf-8"
    assert client.get("/static/page.html").json() == {"error": "there is no such file."}
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for header in ("content-security-policy", "x-content-type-options", "referrer-policy"):
        assert header in page.headers


def test_idle_connections_keep_nobody_out(client, slow):
    """More of them than there are places: silent ones, and ones whose headers never end."""
    name = client.post(SLOW, content=photo()).json()["id"]
    address = client.base_url.host, client.base_url.port
    with ExitStack() as opened, client.stream("GET", f"/api/jobs/{name}/events") as events:
        lines = events.iter_lines()
        next(lines)
        idle = [opened.enter_context(socket.create_connection(address)) for _ in range(2 * MOST)]
        for connection in idle[-MOST:]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        with httpx.Client(base_url=client.base_url) as fresh:
            assert fresh.get("/").status_code == 200
        assert idle[0].recv(1) == b""  # the oldest gave way
        assert any('"running"' in line for line in lines)  # who is being answered did not


def test_the_server_ends_while_somebody_watches(tmp_path):
    with ExitStack() as running:
        url, jobs = running.enter_context(serving(tmp_path, {"slow": Slow(0.02).model}))
        name = httpx.post(url + SLOW, content=photo()).json()["id"]
        with httpx.stream("GET", f"{url}/api/jobs/{name}/events") as events, ThreadPoolExecutor(1) as pool:
            lines = events.iter_lines()
            next(line for line in lines if '"running"' in line)
            rest = pool.submit(list, lines)
            running.close()
            told = rest.result(timeout=20)  # an answer that was broken off would raise
    assert "The server was stopped." in told[-2]
    assert jobs.jobs[name].state == "cancelled"


def test_a_page_can_be_asked_for_by_its_head(client):
    for path in ("/", "/static/viewer.js"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]


def test_methods_are_offered_by_what_a_model_can(tmp_path):
    abilities = {"forward": (), "classifier": ("gradients", "class"), "talker": ("gradients", "question")}
    models = dict.fromkeys([*abilities, "own"], Slow().model)
    with serving(tmp_path, models, abilities=abilities) as (url, _):
        options = httpx.get(f"{url}/api/options").json()
    offered = {method["name"]: method["models"] for method in options["methods"]}
    assert offered["trace"] == offered["rise"] == list(models)
    assert offered["igos++"] == offered["asn+greedy"] == ["classifier", "talker", "own"]
    assert offered["grad-cam"] == ["classifier", "own"]
    assert offered["llava-cam"] == ["talker", "own"]
    assert offered["grad-eclip"] == ["own"]
    assert options["asked"] == ["talker", "own"]


def test_what_is_not_there_is_a_sentence(client):
    for path in ("/api/jobs/x", "/api/jobs/x/events", "/api/jobs/x/picture", "/api/results/x", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"].endswith(".")
