import asyncio
import contextlib
import gc
import gzip
import os
import socket
import threading
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.models.endpoints import Endpoint
from whymask.models.function import FunctionModel
from whymask.models.http import HttpModel
from whymask.models.posting import LARGEST_REPLY, asked_to_wait

from models.serving import DROP, ask_once, decode, fault_every, quadrant_probabilities, serving
from models.tiny import QUADRANTS, lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")
SEARCH = {"method": "trace", "regions": "grid:4x4", "k": 4, "params": {"rounds": 2, "samples": 24}}


def answer(body):
    """What a user's server does: class number, class name, or its own favourite."""
    values = quadrant_probabilities(np.stack([decode(image) for image in body["images"]]))
    target = body["target"]
    column = QUADRANTS.index(target) if isinstance(target, str) else 2 if target is None else target
    return {"scores": values[:, column].tolist(), "top": values.argmax(axis=1).tolist()}


def local(**options):
    return FunctionModel(quadrant_probabilities, labels=QUADRANTS, **options)


def same(found, expected):
    assert found.regions == expected.regions
    assert (found.score, found.removed_score) == (expected.score, expected.removed_score)
    assert (found.image.full_score, found.image.blank_score) == (expected.image.full_score, expected.image.blank_score)
    assert found.ledger.as_dict()["mec"] == expected.ledger.as_dict()["mec"]


@pytest.mark.parametrize(("target", "label"), [("top right", "top right"), (1, "1")])
def test_a_server_explains_as_its_function_does(target, label):
    image = lit(1)
    expected = whymask.explain(image, local(), target=1, **SEARCH)
    with serving(answer) as server:
        model = HttpModel(f"{server.url}/score", batch_size=5)
        found = whymask.explain(image, model, target=target, **SEARCH)
    same(found, expected)
    assert found.target.label == label
    assert model.spending.spent.retries == 0
    assert {len(body["images"]) for body in server.bodies} <= set(range(1, 6))
    assert all(body["target"] == target for body in server.bodies)
    assert all(set(body) == {"images", "target"} for body in server.bodies)
    assert found.provenance["url"] == f"{server.url}/score"


def test_without_a_target_the_server_decides():
    with serving(answer) as server:
        found = whymask.explain(lit(2), HttpModel(server.url), **SEARCH)
    same(found, whymask.explain(lit(2), local(), target=2, **SEARCH))
    assert found.target.label == "the server's answer"
    assert {body["target"] for body in server.bodies} == {None}


@pytest.mark.parametrize(
    ("fault", "timeout", "retried"),
    [
        (fault_every(5, 0.8), 0.4, True),
        (fault_every(2, 0.05), 5.0, False),
        (fault_every(8, (500, {}, {"error": "now and then"})), 5.0, True),
        (fault_every(8, (429, {"Retry-After": "0"}, {})), 5.0, True),
        (fault_every(8, DROP), 5.0, True),
    ],
    ids=["too slow", "slow", "500 now and then", "429", "drops the connection"],
)
def test_faults_do_not_change_the_answer(fault, timeout, retried):
    image = lit(3)
    with serving(answer, fault) as server:
        model = HttpModel(server.url, timeout=timeout, batch_size=6)
        found = whymask.explain(image, model, target=3, **SEARCH)
    same(found, whymask.explain(image, local(), target=3, **SEARCH))
    spent = model.spending.spent
    assert (spent.retries + spent.hedges > 0) == retried


def test_scores_are_in_the_order_of_the_rows_also_with_several_targets():
    images = [lit(quadrant) for quadrant in range(4)] * 3
    with serving(answer, fault_every(1, 0.1)) as server:
        model = HttpModel(server.url, batch_size=2, concurrency=3)
        assert model.batch_size == 12
        bounds = [model.bind(image, target=i % 3) for i, image in enumerate(images)]
        scores = model.respond(np.stack(images), bounds).score
    expected = quadrant_probabilities(np.stack(images))[np.arange(12), np.arange(12) % 3]
    np.testing.assert_array_equal(scores, expected)
    assert server.most_under_way == 3


def test_larger_pictures_are_reduced_to_max_side():
    with serving(lambda body: {"scores": [0.5] * len(body["images"])}) as server:
        model = HttpModel(server.url, max_side=20)
        bound = model.bind(np.zeros((30, 40, 3), np.uint8))
        model.respond(bound.inputs[None], [bound])
    assert decode(server.bodies[0]["images"][0]).shape == (15, 20, 3)


@pytest.fixture
def waits(monkeypatch):
    """The pauses that endpoints make after failures, in seconds, noted instead of made."""
    noted = []
    failed = Endpoint.failed

    def note(self, before, now, **options):
        failed(self, before, now, **options)
        noted.append(self.left_out - now)
        self.left_out = now

    monkeypatch.setattr(Endpoint, "failed", note)
    return noted


