"""Hostile requests against a real server in a process of its own."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from hostile.requests import COUNT, requests
from hostile.sample import FULL, sample
from serve.served import ended, photo

ANSWERS = {200, 202, 400, 403, 404, 405, 408, 413, 421, 422, 503}  # 503: the queue is full
EVERY = 10  # of them is in the sample


@pytest.fixture
def process(tmp_path):
    """A server; `process.used()` is what it uses once it has come to rest."""
    command = [sys.executable, "-m", "serve.served", str(tmp_path / "results")]
    # With one arena for all threads, memory that was freed can be told from memory that is used.
    place = {"cwd": Path(__file__).parent.parent, "env": {**os.environ, "MALLOC_ARENA_MAX": "1"}}
    with (
        (tmp_path / "log").open("w+") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, **place
        ) as process,
    ):
        process.url = process.stdout.readline().strip()
        process.log = tmp_path / "log"

        def used():
            process.stdin.write("\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        process.used = used
        yield process
        process.stdin.close()
        assert process.wait(30) == 0


def wrong(attack, port):
    """What is wrong with the answer to an attack; "" where nothing is."""
    status, seconds = attack.run(port)
    if seconds > 5:
        return f"answered after {seconds:.1f} s"
    return "" if status in ANSWERS or (status == 0 and attack.lost) else f"answered {status}"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process uses is read from /proc")
def test_hostile_requests(process):
    port = urlsplit(process.url).port
    with ThreadPoolExecutor(8) as pool:

        def storm(attacks):
            answers = {name: pool.submit(lambda make=make: wrong(make(), port)) for name, make in attacks}
            return {name: answer.result(timeout=120) for name, answer in answers.items()}

        everyday(process.url)
        storm(islice(sample(requests(seed=1), EVERY), 40))  # what is loaded on first use is no leak
        before = process.used()
        endings = storm(sample(requests(), EVERY))
    assert len(endings) == (COUNT if FULL else COUNT // EVERY)
    assert {name: ending for name, ending in endings.items() if ending} == {}
    everyday(process.url)
    after = process.used()
    assert after["memory"] - before["memory"] < 60_000_000, (before, after)
    assert after["files"] <= before["files"] + 2
    assert after["threads"] <= before["threads"] + 8  # those of the thread pool end later
    assert "Traceback" not in process.log.read_text()


def everyday(url):
    """An upload from start to end; what hides behind the end of its JPEG goes nowhere."""
    with httpx.Client(base_url=url, timeout=30) as client:
        for _ in range(50):  # the server may still be busy with what came before
            answer = client.post("/api/jobs?regions=grid:4x4", content=photo() + b"<script>alert(1)</script>")
            if answer.status_code != 503:
                break
            assert answer.headers["retry-after"] == "10"
            time.sleep(0.2)
        assert answer.status_code == 202, answer.text
        name = answer.json()["id"]
        assert ended(client, name)["state"] == "done"
        answer = client.get(f"/api/results/{name}")
        assert answer.json()["explanations"][0]["kind"] == "mask"
        assert b"alert(1)" not in client.get(f"/api/results/{name}/report.html").content
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
