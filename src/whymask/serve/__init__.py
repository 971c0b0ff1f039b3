"""Servers on this machine: the web view, which explains images in a browser, and models behind a chat API."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whymask.errors import WhymaskError
from whymask.models.base import Model

if TYPE_CHECKING:
    from whymask.models.mllm import Mllm  # imports torch

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
    except ImportError:
        raise missing() from None
    with listening(host, port) as at:
        token = None if at.local else secrets.token_urlsafe(24)
        app = create_app(models, folder, abilities=abilities, hosts={*at.hosts, *allow_hosts}, token=token)
        at.run(app, lambda url: ready(url + (f"/?token={token}" if token else "")))


def serve_model(
    model: Mllm,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allow_hosts: Sequence[str] = (),
    api_key: str | None = None,
    ready: Callable[[str, str | None], None] = lambda url, key: None,
) -> None:
    """Serve a multimodal model as an OpenAI-compatible chat endpoint until interrupted.

    Args:
        model: what it serves, under its name.
        host, port, allow_hosts: as for `serve`.
        api_key: what every request must bring as "Authorization: Bearer"; where others than this machine can connect,
            a random one by default.
        ready: called with the address and the key once clients can connect.
    """
    try:
        from whymask.serve.model_app import create_model_app
    except ImportError:
        raise missing() from None
    with listening(host, port) as at:
        key = api_key or (None if at.local else secrets.token_urlsafe(24))
        app = create_model_app(model, model.name, hosts={*at.hosts, *allow_hosts}, token=key)
        at.run(app, lambda url: ready(f"{url}/v1", key))


@dataclass(frozen=True)
class Listening:
    """A socket that takes connections once `run` is called."""

    socket: socket.socket
    host: str  # as it was given

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        return ip_address(self.socket.getsockname()[0]).is_loopback

    @property
    def names(self) -> list[str]:
        """Names under which clients reach it, the surest first."""
        unspecified = ip_address(self.socket.getsockname()[0]).is_unspecified
        return reachable_names() if unspecified else [self.host]

    @property
    def hosts(self) -> set[str]:
        """All host names that are known without asking the user."""
        return {*LOCAL, *self.names}

    def run(self, app: Any, ready: Callable[[str], None]) -> None:
        """Serve an application until interrupted; `ready` gets its address."""
        from whymask.serve.connections import Server

        self.socket.listen(128)
        name = self.names[0]
        ready(f"http://{f'[{name}]' if ':' in name else name}:{self.socket.getsockname()[1]}")
        Server(app).run(sockets=[self.socket])


@contextmanager
def listening(host: str, port: int) -> Iterator[Listening]:
    """A socket at this address; port 0 takes a free one."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, port))
        except OverflowError:
            raise WhymaskError(f"a port is a number from 0 to 65535, not {port}.") from None
        except OSError as error:
            raise WhymaskError(f"cannot listen on {host}, port {port}: {error.strerror}.") from None
        yield Listening(made, host)


def missing() -> WhymaskError:
    """The error where the packages are not installed."""
    return WhymaskError("a server needs FastAPI and uvicorn: pip install 'whymask[serve]'.")


def reachable_names() -> list[str]:
    """Names under which other machines reach this one, as far as that can be seen from here, the surest first."""
    names = [socket.gethostname()]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))  # sends nothing: it only chooses the interface
        names.insert(0, str(outward.getsockname()[0]))
    return names