@pytest.mark.parametrize(
    ("fault", "timeout", "words"),
    [
        ((503, {}, {"detail": "no GPU"}), 5.0, r"answered 503 Service Unavailable \(no GPU\)"),
        (DROP, 5.0, r"could not be reached \(Server disconnected.*\)"),
        (0.5, 0.2, r"did not reply within 0\.2 s"),
    ],
)
def test_after_the_last_retry_the_error_says_what_happened(fault, timeout, words, waits):
    with serving(answer, fault_every(1, fault)) as server:
        model, ask = ask_once(server, retries=2, timeout=timeout)
        with pytest.raises(WhymaskError, match=rf"^{server.url} {words}; gave up after 3 tries\.$"):
            ask()
    assert waits == pytest.approx([0.1, 0.2, 0.4])
    assert len(server.bodies) == 3
    assert model.spending.spent.retries == 2


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/score"
        with pytest.raises(WhymaskError, match=rf"{url} could not be reached \(.+\); gave up after 2 tries"):
            ask_once(url, retries=1)[1]()


def test_an_answer_that_never_ends_is_a_timeout():
    """Every byte arrives in time, the whole does not."""

    def trickle(listener, stop):
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n")
            for _ in range(200):
                if stop.wait(0.05):
                    return
                try:
                    connection.sendall(b"A: b\r\n")
                except OSError:  # the other side has hung up, as it should
                    return
        finished.set()

    stop, finished = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener, stop))
        thread.start()
        try:
            with pytest.raises(WhymaskError, match=r"did not reply within 0\.3 s; gave up after 1 try\."):
                ask_once(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.3, retries=0)[1]()
            assert not finished.is_set()  # the server was still sending: nobody waited for it
        finally:
            stop.set()
            thread.join()


def test_one_failure_ends_the_other_requests():
    """A hundred images that the server refuses one by one cost a few requests, not a hundred times all retries."""
    with serving(answer, fault_every(1, (500, {}, {}))) as server:
        model = HttpModel(server.url, batch_size=1, retries=1, concurrency=2)
        bound = model.bind(lit(0), target=0)
        with pytest.raises(WhymaskError, match="gave up after 2 tries"):
            model.respond(np.stack([bound.inputs] * 100), [bound] * 100)
    assert len(server.bodies) <= 6


@pytest.mark.parametrize("status", [400, 404, 301])
def test_other_statuses_fail_at_once(status):
    page = (status, {"Content-Type": "text/html", "Location": "/"}, b"<html>no</html>")
    words = rf"answered {status} [A-Z][A-Za-z ]+; gave up after 1 try\.$"
    with serving(lambda body: page) as server, pytest.raises(WhymaskError, match=words):
        ask_once(server)[1]()
    assert len(server.bodies) == 1


def test_waits_as_long_as_the_server_asks(waits):
    with serving(answer, lambda number: (429, {"Retry-After": "1"}, {}) if number == 1 else None) as server:
        model, ask = ask_once(server)
        ask()
    assert waits == pytest.approx([1.0])
    assert model.spending.spent.retries == 1


def test_a_date_to_wait_for():
    soon = datetime.now(UTC) + timedelta(seconds=100)
    for text in (format_datetime(soon, usegmt=True), soon.strftime("%a, %d %b %Y %H:%M:%S -0000")):
        assert 90 < asked_to_wait(text) <= 100
    for text in ("Thu, 01 Jan 1970 00:00:00 GMT", "", "-5", "1e9", "²", "tomorrow", "Thu, 99 Jan 1970 00:00:00 GMT"):
        assert asked_to_wait(text) == 0


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"<html>hello</html>", "answered 200 OK but not with JSON"),
        (b"\xff\xfe", "answered 200 OK but not with JSON"),
        ({"score": [0.5]}, "must return"),
        ([0.5], "must return"),
        ({"scores": 0.5}, "must return"),
        ({"scores": ["0.5"]}, "a list of numbers"),
        ({"scores": [None]}, "a list of numbers"),
        ({"scores": [True]}, "a list of numbers"),
        ({"scores": [[0.5]]}, "a list of numbers"),
        (b'{"scores": [NaN]}', "a list of numbers"),
        (b'{"scores": [-Infinity]}', "a list of numbers"),
        (b'{"scores": [1e999]}', "a list of numbers"),
        (b'{"scores": [%s]}' % (b"1" * 400), "a list of numbers"),
        (b'{"scores": [%s]}' % (b"1" * 40_000), "a list of numbers"),
        (b'{"scores": %s' % (b"[" * 100_000), "answered 200 OK but not with JSON"),
        (b'{"scores": ["\xc3"]}', "answered 200 OK but not with JSON"),
        ((204, {}, b""), "answered 204 No Content but not with JSON"),
        ((200, {"Content-Type": "image/png"}, b"\x89PNG\r\n"), "answered 200 OK but not with JSON"),
        ((200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"scores": [0.5]}')), "compressed content"),
        ({"scores": [0.5, 0.5]}, "was sent 1 images but returned 2 scores"),
    ],
)
def test_a_malformed_answer_is_one_sentence(reply, words):
    with serving(lambda body: reply) as server, pytest.raises(WhymaskError, match=words) as caught:
        ask_once(server)[1]()
    assert server.url in str(caught.value)
    assert len(server.bodies) == 1


