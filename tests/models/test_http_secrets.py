"""What is secret about a server reaches that server and nobody else."""

import json
import socket
import threading
from base64 import b64encode
from urllib.parse import quote

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.models.http import HttpModel
from whymask.utils.redact import redacted, secrets_in, shown

from models.serving import ask_once, serving
from models.tiny import lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
SEARCH = {"method": "random-k", "regions": "grid:2x2", "k": 1}


def test_secrets_are_sent_but_never_shown():
    def refuse(body):
        return 403, {}, {"detail": "hunter2secret and tok-987654 and sk-header1 are no good"}

    with serving(refuse) as server:
        url = server.url.replace("http://", "http://ann:hunter2secret@") + "/score?model=a&token=tok-987654"
        model, ask = ask_once(url, headers={"X-Key": "sk-header1"})
        with pytest.raises(WhymaskError, match="answered 403") as caught:
            ask()
    assert server.paths == ["/score?model=a&token=tok-987654"]
    assert server.headers[0]["X-Key"] == "sk-header1"
    assert server.headers[0]["Authorization"].startswith("Basic ")
    public = [str(caught.value), repr(model), model.name, model.fingerprint, *model.settings.values()]
    for secret in ("hunter2", "tok-987654", "sk-header1"):
        assert not any(secret in text for text in public)
    assert f"{server.url}/score" in str(caught.value)


def test_an_error_is_quoted_by_its_message():
    def refuse(body):
        return 401, {}, {"error": {"message": "send 'Authorization: Bearer KEY', not sk-wrong1.", "code": 401}}

    with serving(refuse) as server:
        _, ask = ask_once(server.url, headers={"Authorization": "Bearer sk-wrong1"})
        with pytest.raises(WhymaskError) as caught:
            ask()
    quoted = "answered 401 Unauthorized (send 'Authorization: Bearer KEY', not ***); gave up after 1 try."
    assert str(caught.value).endswith(quoted)


def test_secrets_of_several_urls_stay_with_their_own_server():
    """Also where an endpoint repeats what is secret about another one."""
    secrets = ["hunter2secret", "tok-987654", "sesame-open", "key-4711xx"]

    def repeat(body):
        return 403, {}, {"detail": f"{' and '.join(secrets)} are no good"}

    def score(body):
        return {"scores": [0.5] * len(body["images"])}

    with serving(score) as one, serving(repeat) as other:
        first = one.url.replace("http://", "http://ann:hunter2secret@") + "/score?token=tok-987654"
        second = other.url.replace("http://", "http://bob:sesame-open@") + "/score?token=key-4711xx"
        for urls in ([first, second], f"{first}, {second}"):
            model = HttpModel(urls, batch_size=1)
            found = whymask.explain(lit(0), HttpModel([first, first]), **SEARCH)
            bound = model.bind(lit(0))
            with pytest.raises(WhymaskError, match=f"{other.url}/score answered 403") as caught:
                model.respond(np.stack([bound.inputs] * 8), [bound] * 8)
            public = [str(caught.value), repr(model), model.name, model.fingerprint, *model.settings.values()]
            public += [str(found), json.dumps(found.as_dict()), shown(f"{first}, {second}"), redacted(f"see {urls}.")]
            assert not [text for text in public for secret in secrets if secret in text]
    assert {headers["Authorization"] for headers in one.headers} == {basic("ann", "hunter2secret")}
    assert {headers["Authorization"] for headers in other.headers} == {basic("bob", "sesame-open")}
    assert set(one.paths) == {"/score?token=tok-987654"}
    assert secrets_in({"url": f"{first},{second}"}) >= set(secrets)


def basic(user, password):
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("ann", "hunter2secret"),
        ("ann", "h2"),
        ("ann@home", "p/s s:1"),
        ("ann", 'qu"ote'),
        ("", "alone"),
        ("a b", "ümlaut"),
    ],
)
def test_a_server_that_repeats_credentials_does_not_reveal_them(user, password):
    def repeat(body):
        header = server.headers[-1]["Authorization"]
        texts = [header, user, password, quote(user, safe=""), quote(password, safe=""), server.paths[-1]]
        return 401, {}, {"detail": texts, "plain": "try again"}

    with serving(repeat) as server:
        userinfo = f"{quote(user, safe='')}:{quote(password, safe='')}"
        url = server.url.replace("http://", f"http://{userinfo}@") + "/score?key=a%2Fb+c&key=k2&bare"
        _, ask = ask_once(url)
        with pytest.raises(WhymaskError, match=r'answered 401 Unauthorized \(.*"plain": "try again"') as caught:
            ask()
    basic = b64encode(f"{user}:{password}".encode()).decode()
    assert server.headers[0]["Authorization"] == f"Basic {basic}"
    message = str(caught.value)
    secrets = [basic.rstrip("="), user, password, "a/b", "a%2F", "b c", "k2", "bare", json.dumps(password)[1:-1]]
    assert [text for text in secrets if text and text in message.replace(server.url, "")] == []


def test_a_broken_reply_that_repeats_a_secret_does_not_reveal_it():
    """The error then is httpx's own, about the line it could not read."""

    def garble(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nsk-header1 \x01 tok-987654\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=garble, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/score?token=tok-987654"
        with pytest.raises(WhymaskError, match=r"could not be reached \(.+\*\*\*.*\)") as caught:
            ask_once(url, headers={"X-Key": "sk-header1"}, retries=0)[1]()
        thread.join()
    assert "sk-header1" not in str(caught.value)
    assert "tok-987654" not in str(caught.value)


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
def test_a_url_with_a_password_does_not_replace_a_header(name):
    with pytest.raises(WhymaskError, match="would replace the Authorization header") as caught:
        HttpModel("http://ann:hunter2secret@localhost/score", headers={name: "Bearer sk-header1"})
    assert "hunter2" not in str(caught.value)
    assert "sk-header1" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("http://host/score", "http://host/score"),
        ("https://ann:SECRET@host:8000/score?key=SECRET#SECRET", "https://host:8000/score"),
        ("http://SECRET@[::1]:80/score", "http://[::1]:80/score"),
        ("http://ann:SEC@RET@host", "http://host"),
        ("http://host/users/@me?key=SECRET", "http://host/users/@me"),
        ("http://ann:SECRET/SECRET@host", "http://***"),
        ("http://ann:SECRET?SECRET@host/score", "http://***"),
        ("http://ann:SECRET#SECRET@host/score", "http://***"),
        ("http://[bad?key=SECRET@SECRET", "http://***"),
        ("http:/ann:SECRET@host/score", "http:/host/score"),
        ("http:ann:SECRET@host/score", "http:host/score"),
        ("ann:SECRET@host/score?key=SECRET", "host/score"),
        ("ann:SECRET@http://host", "http://host"),
        ("/data/me@lab/model.onnx", "/data/me@lab/model.onnx"),
        ("folder/model.onnx", "folder/model.onnx"),
        ("http://ann:SECRET@a/score,https://bob:SECRET@b:8000?key=SECRET", "http://a/score,https://b:8000"),
        ("http://a/score?key=SECRET,SECRET , http://b", "http://a/score,http://b"),
        ("openai:qwen", "openai:qwen"),
        ("", ""),
        ("@", ""),
        ("?\n#@\0\ud800", ""),
    ],
)
def test_what_is_shown_of_a_url_holds_no_secret(text, left):
    assert shown(text) == left
    assert "SEC" not in left
