"""A real HTTP server in a thread, with the faults that real ones have."""

import json
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO

import numpy as np
from PIL import Image

from whymask.models.http import HttpModel

from models.tiny import lit

DROP = "drop"  # close the connection without an answer


@dataclass
class Log:
    """What a server has seen."""

    url: str
    bodies: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    paths: list = field(default_factory=list)
    kill: Callable = None  # stop answering, hang up, and listen no more
    under_way: int = 0
    most_under_way: int = 0


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args):
        super().__init__(*args)
        self.connections = []

    def process_request(self, request, client_address):
        self.connections.append(request)
        super().process_request(request, client_address)

    def kill(self):
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        """A client that hung up on a slow answer is part of the tests."""


@contextmanager
def serving(answer, fault=None, tls=None):
    """Serve `answer(body) -> JSON value, bytes, or (status, headers, value)` on a free port.

    `fault(number of the request)` may sleep, return DROP, or return an answer to give instead. With an `ssl.SSLContext`
    as `tls`, by HTTPS.
    """
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                log.bodies.append(body)
                log.headers.append(dict(self.headers))
                log.paths.append(self.path)
                log.under_way += 1
                log.most_under_way = max(log.most_under_way, log.under_way)
                number = len(log.bodies)
            try:
                reply = fault(number) if fault else None
                reply = answer(body) if reply is None else reply
            finally:
                with lock:
                    log.under_way -= 1
            if reply == DROP:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            status, headers, value = reply if isinstance(reply, tuple) else (200, {}, reply)
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    log = Log(f"{scheme}://127.0.0.1:{server.server_port}", kill=server.kill)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield log
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def decode(text):
    """The pixels (H, W, 3) of a PNG in base64."""
    image = Image.open(BytesIO(b64decode(text)))
    assert (image.format, image.mode) == ("PNG", "RGB")
    return np.asarray(image)


def quadrant_probabilities(images):
    """Probabilities (B, 4) by the mean brightness of each quadrant of images (B, H, W, 3)."""
    height, width = (side // 2 for side in images.shape[1:3])
    halves = (images[:, :height], images[:, height:])
    means = [part.mean(axis=(1, 2, 3)) for half in halves for part in (half[:, :, :width], half[:, :, width:])]
    raw = np.exp(6 * np.stack(means, axis=1) / 255)
    return raw / raw.sum(axis=1, keepdims=True)


def fault_every(period, what):
    """A fault for every period-th request, whichever it is: sleep `what` seconds, or give `what` as the answer.

    Requests under way at once arrive in any order, so a fault may also hit each retry of one request: with a short
    period, five times in a row.
    """

    def fault(number):
        if number % period:
            return None
        if isinstance(what, float):
            time.sleep(what)
            return None
        return what

    return fault


def ask_once(server_or_url, **options):
    """An HttpModel and a function that asks it about one image."""
    model = HttpModel(getattr(server_or_url, "url", server_or_url), **options)
    bound = model.bind(lit(0), target=0)
    return model, lambda: model.respond(bound.inputs[None], [bound])
