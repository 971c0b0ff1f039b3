import re
import socket

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from whymask.cli import main
from whymask.serve import serve
from whymask.serve.app import create_app
from whymask.serve.connections import Server
from whymask.serve.guard import Guard, RequestError

from serve.served import Slow, photo

GUARD = Guard(None, hosts={"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"host": "localhost:8000"}),
        ("GET", {"host": "LOCALHOST"}),
        ("GET", {"host": "[::1]:8000", "origin": "http://evil.example"}),  # reading changes nothing
        ("POST", {"host": "127.0.0.1:8000"}),  # a program, not a page
        ("POST", {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}),
    ],
)
def test_let_through(method, headers):
    GUARD.check(method, Headers(headers))


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 421),
        ("GET", {"host": "evil.example:8000"}, 421),  # its name was made to lead here
        ("GET", {"host": "localhost.evil.example"}, 421),
        ("GET", {"host": "[::1"}, 421),
        ("POST", {"host": "localhost", "origin": "http://evil.example"}, 403),
        ("POST", {"host": "localhost", "origin": "http://localhost:9999"}, 403),  # another server of this machine
        ("POST", {"host": "localhost", "origin": "null"}, 403),
        ("POST", {"host": "localhost", "sec-fetch-site": "cross-site"}, 403),
        ("DELETE", {"host": "localhost", "sec-fetch-site": "same-site"}, 403),
    ],
)
def test_refused(method, headers, status):
    with pytest.raises(RequestError) as refused:
        GUARD.check(method, Headers(headers))
    assert refused.value.status == status


GUARDED = ("/", "/static/viewer.js", "/api/options", "/api/results", "/api/jobs/x", "/nowhere", "/?token=wrong")
TOKEN = "a-random-token"


@pytest.fixture
def app(tmp_path):
    app = create_app({"bright": Slow().model}, tmp_path, hosts={"testserver"}, token=TOKEN)
    yield app
    app.state.jobs.stop()


@pytest.mark.parametrize("header", [{}, {"Cookie": "whymask-80=x; =;"}, {"Authorization": b"Bearer \xff"}])
def test_without_the_token_nothing_is_served(app, header):
    client = TestClient(app, headers=header)
    for path in GUARDED:
        answer = client.get(path)
        assert answer.status_code == 401
        assert "whymask serve" in answer.json()["error"]
        assert "set-cookie" not in answer.headers
    assert client.post("/api/jobs", content=photo()).status_code == 401
    assert client.delete("/api/results/0123456789abcdef").status_code == 401


def test_the_token_in_the_address_becomes_a_cookie(app):
    client = TestClient(app)
    entry = client.get(f"/?token={TOKEN}")
    assert entry.status_code == 200
    assert TOKEN not in entry.text
    cookie = entry.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert entry.headers["referrer-policy"] == "no-referrer"
    assert client.get("/").status_code == 200
    assert client.get("/api/options").json()["models"] == ["bright"]
    assert client.get("/api/jobs/x").status_code == 404


def test_a_program_sends_the_token_in_a_header(app):
    client = TestClient(app, headers={"Authorization": f"Bearer {TOKEN}"})
    assert client.get("/api/options").status_code == 200
    assert client.post("/api/jobs", content=b"x").status_code == 400


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Run `serve` up to the moment when it would listen; returns the address and the guard's settings."""

    def run(host, **options):
        addresses, apps = [], []
        monkeypatch.setattr(Server, "run", lambda self, sockets: apps.append(self.config.app))
        serve({"bright": Slow().model}, tmp_path, host=host, port=0, ready=addresses.append, **options)
        (app,) = apps
        app.state.jobs.stop()
        (guard,) = (one for one in app.user_middleware if one.cls is Guard)
        return addresses[0], guard.kwargs

    return run


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.9"])
def test_this_machine_needs_no_token(served, host):
    address, settings = served(host)
    assert re.fullmatch(rf"http://{host}:\d+", address)
    assert settings["token"] is None


def test_others_need_a_token_and_get_an_address_that_works(served):
    (first, settings), (second, _) = served("0.0.0.0"), served("0.0.0.0")
    found = re.fullmatch(r"http://(.+):\d+/\?token=([\w-]{32})", first)
    assert settings["token"] == found[2]
    assert found[2] not in second
    assert found[1] != "0.0.0.0"
    assert {found[1], socket.gethostname(), "localhost"} <= settings["hosts"]


def test_the_command_warns(monkeypatch, capsys):
    monkeypatch.setattr("whymask.serve.serve", lambda *_, ready, **__: ready("http://192.0.2.7:8000/?token=abc"))
    monkeypatch.setattr("sys.argv", ["whymask", "serve", "--host", "0.0.0.0", "--model", "tiny-qwen"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out == "Serving http://192.0.2.7:8000/?token=abc (Ctrl-C ends it).\n"
    assert err == "whymask: anybody who has this address can use the models and see all results.\n"
