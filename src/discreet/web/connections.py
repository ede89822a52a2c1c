"""Connections within limits: what uvicorn leaves to a proxy in front of it (extra `serve`).

A client keeps the server waiting while it sends a head or a body, while it does not read its answer, and between two
requests. Each of these has a time limit, which what is sent meanwhile does not extend. A client that is told to try
again in a second is not read before then. When there are too many connections, the one that has kept the server waiting
longest is closed. So a client that has sent a whole request is never closed for others, and a new one is let in,
however many others send nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra
from discreet.web.server import BUSY, HEADERS, NOT_KEPT, RETRY

try:
    import httptools
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
except ModuleNotFoundError:
    raise MissingExtra("The server", "serve") from None

if TYPE_CHECKING:
    from discreet.web.api import Limits
    from discreet.web.server import Guard

BACKLOG = 4096  # connections that the system may hold until they are accepted, which takes about 0.1 ms for each
ACCEPTED = 32  # connections at a turn: uvloop accepts one for each socket, and a busy turn takes milliseconds
BUFFER = 128 * 1024  # bytes of a connection that the system may hold in each direction, or else it may hold megabytes
FILES = 256  # that a process has open besides connections
SWEEP = 0.25  # seconds between two checks of who is late
DRAINED = 4  # bodies that a refused client may go on to send, so that it gets to read why

log = logging.getLogger("discreet.serve")


def settings(app: Guard, **options: Any) -> uvicorn.Config:
    """Settings for `uvicorn.Server` under which the limits of an application hold; `options` are uvicorn's own."""
    own = {"waiting": Waiting(), "limits": app.limits}
    fixed = {
        "http": type("LimitedConnection", (Connection,), own),
        "ws": "none",
        "timeout_keep_alive": math.ceil(app.limits.idle),
        "backlog": BACKLOG,
        "proxy_headers": False,  # nothing depends on who asks
        "server_header": False,
        "access_log": False,  # ours says less
        "log_level": "error",
        "log_config": None,  # the caller configures logging; uvicorn would close other handlers
        "timeout_graceful_shutdown": 5,
    }
    return uvicorn.Config(app, **{**fixed, **options})


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets for such a server, all of one address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        listening.setsockopt(socket.SOL_SOCKET, option, BUFFER)  # the connections have it from here
    return [listening, *(listening.dup() for _ in range(0 if sys.platform == "win32" else ACCEPTED - 1))]


