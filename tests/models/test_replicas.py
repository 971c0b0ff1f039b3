"""Several endpoints as one model: nothing is lost and nothing counted twice, whatever one of them does."""

import asyncio
import json
import os
import signal
import socket
import threading
from contextlib import ExitStack
from time import sleep

import numpy as np
import pytest

import whymask
from whymask import WhymaskError
from whymask.models.chat.messages import encoded
from whymask.models.endpoints import LONGEST_WAIT, Endpoint
from whymask.models.http import HttpModel
from whymask.models.openai_chat import OpenAIChatModel

from models.serving import serving
from models.test_http import SEARCH, answer, local, same
from models.test_openai_chat import QUESTION
from models.test_openai_chat import answer as chat_answer
from models.tiny import lit

pytest.importorskip("httpx", reason="httpx is not installed: whymask[http]")


@pytest.fixture
def replicas():
    """Starts servers of the same answers, one for each fault."""
    with ExitStack() as stack:
        yield lambda *faults, answer=answer: [stack.enter_context(serving(answer, fault)) for fault in faults]


@pytest.fixture
def released():
    """An event that is set when the test is over: what waits for it never answers in time."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def _no_second_copies(monkeypatch):
    """However slow the machine is."""
    monkeypatch.setattr("whymask.models.remote.Remote._may_hedge", False)


def urls(servers):
    return [f"{server.url}/score" for server in servers]


def explained(servers, **options):
    """A search of single images at several endpoints, compared with the same search of the function they serve."""
    model = HttpModel(urls(servers), batch_size=1, **options)
    found = whymask.explain(lit(3), model, target=3, **SEARCH)
    same(found, whymask.explain(lit(3), local(), target=3, **SEARCH))
    return model.spending.spent, found


def answered(servers):
    """How often each body was sent, to all servers together."""
    return [json.dumps(body) for server in servers for body in server.bodies]


@pytest.mark.usefixtures("_no_second_copies")
def test_all_endpoints_work_and_every_image_is_sent_once(replicas):
    servers = replicas(None, None, None)
    spent, found = explained(servers)
    sent = answered(servers)
    assert len(sent) == len(set(sent)) == spent.requests == spent.replies
    assert (spent.retries, spent.hedges) == (0, 0)
    assert found.provenance["url"] == ",".join(urls(servers))
    assert all(server.bodies for server in servers)


@pytest.mark.usefixtures("_no_second_copies")
def test_one_replica_is_killed_in_the_middle(replicas):
    def dies(number):
        if number == 5:
            servers[1].kill()

    servers = replicas(None, dies)
    spent, _ = explained(servers)
    assert 5 <= len(servers[1].bodies) < 5 + 64
    assert spent.retries >= 1
    assert len(set(answered(servers))) == spent.replies  # each image was answered, and counted, once


@pytest.mark.usefixtures("_no_second_copies")
def test_one_replica_is_too_busy(replicas):
    servers = replicas(None, lambda number: (429, {"Retry-After": "1"}, {}))
    spent, _ = explained(servers)
    assert len(set(answered(servers))) == spent.replies
    assert spent.requests == len(answered(servers)) == spent.replies + spent.retries
    assert spent.retries == len(servers[1].bodies) >= 1


def test_one_replica_does_not_answer_in_time(replicas, released):
    """Its requests are overtaken by second copies; none is waited for."""
    servers = replicas(None, lambda number: released.wait())
    spent, _ = explained(servers, timeout=600)
    assert spent.hedges >= 1
    assert spent.requests == spent.replies + spent.hedges
    assert len(set(answered(servers))) == spent.replies
    assert spent.retries == 0


def test_one_replica_is_twenty_times_slower(replicas):
    """It may be overtaken or waited for: results are the same, and no answer is lost or counted twice."""
    servers = replicas(lambda number: sleep(0.005), lambda number: sleep(0.1))
    spent, _ = explained(servers)
    assert len(set(answered(servers))) == spent.replies
    assert len(answered(servers)) <= spent.requests == spent.replies + spent.hedges  # cancelled copies may not arrive
    assert spent.retries == 0


def test_a_single_endpoint_is_sent_the_second_copy_too(replicas, released):
    def stuck(number):
        if number == 20:
            released.wait()

    servers = replicas(stuck)
    spent, _ = explained(servers, timeout=600)
    assert spent.hedges >= 1
    assert len(set(answered(servers))) == spent.replies == spent.requests - spent.hedges


@pytest.mark.parametrize("hedge", [True, False])
def test_answers_drawn_at_random_are_waited_for(replicas, monkeypatch, hedge):
    """Where every request is late at once, and the first waits for its second copy if there may be one."""
    monkeypatch.setattr("whymask.models.remote.Remote._late", 0.0)
    again = threading.Event()

    def first_waits(number):
        again.set() if number > 1 else again.wait(60 if hedge else 0.2)

    remote = HttpModel(urls(replicas(first_waits))).remote
    remote.ask([(empty, str)], hedge=hedge)
    assert remote.spending.spent.hedges == hedge


def empty():
    """A request about one image."""
    return {"images": [encoded(lit(0), "png")], "target": 0}


def test_chat_servers_too(replicas, released, monkeypatch):
    """Also where the very first requests, by which the model learns what the server can do, go to the stuck one."""
    monkeypatch.setattr("whymask.models.remote.UNKNOWN", 0.1)
    servers = replicas(lambda number: released.wait(), None, answer=chat_answer)
    one = replicas(None, answer=chat_answer)
    found = [
        whymask.explain(
            lit(0),
            OpenAIChatModel("tiny-vlm", base_url=",".join(f"{server.url}/v1" for server in some), timeout=600),
            question=QUESTION,
            target="yes",
            **SEARCH,
        )
        for some in (servers, one)
    ]
    same(*found)


@pytest.mark.usefixtures("_no_second_copies")
def test_a_failing_endpoint_is_asked_again(replicas):
    """It is left out after each failure, and takes its share when it works again."""
    servers = replicas(lambda number: (503, {}, {}) if number <= 2 else None, None)
    model = HttpModel(urls(servers), batch_size=1, concurrency=1)
    bound = model.bind(lit(0), target=0)
    broken = model.remote.endpoints[0]
    failures = []
    for _ in range(20):
        broken.left_out = 0.0  # time has passed
        model.respond(np.stack([bound.inputs] * 2), [bound] * 2)
        failures.append(broken.failures)
    assert failures[-1] == 0
    assert max(failures) <= 2
    assert len(servers[0].bodies) > 10


def test_no_endpoint_answers():
    with socket.socket() as one, socket.socket() as other:
        for taken in (one, other):
            taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        places = [f"http://127.0.0.1:{taken.getsockname()[1]}" for taken in (one, other)]
        model = HttpModel(places, retries=1)
        bound = model.bind(lit(0), target=0)
        with pytest.raises(WhymaskError, match=r"could not be reached \(.+\); gave up after [34] tries"):
            model.respond(bound.inputs[None], [bound])


def test_a_misconfigured_endpoint_is_an_error_that_names_it(replicas):
    servers = replicas(None, lambda number: (404, {}, {}))
    with pytest.raises(WhymaskError, match=rf"^{servers[1].url}/score answered 404 Not Found"):
        explained(servers)


@pytest.mark.parametrize("later", range(8))
def test_what_is_cancelled_leaves_its_place(replicas, later):
    """However far it has come: before it is sent, too."""
    servers = replicas(None)
    remote = HttpModel(urls(servers), batch_size=1).remote
    endpoint = remote.endpoints[0]

    async def cancel():
        task = asyncio.create_task(remote._one(lambda: {"images": []}, lambda reply: reply, 1, True))
        while not endpoint.under_way:
            await asyncio.sleep(0)
        for _ in range(later):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert task.cancelled()
        assert endpoint.under_way == 0
        assert remote.spending._waiting == 0

    asyncio.run_coroutine_threadsafe(cancel(), remote._loop).result()


def test_ctrl_c_cancels_what_is_under_way(released):
    gone = threading.Event()

    def wait_for_the_end(listener):
        connection, _ = listener.accept()
        with connection:
            while b"}" not in connection.recv(2**20):
                pass
            os.kill(os.getpid(), signal.SIGINT)
            if connection.recv(1) == b"":  # the client has hung up
                gone.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=wait_for_the_end, args=(listener,), daemon=True)
        thread.start()
        model = HttpModel(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=600)
        bound = model.bind(lit(0), target=0)
        with pytest.raises(KeyboardInterrupt):
            model.respond(bound.inputs[None], [bound])
        assert gone.wait(60)
        thread.join()


class Fixed:
    """A concurrency that only counts."""

    size, overloads = 8, 0

    def overloaded(self):
        self.overloads += 1

    def replied(self, under_way, seconds):
        pass


def test_what_fails_together_is_one_failure():
    endpoint = Endpoint(None, "", Fixed())
    for _ in range(8):
        endpoint.failed(0, 100.0, overloaded=True)
    assert (endpoint.failures, endpoint.concurrency.overloads) == (1, 1)
    assert endpoint.left_out == pytest.approx(100.1)
    assert endpoint.room == 1
    for number in range(1, 20):
        endpoint.failed(number, 200.0, overloaded=False)
    assert endpoint.left_out == 200.0 + LONGEST_WAIT
    assert endpoint.concurrency.overloads == 1
    endpoint.replied(1, 0.05)
    assert endpoint.room == 8


def test_it_is_left_out_as_long_as_it_asks():
    endpoint = Endpoint(None, "", Fixed())
    endpoint.failed(0, 100.0, overloaded=True, wait=7.0)
    endpoint.failed(0, 101.0, overloaded=True, wait=9.0)
    assert endpoint.left_out == 110.0
    endpoint.failed(0, 101.0, overloaded=True, wait=1e6)
    assert endpoint.left_out == 101.0 + LONGEST_WAIT
