"""Connections in a crowd: those that ask for nothing give way."""

from __future__ import annotations

import asyncio

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128  # connections at the same time


class Connection(H11Protocol):
    """One connection to a browser.

    uvicorn waits for the headers of a request for ever, and answers 503 once there are too many connections. So that
    nobody can take all places by asking for nothing, a new connection in a crowd ends the one that has waited longest.
    """

    since = 0.0  # when it began

    @property
    def idle(self) -> bool:
        """Whether it is open and there is no request to answer."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place."""
        waiting = [one for one in self.connections if isinstance(one, Connection) and one.idle]
        taken = sum(not one.transport.is_closing() for one in self.connections)
        if waiting and taken >= MOST - 1:
            min(waiting, key=lambda one: one.since).transport.close()
        super().connection_made(transport)
        self.since = self.loop.time()


def server(app: ASGIApp, log_level: str = "warning") -> uvicorn.Server:
    """What runs the application; open event streams do not hold up its end."""
    return uvicorn.Server(
        uvicorn.Config(app, http=Connection, log_level=log_level, timeout_graceful_shutdown=1, limit_concurrency=MOST)
    )