def test_json_need_not_be_declared():
    headers = {"Content-Type": "text/plain", "Content-Encoding": "Identity"}
    with serving(lambda body: (200, headers, b'{"scores": [1]}')) as server:
        assert ask_once(server)[1]().score.tolist() == [1.0]


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
def test_of_an_endless_reply_only_the_beginning_is_read(status):
    sent = 0

    def pour(listener):
        nonlocal sent
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):  # the other side hangs up, as it should
            connection.recv(2**16)
            connection.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
            while sent < 64 * LARGEST_REPLY:
                sent += connection.send(b"[" * 2**16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=pour, args=(listener,))
        thread.start()
        words = r"200 OK with more than 4 MiB\.$" if status == "200 OK" else r"404 Not Found; gave up after 1 try\.$"
        with pytest.raises(WhymaskError, match=words):
            ask_once(f"http://127.0.0.1:{listener.getsockname()[1]}", retries=0, timeout=20)[1]()
        thread.join()
    assert sent < 8 * LARGEST_REPLY  # the rest were buffers of the two sockets


@pytest.mark.parametrize("status", [200, 400])
def test_a_compressed_bomb_is_not_decompressed(status):
    bomb = gzip.compress(bytes(64 * 2**20), compresslevel=1)
    assert len(bomb) < LARGEST_REPLY
    with serving(lambda body: (status, {"Content-Encoding": "gzip"}, bomb)) as server:
        _, ask = ask_once(server)
        tracemalloc.start()
        try:
            with pytest.raises(WhymaskError, match=f"answered {status}"):
                ask()
            assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
        finally:
            tracemalloc.stop()
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_a_reply_keeps_no_more_than_the_scores():
    """What else a reply holds is dropped when it arrives, not when the last one has."""
    chatty = b'{"scores": [0.5], "more": [' + b"[], " * 50_000 + b"[]]}"  # 3 MiB when parsed
    with serving(lambda body: chatty) as server:
        model = HttpModel(server.url, batch_size=1, concurrency=1)
        bound = model.bind(lit(0), target=0)
        tracemalloc.start()
        try:
            model.respond(np.stack([bound.inputs] * 12), [bound] * 12)
            assert tracemalloc.get_traced_memory()[1] < 12 * 2**20
        finally:
            tracemalloc.stop()


def test_scores_outside_0_and_1_are_refused():
    with (
        serving(lambda body: {"scores": [3.5] * len(body["images"])}) as server,
        pytest.raises(WhymaskError, match=r"\[0, 1\]"),
    ):
        whymask.explain(lit(0), HttpModel(server.url), **SEARCH)


def test_fingerprints_tell_servers_and_preprocessing_apart():
    urls = ["http://a/score", "http://b/score", "http://a/score?model=x", "http://a/score?model=y"]
    prints = {HttpModel(url).fingerprint for url in urls} | {HttpModel(urls[0], max_side=99).fingerprint}
    assert len(prints) == 5
    assert HttpModel(urls[:2]).fingerprint not in prints
    assert HttpModel(urls[:2]).fingerprint == HttpModel("http://b/score, http://a/score,http://b/score").fingerprint
    assert HttpModel(urls[0]).fingerprint == HttpModel(urls[0]).fingerprint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "localhost:8000"}, "must look like http://"),
        ({"url": "http://[::1"}, "must look like http://"),
        ({"url": ["http://a", "b"]}, "must look like http://"),
        ({"url": []}, "must look like http://"),
        ({"url": None}, "must look like http://"),
        ({"url": ["http://ann:pw@a", "http://b"], "headers": {"Authorization": "x"}}, "only one of them"),
        ({"timeout": 0}, "timeout must be a positive"),
        ({"retries": -1}, "retries must be"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"headers": {"X-Key": "line\nbreak"}}, "'X-Key' contains characters"),
    ],
)
def test_bad_settings(options, words):
    with pytest.raises(WhymaskError, match=words):
        HttpModel(**{"url": "http://localhost/score", **options})


def test_bad_binds():
    model = HttpModel("http://localhost/score", name="mine")
    with pytest.raises(WhymaskError, match="mine takes a target, not a question"):
        model.bind(lit(0), question="Is there a dog?")
    with pytest.raises(WhymaskError, match="at least 0, not -1"):
        model.bind(lit(0), target=-1)


def test_works_where_an_event_loop_is_running():
    async def notebook():
        return ask()

    with serving(answer) as server:
        _, ask = ask_once(server)
        assert asyncio.run(notebook()).score[0] == quadrant_probabilities(lit(0)[None])[0, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_is_told_to_make_the_model_again():
    _, ask = ask_once("http://localhost/score")
    child = os.fork()
    if child == 0:
        try:
            ask()
        except WhymaskError as error:
            os._exit(0 if "before the process was forked" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_model_that_is_gone_leaves_no_thread():
    before = set(threading.enumerate())
    with serving(answer) as server:
        for _ in range(3):
            model, ask = ask_once(server)
            ask()
        del model, ask
        gc.collect()
    deadline = time.monotonic() + 5
    while not set(threading.enumerate()) <= before and time.monotonic() < deadline:
        time.sleep(0.01)  # an event loop starts a thread even to end those it has
    assert set(threading.enumerate()) <= before