def raise_file_limit(limits: Limits) -> None:
    """Let this process have as many files open as its connections need, as far as the system lets it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + BACKLOG + FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class Waiting:
    """The connections that keep the server waiting, the longest first."""

    def __init__(self) -> None:
        self.connections: dict[Connection, None] = {}
        self._sweeping = False

    def add(self, connection: Connection, seconds: float) -> None:
        """A connection begins to keep the server waiting, which it may do for so long."""
        self.connections.pop(connection, None)
        self.connections[connection] = None
        connection.deadline = connection.loop.time() + seconds
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP, self._sweep, connection.loop)

    def remove(self, connection: Connection) -> None:
        """It keeps the server waiting no longer."""
        self.connections.pop(connection, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in [one for one in self.connections if one.deadline < now]:
            connection.late()
        self._sweeping = bool(self.connections)
        if self._sweeping:
            loop.call_later(SWEEP, self._sweep, loop)


class Connection(HttpToolsProtocol):
    """One connection."""

    waiting: Waiting
    limits: Limits

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app, self.guard = self._answer, self.app
        self.task: asyncio.Task[Any] | None = None  # which answers a request
        self.deadline = math.inf
        self.began = False  # whether the head of a request is on its way
        self.open = False  # whether a head has arrived, and its body not wholly
        self.due: deque[Any] = deque()  # the answers that are not complete, of which the first is being made
        self.heads = 0  # that began in the bytes that are being read
        self.size = 0  # bytes of a request
        self.body_size = 0  # and those of them that are its body
        self.reason = (400, "this is not proper HTTP")

    # -- of the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """One more; one fewer if there are too many."""
        super().connection_made(transport)
        self.waiting.add(self, self.limits.head_time)
        if len(self.connections) > self.limits.connections:
            longest = next(iter(self.waiting.connections))
            if longest is self:  # the others' requests are being answered, every one
                self.refuse(503, "too many requests are being answered; try again in a moment")
            else:
                longest.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.waiting.remove(self)
        for cycle in self.due:  # uvicorn thinks of the last one only
            cycle.disconnected = True
        super().connection_lost(exc)
        if self.task is not None:
            self.task.cancel()

    def abort(self) -> None:
        """Close it, and forget what was not read."""
        self.waiting.remove(self)
        self.connections.discard(self)
        self.transport.abort()

    def late(self) -> None:
        """Time is up."""
        if (self.began or self.open) and self._hears():
            self.refuse(408, "the request took too long to arrive")
        else:
            self.abort()

    def _hears(self) -> bool:
        """Whether what is written now would be taken for the answer to the request that is being read."""
        answered = self.open and self.cycle.response_started
        return len(self.due) <= self.open and not answered and not self.transport.is_closing()

    def refuse(self, status: int, reason: str) -> None:
        """Answer without asking the application, and close."""
        log.info("(unknown) (unknown) %s", status)
        content = json.dumps({"error": reason}).encode()
        headers = {**HEADERS, **NOT_KEPT, "Content-Type": "application/json", "Connection": "close"}
        lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
        self.transport.write(
            STATUS_LINE[status] + lines.encode() + b"content-length: %d\r\n\r\n" % len(content) + content
        )
        self.transport.close()
        self.waiting.add(self, self.limits.unread)

    def send_400_response(self, msg: str) -> None:
        """Called when what was received is not proper HTTP, or not within limits."""
        if self._hears():
            self.refuse(*self.reason)
        else:
            self.abort()

    # -- of what is read

    def data_received(self, data: bytes) -> None:
        """Read, a piece at a time: a head that is too large is never in memory."""
        for start in range(0, len(data), self.limits.head):
            piece = data[start : start + self.limits.head]
            self.heads, between = 0, not (self.began or self.open)
            super().data_received(piece)
            if self.transport.is_closing():
                return
            if (self.began or self.open) and self.heads == between:  # all of the piece is of one request
                self._count(len(piece))

    def _count(self, size: int) -> None:
        self.size += size
        if self.began:
            if self.size >= self.limits.head:
                self.reason = (431, f"the request line and headers are larger than {self.limits.head:,} bytes")
                self.send_400_response("")
        elif self.size - self.body_size > 2 * self.limits.head:  # of which the head is one
            self.reason = (400, "the body is sent in chunks that are too small, or with too much around them")
            self.send_400_response("")
        elif self.body_size > DRAINED * self.limits.body:
            self.abort()

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        super().on_message_begin()
        self.began = True
        self.heads += 1
        self.size = self.body_size = 0
        if len(self.due) > self.limits.pipelined:
            raise ValueError  # stops the parser
        if not self.due:
            self.deadline = self.loop.time() + self.limits.head_time  # its place among those waited for stays

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer after a body."""
        if len(self.headers) >= self.limits.fields:
            self.reason = (431, f"there are more than {self.limits.fields} headers")
            raise ValueError
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        if not self.url.startswith((b"/", b"*")):
            self._absolute()
        super().on_headers_complete()
        self.headers = []  # trailers are not headers
        self.began, self.open = False, True
        self.due.append(self.cycle)
        if self.parser.should_upgrade():  # the answer is in HTTP/1.1 all the same, and what follows it may be anything
            self.cycle.keep_alive = False
        if len(self.due) == 1:
            self.deadline = self.loop.time() + self.limits.body_time

    def _absolute(self) -> None:
        """A target with a host in it counts, and the Host header does not (RFC 9112, 3.2.2)."""
        host = httptools.parse_url(self.url).host or b""
        host = b"[%b]" % host if b":" in host else host
        self.headers[:] = [*(header for header in self.headers if header[0] != b"host"), (b"host", host)]

    def on_body(self, body: bytes) -> None:
        """Some of a body."""
        self.body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request is there."""
        super().on_message_complete()
        self.open = False
        if not self.due:  # it was answered before
            self.waiting.add(self, self.limits.idle)
        elif not self.flow.write_paused:
            self.waiting.remove(self)

    # -- of what is written

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Ask the application, and let go of what it does when the client has left."""
        self.task = asyncio.current_task()
        try:
            await self.guard(scope, receive, send)
        except asyncio.CancelledError:
            if self.parser is not None:  # the client is still there: the server itself is ending
                raise
        finally:
            self.task = None

    def on_response_complete(self) -> None:
        """An answer has been written."""
        cycle = self.due.popleft()
        cycle.body = bytearray()  # what nobody asked for
        super().on_response_complete()
        if BUSY in cycle.scope:
            self.flow.pause_reading()
            self.loop.call_later(RETRY, self._read_again)
        if not self.due:
            self.waiting.add(self, self.limits.body_time if self.open else self.limits.idle)
        elif self.open and len(self.due) == 1:
            self.waiting.add(self, self.limits.body_time)

    def _read_again(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read what it is sent."""
        super().pause_writing()
        self.waiting.add(self, self.limits.unread)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        if len(self.due) > self.open:
            self.waiting.remove(self)
