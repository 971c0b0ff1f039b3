import pytest
from starlette.datastructures import Headers

from whymask.serve.guard import Guard, RefusedError

GUARD = Guard(None, hosts={"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET", {"host": "localhost:8000"}),
        ("GET", {"host": "LOCALHOST"}),
        ("GET", {"host": "[::1]:8000", "origin": "http://evil.example"}),  # reading changes nothing
        ("POST", {"host": "127.0.0.1:8000"}),  # a program, not a page
        ("POST", {"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}),
    ],
)
def test_let_through(method, headers):
    GUARD.check(method, Headers(headers))


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 421),
        ("GET", {"host": "evil.example:8000"}, 421),  # its name was made to lead here
        ("GET", {"host": "localhost.evil.example"}, 421),
        ("GET", {"host": "[::1"}, 421),
        ("POST", {"host": "localhost", "origin": "http://evil.example"}, 403),
        ("POST", {"host": "localhost", "origin": "http://localhost:9999"}, 403),  # another server of this machine
        ("POST", {"host": "localhost", "origin": "null"}, 403),
        ("POST", {"host": "localhost", "sec-fetch-site": "cross-site"}, 403),
        ("DELETE", {"host": "localhost", "sec-fetch-site": "same-site"}, 403),
    ],
)
def test_refused(method, headers, status):
    with pytest.raises(RefusedError) as refused:
        GUARD.check(method, Headers(headers))
    assert refused.value.status == status
