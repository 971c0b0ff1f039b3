"""What-ifs: the model of a past result is asked about any of its regions."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import httpx
import numpy as np
import pytest

import whymask
from whymask.explainer.restored import WhatIf
from whymask.serve import what_if
from whymask.serve.connections import Connection
from whymask.serve.history import History

from models.tiny import lit, quadrants
from serve.served import Slow, photo, serving, until, used

NAMES = [f"{number:016x}" for number in range(1, 7)]
RNG = np.random.default_rng(0)
SETS = [np.flatnonzero(row).tolist() for row in RNG.random((200, 16)) < 0.5]


@pytest.fixture(scope="module")
def found():
    return [
        whymask.explain(lit(corner % 4, 96), quadrants(share=0.5), regions="grid:4x4", k=3, seed=corner)
        for corner in range(len(NAMES))
    ]


@pytest.fixture
def server(tmp_path, found):
    """A server whose past results are of a model that it has not loaded yet."""
    for name, result in zip(NAMES, found, strict=True):
        History(tmp_path).save(name, result)
    models = {"quadrants": partial(quadrants, share=0.5), "slow": Slow(0.02).model}
    with serving(tmp_path, models, patience=60) as (url, jobs), httpx.Client(base_url=url, timeout=20) as client:
        yield client, jobs


def ask(client, name, regions):
    return client.post(f"/api/results/{name}/what-if", json={"regions": regions})


def test_the_model_is_asked(server, found):
    client, jobs = server
    for name, result in zip(NAMES[:2], found, strict=False):
        direct = WhatIf(result, quadrants(share=0.5))
        for regions in ([], [0, 5, 10], [*range(16)], [*result.regions]):
            expected = direct.ask(regions)
            answer = ask(client, name, regions).json()
            assert answer == {"score": pytest.approx(expected.score, abs=1e-6), "answers": [*expected.answers]}
    assert ask(client, NAMES[0], [*found[0].regions]).json()["score"] == pytest.approx(found[0].score, abs=1e-5)
    assert {*jobs.what_ifs.held} == {(name, 0) for name in NAMES[:2]}


def test_a_few_results_are_held_and_the_others_made_again(server, found):
    client, jobs = server
    first = [ask(client, name, [1, 2, 3]).json() for name in NAMES]
    assert list(jobs.what_ifs.held) == [(name, 0) for name in NAMES[-what_if.HELD :]]
    assert [ask(client, name, [1, 2, 3]).json() for name in NAMES] == first
    assert len(jobs.what_ifs.held) == what_if.HELD
    client.delete(f"/api/results/{NAMES[-1]}")
    assert (NAMES[-1], 0) not in jobs.what_ifs.held
    assert ask(client, NAMES[-1], [1]).status_code == 404


def test_of_several_answers_each_has_its_own_score(tmp_path):
    """The server has not searched: it restores the masks from the file."""
    several = whymask.explain(lit(1, 96), quadrants(share=0.5), regions="grid:4x4", k=3, top=3)
    History(tmp_path).save(NAMES[0], several)
    models = {"quadrants": partial(quadrants, share=0.5)}
    with serving(tmp_path, models) as (url, jobs), httpx.Client(base_url=url, timeout=20) as client:
        for number, mask in enumerate(several):
            expected = WhatIf(mask, quadrants(share=0.5)).ask([0, 1, 6])
            answer = client.post(f"/api/results/{NAMES[0]}/what-if", json={"regions": [0, 1, 6], "mask": number}).json()
            assert answer == {"score": pytest.approx(expected.score, abs=1e-6), "answers": [*expected.answers]}
        assert len({held.case.bound.target.label for held in jobs.what_ifs.held.values()}) == 3
        for wrong in (3, -1, "0", None, 1.5, True):
            reply = client.post(f"/api/results/{NAMES[0]}/what-if", json={"regions": [0], "mask": wrong})
            assert reply.status_code == 400
            assert "mask" in reply.json()["error"]
        client.delete(f"/api/results/{NAMES[0]}")
        assert jobs.what_ifs.held == {}


def test_a_result_that_is_deleted_while_it_is_loaded_is_not_held(server, monkeypatch):
    client, jobs = server
    load = jobs.history.load

    def loaded_and_deleted(name):
        result = load(name)
        jobs.history.delete(name)
        jobs.forget(name)
        return result

    monkeypatch.setattr(jobs.history, "load", loaded_and_deleted)
    assert ask(client, NAMES[0], [1]).status_code == 404
    assert (NAMES[0], 0) not in jobs.what_ifs.held


def test_a_running_job_answers_between_two_batches(server):
    client, jobs = server
    ask(client, NAMES[0], [])  # its model is loaded
    name = client.post("/api/jobs?model=slow&method=greedy&regions=grid:8x8", content=photo()).json()["id"]
    job = jobs.jobs[name]
    until(lambda: job.forwards > 8)
    scores = [ask(client, NAMES[0], regions).json()["score"] for regions in SETS[:8]]
    assert job.state == "running"  # it takes 4160 forwards: a thousand batches
    assert job.forwards < 400
    jobs.cancel(job)
    until(lambda: job.over)
    assert [ask(client, NAMES[0], regions).json()["score"] for regions in SETS[:8]] == scores


def test_a_job_finds_the_same_when_questions_come_between(tmp_path):
    """Of the very image and model that is searched."""
    model = quadrants(share=0.5)
    model.batch_size = 2
    image = photo(96)
    wish = "/api/jobs?method=greedy&regions=grid:4x4"
    with serving(tmp_path, {"quadrants": lambda: model}) as (url, jobs), httpx.Client(base_url=url) as client:

        def run():
            name = client.post(wish, content=image).json()["id"]
            until(lambda: jobs.jobs[name].over)
            return name

        alone = run()
        ask(client, alone, [])
        asked, stop = [], threading.Event()

        def disturb():
            while not stop.is_set():
                asked.append(ask(client, alone, SETS[len(asked) % 200]).status_code)

        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(disturb)
            disturbed = run()
            stop.set()
            other.result(timeout=20)
        assert set(asked) == {200}
        first, second = (jobs.history.load(name) for name in (alone, disturbed))
    assert second.order == first.order
    assert second.ledger.as_dict() == first.ledger.as_dict()
    np.testing.assert_array_equal(second.curves.insertion, first.curves.insertion)


def test_two_users_do_not_disturb_each_other(server):
    client, _ = server
    expected = {name: [ask(client, name, regions).json() for regions in SETS[:40]] for name in NAMES[:2]}

    def user(name):
        with httpx.Client(base_url=client.base_url, timeout=20) as own:
            return [ask(own, name, regions).json() for regions in SETS[:40]]

    with ThreadPoolExecutor(3) as pool:
        several = list(pool.map(user, [NAMES[0], NAMES[1], NAMES[0]]))
    assert several == [expected[NAMES[0]], expected[NAMES[1]], expected[NAMES[0]]]


def test_200_toggles_leave_nothing_behind(server):
    client, jobs = server
    ask(client, NAMES[0], SETS[0])
    before = used(jobs)
    for regions in SETS:
        assert ask(client, NAMES[0], regions).status_code == 200
    after = used(jobs)
    assert (after["files"], after["threads"]) == (before["files"], before["threads"])
    assert after["memory"] - before["memory"] < 20e6
    assert not jobs.what_ifs.waiting
    (held,) = jobs.what_ifs.held.values()
    distinct = len({tuple(regions) for regions in SETS})
    assert sum(len(filled.responses.scores) for filled in held.case.fills) <= 3 * (distinct + 2)


def test_an_answer_does_not_wait_for_its_second_packet(server, monkeypatch):
    """Nagle's algorithm together with delayed acknowledgements costs 40 ms."""
    client, _ = server
    begin, sockets = Connection.connection_made, []

    def begun(self, transport):
        begin(self, transport)
        sockets.append(transport.get_extra_info("socket"))

    monkeypatch.setattr(Connection, "connection_made", begun)
    with httpx.Client(base_url=client.base_url) as fresh:
        fresh.get("/")
        assert [one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets] == [1]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"regions": [16]}', 400),
        (b'{"regions": [-1]}', 400),
        (b'{"regions": [1, 1]}', 400),
        (b'{"regions": [true]}', 400),
        (b'{"regions": [1.5]}', 400),
        (b'{"regions": "1"}', 400),
        (b'{"regions": {}}', 400),
        (b'{"region": [1]}', 400),
        (b"[" * 50_000, 400),
        (b"\xff\xfe", 400),
        (b"", 400),
        (b" " * 100_000, 413),
    ],
)
def test_other_questions_are_refused(server, body, status):
    client, _ = server
    answer = client.post(f"/api/results/{NAMES[0]}/what-if", content=body)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")
    assert ask(client, NAMES[0], [1]).status_code == 200


