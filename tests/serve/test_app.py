import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from functools import partial

import httpx
import pytest
from matplotlib.figure import Figure

from whymask.errors import WhymaskError
from whymask.results.mask import EvidenceMask
from whymask.serve.app import FIGURES, UPLOADS
from whymask.serve.connections import MOST
from whymask.serve.request import read_image

from serve.served import Slow, ended, photo, serving, until

SLOW = "/api/jobs?method=greedy&regions=grid:8x8"


@pytest.fixture
def slow():
    return Slow(0.02)


@pytest.fixture
def client(tmp_path, slow):
    limits = {"waiting": 1, "patience": 60}
    with serving(tmp_path, {"slow": slow.model}, **limits) as (url, jobs), httpx.Client(base_url=url) as client:
        client.jobs = jobs
        yield client


@pytest.fixture
def patient(tmp_path):
    """A client of a server with its usual limits."""
    with serving(tmp_path, {"fast": Slow().model}) as (url, _), httpx.Client(base_url=url, timeout=20) as client:
        yield client


@pytest.fixture
def done(patient):
    """The id of a result."""
    name = patient.post("/api/jobs?regions=grid:4x4", content=photo()).json()["id"]
    assert ended(patient, name)["state"] == "done"
    return name


def test_a_job_that_nobody_asks_about_stops_using_the_model(client, slow):
    name = client.post(SLOW, content=photo()).json()["id"]
    job = client.jobs.jobs[name]
    job.seen -= 10  # seconds of the server's patience
    before = job.seen
    assert client.get(f"/api/jobs/{name}").json()["state"] in ("queued", "running")
    assert job.seen > before + 9  # the server knows that somebody watches
    job.seen -= 2 * client.jobs.patience
    until(lambda: client.jobs.jobs[name].over)  # without asking
    job = client.get(f"/api/jobs/{name}").json()
    assert (job["state"], job["message"]) == ("cancelled", "The page was closed, so the search was stopped.")
    batches = slow.batches
    time.sleep(0.2)
    assert slow.batches == batches


def test_many_watchers_keep_nobody_out(client):
    """Who watches holds no connection: there is no stream to hold."""
    name = client.post(SLOW, content=photo()).json()["id"]
    address = client.base_url.host, client.base_url.port
    question = f"GET /api/jobs/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    with ExitStack() as opened:
        for _ in range(MOST + 10):
            watcher = opened.enter_context(socket.create_connection(address, timeout=20))
            watcher.sendall(question)
            assert watcher.recv(100).startswith(b"HTTP/1.1 200")
        assert client.get("/").status_code == 200


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
    address = client.base_url.host, client.base_url.port
    with ExitStack() as opened, ThreadPoolExecutor(1) as pool:
        slow_body = opened.enter_context(socket.create_connection(address))
        slow_body.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n")
        assert client.get("/").status_code == 200  # so that it is known by now
        idle = [opened.enter_context(socket.create_connection(address)) for _ in range(2 * MOST)]
        for connection in idle[-MOST:]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        with httpx.Client(base_url=client.base_url) as fresh:
            assert fresh.get("/").status_code == 200
        assert idle[0].recv(1) == b""  # the oldest gave way
        slow_body.sendall(b"no image.")
        answer = pool.submit(slow_body.recv, 100).result(timeout=20)  # who has sent a request did not
        assert answer.startswith(b"HTTP/1.1 400")


def test_the_server_ends_while_a_job_runs(tmp_path):
    with serving(tmp_path, {"slow": Slow(0.02).model}) as (url, jobs):
        name = httpx.post(url + SLOW, content=photo()).json()["id"]
        until(lambda: jobs.jobs[name].state == "running")
    assert (jobs.jobs[name].state, jobs.jobs[name].message) == ("cancelled", "The server was stopped.")


def test_slow_uploads_keep_nobody_out(client):
    """As many half-sent bodies as there are places: the slowest gives way to a new one."""
    address = client.base_url.host, client.base_url.port
    head = b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9000\r\n\r\n"
    with ExitStack() as opened:
        slow = [opened.enter_context(socket.create_connection(address, timeout=10)) for _ in range(3 * UPLOADS)]
        for number, connection in enumerate(slow):
            connection.sendall(head + b"x" * (1 + number))
        assert client.post("/api/jobs?regions=grid:4x4", content=photo()).status_code == 202
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408")
        slow[-1].settimeout(0.2)
        with pytest.raises(TimeoutError):  # one of those that have sent most is still waited for
            slow[-1].recv(1)


