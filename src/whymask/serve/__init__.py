"""The web view: explain images in a browser, on this machine."""

import secrets
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from whymask.errors import WhymaskError
from whymask.models.base import Model

LOCAL = ("localhost", "127.0.0.1", "::1")


def serve(
    models: Mapping[str, Callable[[], Model]],
    folder: Path,
    *,
    abilities: Mapping[str, Collection[str]] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_hosts: Sequence[str] = (),
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve the page until interrupted.

    Args:
        models: what a client may choose from; each is loaded when it is first asked for.
        folder: where results are kept.
        abilities: by model, what it can besides being run forward (see `Family.can`); the page offers methods by it.
        host: the address to listen on; by default only this machine can connect. Where others can, every request must
            bring a random token, which is in the address that `ready` gets.
        port: the port; 0 takes a free one.
        allow_hosts: other names under which browsers may reach this server.
        ready: called with the address once browsers can connect.
    """
    try:
        from whymask.serve.app import create_app
        from whymask.serve.connections import Server
    except ImportError:
        raise WhymaskError("the web view needs FastAPI and uvicorn: pip install 'whymask[serve]'.") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OverflowError:
            raise WhymaskError(f"a port is a number from 0 to 65535, not {port}.") from None
        except OSError as error:
            raise WhymaskError(f"cannot listen on {host}, port {port}: {error.strerror}.") from None
        address, port = listening.getsockname()[:2]
        token = None if ip_address(address).is_loopback else secrets.token_urlsafe(24)
        names = reachable_names() if ip_address(address).is_unspecified else [host]
        hosts = {*LOCAL, *names, *allow_hosts}
        app = create_app(models, folder, abilities=abilities, hosts=hosts, token=token)
        listening.listen(128)
        shown = f"[{names[0]}]" if ":" in names[0] else names[0]
        ready(f"http://{shown}:{port}" + (f"/?token={token}" if token else ""))
        Server(app).run(sockets=[listening])


def reachable_names() -> list[str]:
    """Names under which other machines reach this one, as far as that can be seen from here, the surest first."""
    names = [socket.gethostname()]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))  # sends nothing: it only chooses the interface
        names.insert(0, str(outward.getsockname()[0]))
    return names
