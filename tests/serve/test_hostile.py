"""Two hundred hostile requests against a real server in a process of its own."""

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image

from serve.served import photo
from test_imaging import bomb

MOST = 10_000_000


def encoded(kind):
    out = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)).save(out, format=kind)
    return out.getvalue()


@pytest.fixture
def process(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("served.py")), str(tmp_path / "results")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.url = process.stdout.readline().strip()
        yield process
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.fixture
def client(process):
    with httpx.Client(base_url=process.url, timeout=20) as client:
        yield client


def memory(process):
    """Resident kilobytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def raw(url, *pieces, pause=0.0):
    """Send bytes as they are; the status of the answer, or 0 when the connection was just closed."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=15) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            answer = connection.recv(4096)
        except (ConnectionError, TimeoutError):
            return 0
    return int(answer.split()[1]) if answer else 0


def head(url, *lines, method="POST", path="/api/jobs"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}", *lines, "", ""]).encode()


def uploads():
    """Bodies that are no image this server reads."""
    jpeg, png = photo(), encoded("PNG")
    yield from [b"", b"text", b"{not json", b'{"a": ' * 500, b"<svg xmlns='http://www.w3.org/2000/svg'/>"]
    yield from (encoded(kind) for kind in ("GIF", "BMP", "TIFF", "PPM", "ICO", "PDF", "EPS"))
    yield from (jpeg[:size] for size in (2, 20, 200, len(jpeg) // 2))
    yield from (png[:size] for size in (8, 30, len(png) // 2))
    yield b"GIF89a/*" + b"\0" * 50 + b"*/=1;alert(1)"
    yield png[:16] + b"<script>alert(1)</script>" + png[16:]
    yield b"PK\x03\x04" + jpeg
    yield b"\x89PNG\r\n\x1a\n" + b"\xff" * 500
    yield bomb()  # a 100-megapixel PNG of a few kilobytes


WISHES = [
    "model=/etc/passwd",
    "model=http://127.0.0.1/",
    "method=../../trace",
    "k=-1",
    "k=1e9",
    "k=NaN",
    "k=" + "9" * 50,
    "seed=-1",
    "seed=0x10",
    "regions=/etc/passwd",
    "regions=grid:9999x9999",
    "regions=slico:-1",
    "regions=..%2f..%2fetc%2fpasswd",
    "fill=/etc/passwd",
    "fill=http://127.0.0.1/x.png",
    "resize=none",
    "path=/etc/passwd",
    "target=" + "a" * 5000,
    "question=%00%ff%fe" + "b" * 1500,
]
PATHS = [
    "/static/../../../etc/passwd",
    "/static/..%2f..%2fpyproject.toml",
    "/static/%2e%2e/report.py",
    "/static/",
    "/static/page.html",
    "/api/results/../../etc/passwd",
    "/api/results/..%2f..%2fetc%2fpasswd/result.npz",
    "/api/results/%00/report.html",
    "/api/results/0123456789abcdef/figure.png",
    "/api/results/0123456789ABCDEF",
    "/api/jobs/..%2f/events",
    "/api/jobs/" + "a" * 5000,
    "/api/jobs/%F0%28%8C/picture",
    "//etc/passwd",
    "/docs",
    "/openapi.json",
]


def attacks(url, client):
    """(name, function that attacks and returns a status)."""
    for number, body in enumerate(uploads()):
        for kind in ("image/png", "application/json", "multipart/form-data; boundary=x"):
            yield (
                f"upload {number} as {kind}",
                lambda b=body, k=kind: client.post("/api/jobs", content=b, headers={"Content-Type": k}).status_code,
            )
    for wish in WISHES:
        yield wish[:40], lambda w=wish: client.post(f"/api/jobs?{w}", content=photo()).status_code
    for path in PATHS:
        yield path[:40], lambda p=path: raw(url, head(url, "Connection: close", method="GET", path=p))
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO"):
        yield method, lambda m=method: client.request(m, "/api/jobs").status_code
    for header in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
        yield str(header), lambda h=header: client.post("/api/jobs", content=photo(), headers=h).status_code
    for _ in range(6):
        yield "declared too large", lambda: raw(url, head(url, f"Content-Length: {MOST + 1}"), b"x" * 1000)
        yield (
            "sent too large",
            lambda: raw(
                url, head(url, "Transfer-Encoding: chunked"), *[b"100000\r\n" + b"x" * 0x100000 + b"\r\n"] * 11
            ),
        )
        yield "bad chunk", lambda: raw(url, head(url, "Transfer-Encoding: chunked"), b"zz\r\nnonsense")
        yield "cut off", lambda: raw(url, head(url, "Content-Length: 5000"), photo()[:100])
    for line in (b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00"):
        yield repr(line), lambda sent=line: raw(url, sent, b"\r\n\r\n")
    for line in (
        "Content-Length: -1",
        "Content-Length: abc",
        "Content-Length: 5\r\nContent-Length: 6",
        "X: " + "y" * 80_000,
    ):
        yield line[:30], lambda sent=line: raw(url, head(url, sent))
    for _ in range(8):
        yield "slow body", lambda: raw(url, head(url, "Content-Length: 1000"), *[b"x"] * 6, pause=0.4)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_two_hundred_hostile_requests(process, client):
    url = process.url
    accepted = {200, 202}
    refused = {400, 403, 404, 405, 408, 411, 413, 414, 421, 422, 431, 503}
    work = list(attacks(url, client))
    everyday(url)  # what is loaded on first use is not a leak
    for name, attack in work[:40]:
        assert attack() in refused, name
    before = memory(process)
    statuses = []
    with ThreadPoolExecutor(8) as pool:
        results = [(name, pool.submit(attack)) for name, attack in [*work, *work][: max(200, len(work))]]
        for name, result in results:
            status = result.result(timeout=60)
            statuses.append(status)
            # Some are closed without an answer: the sender was not done, or spoke no HTTP.
            assert status in refused or (status == 0 and not name.startswith(("upload", "/"))), (name, status)
    assert len(statuses) >= 200
    assert not accepted & set(statuses)
    assert {400, 403, 404, 405, 408, 413, 421} <= set(statuses)
    assert memory(process) - before < 60_000  # kilobytes: nothing of 200 requests, several of 10 MB, is kept
    everyday(url)


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
        with client.stream("GET", f"/api/jobs/{name}/events") as events:
            told = [
                json.loads(line.removeprefix("data: ")) for line in events.iter_lines() if line.startswith("data: ")
            ]
        assert told[-1]["state"] == "done"
        answer = client.get(f"/api/results/{name}")
        assert answer.json()["explanations"][0]["kind"] == "mask"
        assert b"alert(1)" not in client.get(f"/api/results/{name}/report.html").content
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
