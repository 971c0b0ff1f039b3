"""The web view on a free port, in this process or in one of its own."""

import ctypes
import gc
import json
import socket
import sys
import threading
import time
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

import whymask
from whymask.serve.app import create_app
from whymask.serve.connections import Server


class Slow:
    """A function over images that takes its time and counts its batches; the brighter the better."""

    def __init__(self, seconds=0.0):
        self.seconds, self.batches = seconds, 0

    def __call__(self, images):
        self.batches += 1
        if self.seconds < 0:
            raise RuntimeError("a broken model")
        time.sleep(self.seconds)
        return images.mean(axis=(1, 2, 3)) / 255

    def model(self):
        model = whymask.wrap(self, size=32)
        model.batch_size = 4
        return model


@contextmanager
def serving(folder, models, log_level="critical", **limits):
    """Serve until the end of the block; yields the address and the jobs."""
    app = create_app(models, folder, **{"hosts": {"127.0.0.1"}, **limits})
    listening = socket.create_server(("127.0.0.1", 0))
    running = Server(app, log_level=log_level)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", app.state.jobs
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive()


def picture(size=64, seed=0):
    """A small image of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3)).astype(np.uint8))


def photo(size=64, seed=0):
    """The bytes of a small JPEG."""
    encoded = BytesIO()
    picture(size, seed).save(encoded, format="JPEG")
    return encoded.getvalue()


def until(condition):
    """Wait for something that happens in another thread."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def ended(client, name, seconds=20):
    """Ask about a job until it is over."""
    end = time.monotonic() + seconds
    while (job := client.get(f"/api/jobs/{name}").json())["state"] in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.05)
    return job


def used(jobs):
    """What this process uses once its jobs are over: resident bytes, open files, threads."""
    until(lambda: all(job.over for job in list(jobs.jobs.values())))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "memory": 1024 * int(status["VmRSS"].split()[0]),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": int(status["Threads"]),
    }


if __name__ == "__main__":
    limits = {"waiting": 50, "patience": 2, "body_seconds": 1.5, "log_level": "warning"}
    with serving(Path(sys.argv[1]), {"bright": Slow().model}, **limits) as (url, jobs):
        print(url, flush=True)
        for _ in sys.stdin:
            print(json.dumps(used(jobs)), flush=True)