def test_an_image_is_decoded_once_and_others_go_on_meanwhile(tmp_path, monkeypatch):
    decoded, go_on = [], threading.Event()
    size = 33

    def read(content):
        image = read_image(content)
        decoded.append(image.size)
        if image.width == size:
            assert go_on.wait(20)
        return image

    monkeypatch.setattr("whymask.serve.app.read_image", read)
    with serving(tmp_path, {"slow": Slow().model}) as (url, _), ThreadPoolExecutor(1) as pool:
        client = httpx.Client(base_url=url, timeout=20)
        slow = pool.submit(client.post, "/api/jobs?regions=grid:4x4", content=photo(size))
        until(lambda: decoded)
        answer = client.post("/api/jobs?regions=grid:4x4", content=photo())
        assert ended(client, answer.json()["id"])["state"] == "done"
        assert not slow.done()
        go_on.set()
        assert ended(client, slow.result(timeout=20).json()["id"])["state"] == "done"
        client.close()
    assert decoded == [(size, size), (64, 64)]


def test_too_many_images_to_decode_are_refused(tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("whymask.serve.app.read_image", lambda content: go_on.wait(20) and read_image(content))
    with serving(tmp_path, {"slow": Slow().model}) as (url, _), ThreadPoolExecutor(UPLOADS + 1) as pool:
        post = partial(httpx.post, f"{url}/api/jobs?regions=grid:4x4", content=photo(), timeout=20)
        answers = [pool.submit(post) for _ in range(UPLOADS + 1)]
        assert next(as_completed(answers, timeout=20)).result().status_code == 503  # the others are waiting
        go_on.set()
        assert 202 in {answer.result(timeout=20).status_code for answer in answers}


def test_figures_are_drawn_one_at_a_time(patient, done, monkeypatch):
    drawing, most = [], []

    def counted(self):
        drawing.append(self)
        most.append(len(drawing))
        time.sleep(0.1)
        drawing.pop()
        return Figure()

    monkeypatch.setattr(EvidenceMask, "figure", counted)
    with ThreadPoolExecutor(FIGURES + 4) as pool:
        paths = [f"/api/results/{done}/figure.png"] * (FIGURES + 4)
        statuses = [answer.status_code for answer in pool.map(patient.get, paths)]
    assert max(most) == 1
    assert set(statuses) == {200, 503}


def test_a_result_is_deleted(patient, done):
    foreign = patient.delete(f"/api/results/{done}", headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403
    assert patient.delete(f"/api/results/{done}").json() == {"id": done}
    for path in (f"/api/results/{done}", f"/api/results/{done}/result.npz", f"/api/jobs/{done}"):
        assert patient.get(path).status_code == 404
    assert patient.delete(f"/api/results/{done}").status_code == 404
    assert patient.get("/api/results").json() == []


def test_a_broken_result_is_the_client_s_error(patient, done, monkeypatch, capfd):
    def broken(self):
        raise errors[-1]("broken")

    errors = [RecursionError, MemoryError, ValueError, WhymaskError, IndexError]
    monkeypatch.setattr(EvidenceMask, "as_dict", broken)
    monkeypatch.setattr(EvidenceMask, "figure", broken)
    while errors:
        for view in ("", "/report.html", "/figure.png"):
            answer = patient.get(f"/api/results/{done}{view}")
            assert answer.status_code == 422
            assert answer.json() == {"error": "this result cannot be shown: its file is broken."}
        assert patient.get("/api/results").status_code == 200
        errors.pop()
    assert "Traceback" not in capfd.readouterr().err


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
    assert options["must_ask"] == ["talker"]  # nobody knows of the user's own


def test_what_is_not_there_is_a_sentence(client):
    for path in ("/api/jobs/x", "/api/jobs/x/picture", "/api/results/x", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"].endswith(".")
