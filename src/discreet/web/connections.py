"""Limits on connections, which uvicorn leaves to a proxy in front of it (extra `serve`).

A client keeps the server waiting while it sends a head or a body, while it does not read its answer, and between two
requests. Each of these has a time limit, which sending more does not extend. A connection answers one request at a
time: one that is sent ahead is not read, and the connection is closed after the answer. A client that is told to try
again in a second is not read before then. When there are too many connections, the one that has kept the server waiting
longest is closed. So a client that has sent a whole request is never closed in favor of others, and a new one is let in
however many others send nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import sys
from typing import TYPE_CHECKING, Any, Literal

from discreet.errors import MissingExtra
from discreet.web.server import BUSY, HEADERS, NOT_KEPT, RETRY

try:
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ModuleNotFoundError:
    raise MissingExtra("The server", "serve") from None

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from discreet.web.api import Limits
    from discreet.web.server import Guard

BACKLOG = 4096  # connections that the system holds until they are accepted, about 0.1 ms each
ACCEPTED = 32  # connections per turn: uvloop accepts one per socket, and a busy turn takes milliseconds
BUFFER = 128 * 1024  # bytes that the system buffers per connection and direction; by default megabytes
FILES = 256  # open files besides connections
SWEEP = 0.25  # seconds between checks for late clients
DRAINED = 4  # times the body limit that a refused client may go on to send, so that it can read why

log = logging.getLogger("discreet.serve")


def settings(app: Guard, **options: Any) -> uvicorn.Config:
    """Settings of `uvicorn.Server` that enforce the limits of an application; `options` are uvicorn's own."""
    own = {"waiting": _Waiting(), "limits": app.limits}
    fixed = {
        "http": type("LimitedConnection", (_Connection,), own),
        "ws": "none",
        "timeout_keep_alive": math.ceil(app.limits.patience),
        "backlog": BACKLOG,
        "proxy_headers": False,  # nothing depends on who asks
        "server_header": False,
        "access_log": False,  # ours reveals less
        "log_level": "error",
        "log_config": None,  # the caller configures logging; uvicorn would close other handlers
        "timeout_graceful_shutdown": 5,
    }
    return uvicorn.Config(app, **{**fixed, **options})


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets for the server, all on one address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        listening.setsockopt(socket.SOL_SOCKET, option, BUFFER)  # inherited by connections
    return [listening, *(listening.dup() for _ in range(0 if sys.platform == "win32" else ACCEPTED - 1))]


def raise_file_limit(limits: Limits) -> None:
    """Let this process open as many files as its connections need, as far as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + BACKLOG + FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Waiting:
    """The connections that keep the server waiting, the longest first."""

    def __init__(self) -> None:
        self.connections: dict[_Connection, None] = {}
        self._sweeping = False

    def add(self, connection: _Connection) -> None:
        self.remove(connection)
        self.connections[connection] = None
        connection.deadline = connection.loop.time() + connection.limits.patience
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP, self._sweep, connection.loop)

    def remove(self, connection: _Connection) -> None:
        self.connections.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self.connections if one.deadline < now]:
            connection.late()
        self._sweeping = bool(self.connections)
        if self._sweeping:
            loop.call_later(SWEEP, self._sweep, loop)


class _Connection(HttpToolsProtocol):
    waiting: _Waiting
    limits: Limits

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app, self.guard = self._answer, self.app
        self.task: asyncio.Task[Any] | None = None  # answers a request
        self.deadline = math.inf
        self.arriving: Literal["head", "body"] | None = None  # the part of a request that is on its way
        self.answering = False  # whether a head has arrived, and its answer is not complete
        self.size = 0  # bytes of the request
        self.body_size = 0  # bytes of its body
        self.reason = (400, "this is not valid HTTP")

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting.add(self)
        if len(self.connections) > self.limits.connections:
            longest = next(iter(self.waiting.connections))
            if longest is self:  # all others have sent a request that is being answered
                self.refuse(503, "too many requests are being answered; try again in a moment")
            else:
                longest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.remove(self)
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()

    def abort(self) -> None:
        self.waiting.remove(self)
        self.connections.discard(self)
        self.transport.abort()

    def late(self) -> None:
        if self.arriving is None:
            self.abort()
        else:
            self.refuse(408, "the request took too long to arrive")

    def refuse(self, status: int, reason: str) -> None:
        """Answer with an error, without the application, and close; only close if the answer to a body has begun."""
        if self.transport.is_closing() or (self.arriving == "body" and self.cycle.response_started):
            self.abort()
            return
        log.info("(unknown) (unknown) %s", status)
        content = json.dumps({"error": reason}).encode()
        headers = {**HEADERS, **NOT_KEPT, "Content-Type": "application/json", "Connection": "close"}
        lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
        self.transport.write(
            STATUS_LINE[status] + lines.encode() + b"content-length: %d\r\n\r\n" % len(content) + content
        )
        self.transport.close()
        self.waiting.add(self)

    def send_400_response(self, msg: str) -> None:
        """Called if what arrives is not valid HTTP, exceeds a limit, or comes before the answer to a request."""
        if self.answering and self.arriving is None:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        else:
            self.refuse(*self.reason)

    # -- reading

    def data_received(self, data: bytes) -> None:
        """Read in pieces, so that a head that is too large is never in memory."""
        for start in range(0, len(data), self.limits.head):
            piece = data[start : start + self.limits.head]
            super().data_received(piece)
            if self.arriving is not None and not self.transport.is_closing():
                self._count(len(piece))
            if self.transport.is_closing():
                return

    def _count(self, size: int) -> None:
        self.size += size
        if self.arriving == "head":
            if self.size >= self.limits.head:
                self.refuse(431, f"the request line and headers are larger than {self.limits.head:,} bytes")
        elif self.size - self.body_size > 2 * self.limits.head:  # the head, and what surrounds chunks
            self.refuse(400, "the body is sent in chunks that are too small, or with too much around them")
        elif self.body_size > DRAINED * self.limits.body:
            self.abort()

    def on_message_begin(self) -> None:
        if self.answering:
            raise ValueError  # stops the parser
        super().on_message_begin()
        self.arriving = "head"
        self.size = self.body_size = 0
        self.waiting.add(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called for a header, or a trailer after a body."""
        if len(self.headers) >= self.limits.fields:
            self.reason = (431, f"there are more than {self.limits.fields} headers")
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.headers = []  # trailers are not headers
        self.arriving, self.answering = "body", True
        if self.parser.should_upgrade():  # we answer in HTTP/1.1, but the client may send anything afterwards
            self.cycle.keep_alive = False
        self.waiting.add(self)

    def on_body(self, body: bytes) -> None:
        self.body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.arriving = None
        if not self.answering:  # it was answered before the rest of it had arrived
            self.waiting.add(self)
        elif not self.flow.write_paused:
            self.waiting.remove(self)

    # -- writing

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application, and cancel it when the client leaves."""
        self.task = asyncio.current_task()
        try:
            await self.guard(scope, receive, send)
        except asyncio.CancelledError:
            if self.parser is not None:  # the client is still there: the server is shutting down
                raise
        finally:
            self.task = None

    def on_response_complete(self) -> None:
        self.answering = False
        self.cycle.body = bytearray()  # unread
        super().on_response_complete()
        if BUSY in self.cycle.scope:
            self.flow.pause_reading()
            self.loop.call_later(RETRY, self._read_again)
        self.waiting.add(self)

    def _read_again(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.answering and self.arriving is None:
            self.waiting.remove(self)
