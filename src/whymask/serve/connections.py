"""The server around the application: which connections it closes when there are too many, and how it shuts down."""

import asyncio
import socket

import uvicorn
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128  # connections at the same time


class Connection(H11Protocol):
    """One connection to a browser.

    uvicorn waits for the headers of a request forever, and returns 503 once there are too many connections. So that
    idle connections cannot keep others out, a new one then closes the one that has been idle the longest.
    """

    since = 0.0  # when it was opened

    @property
    def idle(self) -> bool:
        """Whether it is open without a request in progress."""
        return not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection."""
        waiting = [one for one in self.connections if isinstance(one, Connection) and one.idle]
        taken = sum(not one.transport.is_closing() for one in self.connections)
        if waiting and taken >= MOST - 1:
            min(waiting, key=lambda one: one.since).transport.close()
        super().connection_made(transport)
        # asyncio does this only for sockets that name their protocol. Without it a response waits 40 ms for its second
        # packet.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.since = self.loop.time()


class Server(uvicorn.Server):
    """Runs the application of `create_app`."""

    def __init__(self, app: FastAPI, log_level: str = "warning") -> None:
        config = uvicorn.Config(app, http=Connection, log_level=log_level, limit_concurrency=MOST)
        config.timeout_graceful_shutdown = 1
        super().__init__(config)
        self.jobs = app.state.jobs

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the jobs first: uvicorn waits for open responses, then cuts them off."""
        await run_in_threadpool(self.jobs.stop)
        await super().shutdown(sockets)