def test_results_of_other_models_are_not_asked_about(server, found):
    client, jobs = server
    for model, word in (("elsewhere", "does not have elsewhere"), ("quadrants", "has changed")):
        jobs.history.save("f" * 16, replace(found[0], provenance={**found[0].provenance, "model": model,
                                                                  "model_fingerprint": "other"}))  # fmt: skip
        answer = ask(client, "f" * 16, [1])
        assert (answer.status_code, word in answer.json()["error"]) == (400, True)
    assert ask(client, "0" * 16, [1]).status_code == 404
    (jobs.history.folder / f"{'e' * 16}.npz").write_bytes(b"no archive")
    assert ask(client, "e" * 16, [1]).status_code == 400


def test_a_model_that_fails_says_so_and_the_worker_goes_on(server, found, monkeypatch):
    client, jobs = server
    good = ask(client, NAMES[0], [1]).json()
    model = jobs.loaded["quadrants"]
    with monkeypatch.context() as broken:
        broken.setattr(model, "respond", lambda *_: 1 / 0)
        answer = ask(client, NAMES[0], [2])
        assert (answer.status_code, "ZeroDivisionError" in answer.json()["error"]) == (422, True)
    assert ask(client, NAMES[0], [1]).json() == good


def test_too_many_questions_and_a_busy_model_are_told(tmp_path, found, monkeypatch):
    History(tmp_path).save(NAMES[0], found[0])
    go_on = threading.Event()

    def load():
        go_on.wait(20)
        return quadrants(share=0.5)

    monkeypatch.setattr(what_if, "PATIENCE", 0.5)
    with serving(tmp_path, {"quadrants": load}) as (url, jobs), ThreadPoolExecutor(40) as pool:
        post = partial(httpx.post, f"{url}/api/results/{NAMES[0]}/what-if", json={"regions": [1]}, timeout=20)
        answers = [one.result(timeout=20) for one in [pool.submit(post) for _ in range(what_if.MOST_WAITING + 4)]]
        errors = {answer.json()["error"] for answer in answers}
        assert {answer.status_code for answer in answers} == {503}
        assert "the model is busy or still loading; try again in a moment." in errors
        assert "too many questions are waiting; try again in a moment." in errors
        go_on.set()
        until(lambda: not jobs.what_ifs.waiting)
        assert post().status_code == 200


def test_questions_end_with_the_server(tmp_path, found):
    History(tmp_path).save(NAMES[0], found[0])
    go_on = threading.Event()

    def load():
        go_on.wait(20)
        return quadrants(share=0.5)

    with ThreadPoolExecutor(2) as pool:
        with serving(tmp_path, {"quadrants": load}) as (url, jobs):
            post = partial(httpx.post, f"{url}/api/results/{NAMES[0]}/what-if", json={"regions": [1]}, timeout=20)
            first = pool.submit(post)
            until(lambda: jobs.what_ifs.held == {} and not jobs.what_ifs.waiting)
            threading.Timer(0.3, go_on.set).start()
        assert not jobs.worker.is_alive()
        first.exception(timeout=20)  # an answer, or the connection was closed: it ends
