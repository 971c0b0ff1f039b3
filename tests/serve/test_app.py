import time

import httpx
import pytest

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


def test_what_is_not_there_is_a_sentence(client):
    for path in ("/api/jobs/x", "/api/jobs/x/events", "/api/jobs/x/picture", "/api/results/x", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"].endswith(".")
