import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter

import pytest

from whymask import WhymaskError
from whymask.bench import cluster
from whymask.bench.cluster import _requeued
from whymask.bench.config import config
from whymask.bench.records import Store
from whymask.bench.runner import run
from whymask.bench.work import Planned, Queue, Work
from whymask.data.manifest import Sample
from whymask.models.packages import optional

from bench.made_up import ordering, row
from bench.toy import finish, lines, lines_so_far, photos, results, start, table, toml

# Two slots, whatever the machine has.
MAIN = """
import ray
from whymask.cli import main

ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
main()
"""
# In the middle of its work it leaves a file with its threads, named by its process, and waits to be released.
TOY = """
import os
import time
from itertools import count
from pathlib import Path

import torch


def load(workers):
    calls = count()

    def score(images):
        if next(calls) == 20:
            Path(workers, str(os.getpid())).write_text(str(torch.get_num_threads()))
            while not Path(workers, "released").exists():
                time.sleep(0.01)
        return images.mean(axis=(1, 2, 3)) / 255

    return score
"""


@pytest.mark.skipif(optional("ray") is None, reason="ray is not installed")
def test_a_killed_worker_changes_nothing(tmp_path, monkeypatch):
    photos(tmp_path, 24)
    workers = tmp_path / "workers"
    workers.mkdir()
    (tmp_path / "toy.py").write_text(TOY)
    models = [{"id": "toy.py:load", "name": "toy", "options": {"workers": str(workers)}}]  # relative to where it runs
    given = table(tmp_path, models=models, seeds=[0], keep="masks")
    words = ["bench", "run", toml(tmp_path / "bench.toml", given), "--ray", "auto", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)], stdout=-1, stderr=-1, text=True, cwd=tmp_path
    )
    while process.poll() is None and (len(list(workers.iterdir())) < 2 or not lines_so_far(tmp_path / "run")):
        time.sleep(0.01)
    held = list(workers.iterdir())
    assert [file.read_text() for file in held] == ["1", "1"]
    os.kill(int(held[0].name), signal.SIGKILL)
    (workers / "released").touch()
    code, out, err = finish(process)
    assert code == 0, err
    assert out.splitlines()[-1] == f"48 of 48 results are there in {tmp_path}/run."  # after what Ray says of the victim
    assert len({record["key"] for record in lines(tmp_path / "run")}) == len(lines(tmp_path / "run")) == 48
    (records,) = (tmp_path / "run").glob("records-*.jsonl")
    assert records.name.startswith(f"records-{process.pid}-")
    (regions,) = (tmp_path / "run" / "regions").iterdir()  # kept by the same process, one file for one grid
    assert {record["layout"] for record in lines(tmp_path / "run")} == {regions.stem}
    monkeypatch.chdir(tmp_path)
    run(config({**given, "out": str(tmp_path / "alone")}), quiet=True)
    assert results(tmp_path / "run") == results(tmp_path / "alone")
    before = regions.read_bytes()
    regions.unlink()  # what is lost of it is written again
    subprocess.run([sys.executable, "-c", MAIN, *map(str, words)], capture_output=True, check=True)
    assert regions.read_bytes() == before


# Prints which process is its head, and waits for it, and for what else Ray has started, less than usual.
BEHEADED = """
import os
import sys
import ray
from whymask.bench import cluster
from whymask.cli import main

ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="error")
node = ray._private.worker._global_node
print(node.all_processes["gcs_server"][0].process.pid, flush=True)
cluster.EVERY, cluster.PATIENCE = 0.2, 1.0
try:
    main()
except SystemExit as end:
    sys.stderr.flush()
    node.kill_all_processes(check_alive=False, allow_graceful=False)
    os._exit(end.code)
"""


@pytest.mark.skipif(optional("ray") is None, reason="ray is not installed")
def test_a_lost_head_is_reported_with_its_own_exit_code(place):
    slow = [{"id": f"{place}/toy.py:load", "name": "toy", "options": {"pause": 0.05}}]
    file = toml(place / "bench.toml", table(place, models=slow, methods=["greedy"]))
    words = ["bench", "run", str(file), "--ray", "auto", "--quiet"]
    process = subprocess.Popen([sys.executable, "-c", BEHEADED, *words], stdout=-1, stderr=-1, text=True, cwd=place)
    head = int(process.stdout.readline())
    while process.poll() is None and not lines_so_far(place / "run"):
        time.sleep(0.01)
    os.kill(head, signal.SIGKILL)
    code, out, err = finish(process)
    assert (code, out) == (3, "")
    (line,) = [line for line in err.splitlines() if line.startswith("whymask: ")]  # Ray may have warnings of its own
    assert re.fullmatch(
        r"whymask: the head of the Ray cluster, [\w.:]+, was lost\. "
        rf"The same command goes on from the records in {place}/run\.",
        line,
    )
    assert 0 < len(lines(place / "run")) < 14


class RefusingRay:
    """A Ray whose head answers and does not let this process in."""

    __version__ = "9.9"

    class exceptions:  # noqa: N801
        RayError = type("RayError", (Exception,), {})

    def is_initialized(self):
        return False

    def init(self, *_, **__):
        raise self.error


def test_an_address_that_no_host_has_is_one_sentence():
    with pytest.raises(WhymaskError, match=r"there is no Ray cluster at 'a\.\.b:6379'"), cluster.connected("a..b:6379"):
        pass


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConnectionError, "Failed to connect to Ray cluster"),
        (RefusingRay.exceptions.RayError, "The token cannot be read."),
        (RuntimeError, "Version mismatch:\n  9.8"),
    ],
)
def test_a_ray_that_refuses_is_not_called_missing(monkeypatch, kind, text):
    ray = RefusingRay()
    ray.error = kind(text)
    monkeypatch.setattr(cluster, "optional", lambda name: ray)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(WhymaskError) as caught, cluster.connected(address):
            pass
    assert str(caught.value) == (
        f"cannot connect to the Ray cluster at {address!r}: {' '.join(text.split()).rstrip('.')}. Its version must be "
        "9.9; if it requires a token, set RAY_AUTH_TOKEN."
    )
    with pytest.raises(WhymaskError, match="there is no Ray cluster at"), cluster.connected(address):
        pass


def test_a_sample_that_costs_workers_is_given_up(tmp_path):
    store, one = Store(tmp_path), row("greedy")
    work = Work([(Sample(name, f"{name}.png"), name) for name in "ab"], [Planned(one, None, (0, 1))])
    queue, lost = Queue([], store), Counter()
    assert list(_requeued(work, queue, lost)) == []
    alone = [*queue.waiting]
    assert [[sample.id for sample, _ in work.samples] for work in alone] == [["b"], ["a"]]
    queue.waiting.clear()
    store.declare([one])
    store.append({"key": one.key("a", 0), "row": one.hash, "sample": "a", "seed": 0, **ordering(0.5)})
    assert list(_requeued(alone[1], queue, lost)) == []
    assert [*queue.waiting] == [alone[1]]
    (told,) = _requeued(alone[1], queue, lost)  # what it had found stays
    assert told == {
        "key": one.key("a", 1), "row": one.hash, "sample": "a", "seed": 1,
        "error": "the worker died 2 times on this sample alone",
    }  # fmt: skip


def test_without_ray_one_sentence(place):
    (place / "ray.py").write_text("raise ImportError")
    path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    command = start(
        "run", toml(place / "b.toml", table(place)), "--ray", "auto", env={**os.environ, "PYTHONPATH": path}
    )
    assert finish(command) == (2, "", "whymask: --ray needs Ray: pip install 'whymask[bench]'.\n")
