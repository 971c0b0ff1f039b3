"""A thousand hostile requests, the same ones for a seed, as the bytes that are sent."""

import random
import socket
import time
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from urllib.parse import quote

from hostile import images

COUNT = 1000
HOST = "127.0.0.1"
LARGEST = 10_000_000  # bytes that the server takes
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO")
VALUES = (
    *("/etc/passwd", "../../trace", "http://127.0.0.1/", "file:///etc/passwd", "C:\\windows", "", " ", "-1", "0"),
    *("1e9", "NaN", "9" * 50, "0x10", "\u0663", "a" * 5000, "\0\xff\xfe", "grid:9999x9999", "slico:-1", "grid:0"),
    *("answer", "0.5", "yes", "example-leaf", "0123456789abcdef"),
    *("$(id)", "'; DROP TABLE", "<script>", "\u202eright", "%s%s%n", "{{7*7}}", "\r\nX: y", "trace", "black"),
)
FIELDS = (
    *("model", "method", "k", "target", "question", "regions", "fill", "resize", "seed", "path", "__class__"),
    *("keep", "alternatives", "want", "words", "result"),
)
PIECES = (
    *("..", "%2e%2e", "..%2f", "%00", ".", "~", "\\", "etc", "passwd", "%F0%28%8C", "a" * 3000, "%0d%0aX:y"),
    *("static", "api", "jobs", "results", "page.html", "viewer.js", "0123456789abcdef", "0123456789ABCDEF"),
    *("report.html", "figure.png", "result.npz", "picture", "events", "docs", "openapi.json"),
)
HEADERS = (
    *("Origin: http://evil.example", "Origin: null", "Origin: http://[", "Sec-Fetch-Site: cross-site"),
    *("Host: evil.example", "Host: 127.0.0.1.evil.example", "Host: [::1", "Host:"),
    *("Cookie: =;;a=\xff", "Authorization: Bearer \xff", "TE: x", "X: " + "y" * 70_000),
    *("Content-Type: multipart/form-data; boundary=x", "Content-Type: \xff", "Accept-Encoding: gzip;q=nan"),
    *("Expect: 100-continue", "Upgrade: h2c", "Connection: Upgrade\r\nUpgrade: websocket", "Range: bytes=0-0,1-1"),
    *("Content-Length: -1", "Content-Length: abc", "Content-Length: 5\r\nContent-Length: 6"),
    *(f"Content-Length: {LARGEST + 1}", "Content-Length: " + "9" * 400, "Transfer-Encoding: x"),
    "Transfer-Encoding: chunked\r\nContent-Length: 3",
)


@dataclass(frozen=True)
class Attack:
    """What is sent, in pieces; `lost` where the connection may be closed without an answer."""

    name: str
    pieces: tuple[bytes, ...]
    pause: float = 0.0
    lost: bool = False

    def run(self, port):
        """(status, 0 where there is none; seconds from the last byte sent to the answer)."""
        started = time.monotonic()
        with socket.create_connection((HOST, port), timeout=20) as connection:
            try:
                for piece in self.pieces:
                    connection.sendall(piece)
                    time.sleep(self.pause)
                started = time.monotonic()
                answer = connection.recv(4096)
                if answer.startswith(b"HTTP/1.1 100 "):  # the answer comes later
                    answer = answer.partition(b"\r\n\r\n")[2] or connection.recv(4096)
            except (ConnectionError, TimeoutError):
                answer = b""
        status = int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0
        return status, time.monotonic() - started


def requests(seed=0):
    """(name, function that makes the attack) of every request."""
    rng = random.Random(seed)
    groups = [uploads(seed), wishes(rng), paths(rng), headers(rng), protocol(rng), slow(rng)]
    yield from islice(chain.from_iterable(groups), COUNT)


def message(method="POST", path="/api/jobs", *lines, body=None):
    """A request as bytes."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    own = [] if any(line.lower().startswith("host:") for line in lines) else [f"Host: {HOST}"]
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *own, "Connection: close", *length, *lines, "", ""])
    return head.encode("latin-1", "replace") + (body or b"")


def uploads(seed):
    """The hostile image files."""
    for name, make in images.files(seed):
        yield name, partial(upload, name, make)


def upload(name, make):
    content = make()
    return Attack(name, (message("POST", "/api/jobs?regions=grid:4x4", body=content),), lost=len(content) > LARGEST)


def wishes(rng, count=250):
    """Settings that are no settings."""
    picture = images.encoded("JPEG")
    for number in range(count):
        wish = [(rng.choice(FIELDS), rng.choice(VALUES)) for _ in range(rng.choice((1, 1, 2, 5)))]
        query = "&".join(f"{name}={quote(value)}" for name, value in wish)
        yield (
            f"wish {number} {query[:60]}",
            partial(Attack, query[:60], (message("POST", f"/api/jobs?{query}", body=picture),)),
        )


def paths(rng, count=200):
    """Paths that lead elsewhere, by every method."""
    for number in range(count):
        path = "/" + "/".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 6)))
        method = rng.choice(METHODS)
        yield f"path {number} {method} {path[:60]}", partial(Attack, path[:60], (message(method, path),))


def headers(rng, count=150):
    """Headers of other sites, other hosts, wrong lengths."""
    for number in range(count):
        lines = [rng.choice(HEADERS) for _ in range(rng.choice((1, 1, 3)))]
        sent = message(rng.choice(("GET", "POST", "DELETE")), rng.choice(("/", "/api/jobs", "/api/results")), *lines)
        yield f"header {number} {lines[0][:60]}", partial(Attack, lines[0][:60], (sent, b"xyz"), lost=True)


def protocol(rng, count=150):
    """What is no HTTP, or breaks off."""
    chunked = message("POST", "/api/jobs", "Transfer-Encoding: chunked")
    both = message("POST", "/api/jobs", "Transfer-Encoding: chunked", "Content-Length: 4")
    chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    fixed = [
        ("bad chunk", chunked + b"zz\r\nnonsense"),
        ("huge chunk", chunked + b"ffffffffffffffff\r\nx"),
        ("sent too large", chunked + 11 * chunk),
        ("declared too large", message("POST", "/api/jobs", f"Content-Length: {LARGEST + 1}") + b"x" * 1000),
        ("no request", b"GET\r\n\r\n"),
        ("other version", b"GET / HTTP/9.9\r\n\r\n"),
        ("tls", b"\x16\x03\x01\x02\x00\x01\x00" + bytes(500)),
        ("http/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(50)),
        ("smuggled", both + b"0\r\n\r\nGET /x"),
        ("pipelined", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50),
    ]
    for number in range(count):
        name, sent = fixed[number] if number < len(fixed) else ("noise", rng.randbytes(rng.randrange(1, 3000)))
        sent = sent if number < 2 * len(fixed) else flipped(rng, message("POST", "/api/jobs?k=3", body=b"x" * 99))
        yield f"protocol {number} {name}", partial(Attack, name, (sent, b"\r\n\r\n"), lost=True)


def flipped(rng, sent):
    """A good request with some bytes changed."""
    changed = bytearray(sent)
    for _ in range(rng.randrange(1, 6)):
        changed[rng.randrange(len(sent))] = rng.randrange(256)
    return bytes(changed)


def slow(rng, count=50):
    """Bodies that come byte by byte, or never."""
    for number in range(count):
        sent = (message("POST", "/api/jobs", "Content-Length: 1000"), *[b"x"] * rng.randrange(1, 8))
        yield f"slow {number}", partial(Attack, "slow body", sent, pause=0.3, lost=True)
