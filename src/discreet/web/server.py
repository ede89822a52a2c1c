"""The small server behind `discreet serve`: the page, and a JSON API (starlette; extra `serve`).

It stores nothing. Files are served from memory by their exact names, so no path leads to other files. A log line has
the method, the route and the status of a request: never a query, a body or a reason.

It answers only to its own host names. Otherwise a page whose owner points a host name here (DNS rebinding) would look
to a browser like a page of this server, and could send it requests on behalf of the person who opened it.

Limits on one request, and on all requests in memory, are enforced here; those on connections in
`discreet.web.connections`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import re
import time
import traceback
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra, ModelError
from discreet.web.api import DEFAULTS, READ, SEARCH_SIZE, Api, Job, Limits, Query, Refused
from discreet.web.site import as_json

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ModuleNotFoundError:
    raise MissingExtra("The server", "serve") from None

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.web.site import Site

LOCAL = ("localhost", "127.0.0.1", "[::1]")  # host names of the machine itself
SMALL = 4 * 1024  # bytes; smaller bodies and answers are not counted: there is at most one per connection
RETRY = 1  # seconds until a client that was refused because of the load may try again
TOGETHER = 64  # work computed at once: this many requests of size 1, or fewer
LIGHT = 16  # the size of jobs that do not wait for larger ones
CHUNK = 64 * 1024  # bytes of an answer sent at once
NAME = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+?)\.?(?::[0-9]*)?", re.IGNORECASE)  # a host name, and perhaps a port
TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
ENCODED = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
BUSY = "discreet.busy"  # marks the scope of a request that was refused because of the load
NOT_KEPT = {"Cache-Control": "no-store"}  # headers of answers to one person

log = logging.getLogger("discreet.serve")


def application(model: Model, site: Site, *, limits: Limits = DEFAULTS, allowed_hosts: Iterable[str] = LOCAL) -> Guard:
    """The server of a model, as an ASGI application.

    To enforce the limits on connections too, run it in uvicorn with `discreet.web.connections.settings`.

    Args:
        model: A fitted model.
        site: Its page, as `discreet.web.site.export` makes it.
        limits: What it accepts from clients.
        allowed_hosts: The host names that it answers to; "*" is any.
    """
    handlers = Handlers(Api(model, limits))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        handlers.close()

    files = {
        "v1/statement": _File("statement.json", model.statement().json().encode()),
        "openapi.json": _File("openapi.json", as_json(handlers.api.openapi())),
        **{name: _File(name, content) for name, content in site.files.items()},
        "": _File("index.html", site.files["index.html"]),
    }
    routes = [
        Route("/v1/recommend", _Endpoint(handlers, handlers.recommend), methods=["POST"]),
        Route("/v1/items", _Endpoint(handlers, handlers.items), methods=["GET"]),
        *(Route(f"/{name}", file, methods=["GET"]) for name, file in files.items()),
    ]
    errors = dict.fromkeys((Refused, Busy, HTTPException, Exception), _explained)
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=errors)
    return Guard(app, limits, [allowed_host(name) for name in allowed_hosts])


def allowed_host(name: str) -> str:
    """A host name in the form in which it is compared."""
    found = NAME.fullmatch(f"[{name}]" if ":" in name and "[" not in name else name)
    if name != "*" and (found is None or found[0] not in (found[1], found[1] + ".")):
        hint = "give one such as recommend.example.org, without http:// and port"
        raise ModelError(f"allowed hosts: {name!r} is not a host name; {hint}")
    return name if found is None else found[1].lower()


class _File:
    """A file in memory, as an endpoint: compressed if the client accepts that, and empty if the client has it."""

    def __init__(self, name: str, content: bytes) -> None:
        self.kind = TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        self.content, self.packed = content, gzip.compress(content, 6, mtime=0)
        self.etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Request(scope).headers
        headers = {"ETag": self.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if asked.get("if-none-match") == self.etag:
            answer = Response(status_code=304, headers=headers)
        else:
            packed = "gzip" in asked.get("accept-encoding", "")
            headers |= {"Content-Encoding": "gzip"} if packed else {}
            answer = _ChunkedResponse(self.packed if packed else self.content, headers=headers, media_type=self.kind)
        await answer(scope, receive, send)


class _ChunkedResponse(Response):
    """An answer that is sent as the client reads it, so that unread parts are never copied."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if len(self.body) <= CHUNK:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for end in range(CHUNK, len(self.body) + CHUNK, CHUNK):
            part = bytes(self.body[end - CHUNK : end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(self.body)})


# -- computing


class Busy(Exception):
    """Too much work is waiting."""


@dataclass(slots=True, eq=False)
class _Waiting:
    turn: int
    size: int
    request: Any
    future: asyncio.Future[Any]


class Batcher:
    """Runs `compute` on lists of requests, one list at a time, in a thread of its own.

    Requests that arrive while others are computed wait, and are then computed together. Scoring takes one pass over all
    item vectors, for one user or for many, so under load a batch costs hardly more than a single request, and without
    load no request waits for another.

    Small requests do not wait long for large ones. Requests are ordered by when each would be done if all were computed
    side by side (self-clocked fair queueing). When too much is waiting, the last in this order are refused.

    Args:
        compute: Returns a result for each request, or an exception to raise for it alone.
        most: The work that may wait.
    """

    def __init__(self, compute: Callable[[Sequence[Any]], Sequence[Any]], most: int) -> None:
        self._compute = compute
        self._most = most
        self._waiting: list[_Waiting] = []  # ordered by turn, then by arrival
        self._work = 0  # the total size of waiting requests
        self._clock = 0  # turn of the last batch
        self._thread = ThreadPoolExecutor(1, "discreet-batch")
        self._running: asyncio.Task[None] | None = None

    async def submit(self, request: Any, size: int = 1) -> Any:
        """The result of one request. A request that nobody awaits any more is skipped.

        Raises `Busy` if too much is waiting ahead of it.
        """
        size = min(size, self._most)
        waiting = _Waiting(self._clock + size, size, request, asyncio.get_running_loop().create_future())
        insort(self._waiting, waiting, key=attrgetter("turn"))
        self._work += size
        while self._work > self._most:
            last = self._waiting.pop()
            self._work -= last.size
            if not last.future.done():
                last.future.set_exception(Busy())
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._work -= size
            raise

    def _next(self) -> list[_Waiting]:
        """The next batch; the last request in it may be large."""
        count = work = 0
        while count < len(self._waiting) and work < TOGETHER:
            work += self._waiting[count].size
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._work -= work
        self._clock = batch[-1].turn
        return [waiting for waiting in batch if not waiting.future.done()]

    def _results(self, requests: Sequence[Any]) -> Sequence[Any]:
        try:
            return self._compute(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
        return [self._results([request])[0] for request in requests]  # so that only the failing one fails

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next()
            requests = [waiting.request for waiting in batch]
            results = await loop.run_in_executor(self._thread, self._results, requests)
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.done():  # its client has disconnected
                    continue
                if isinstance(result, Exception):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)
        self._running = None

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)


Hold = Callable[[int], None]  # called with the number of bytes that a request holds


class Handlers:
    """Answers requests, in two threads, and counts the bytes that they hold in memory."""

    def __init__(self, api: Api) -> None:
        self.api, self.limits = api, api.limits
        self.held = 0  # bytes of bodies and answers
        self.light, self.heavy = (Batcher(api.compute, self.limits.waiting) for _ in range(2))

    async def submit(self, job: Job, size: int) -> Any:
        """The result of a job. Small ones have a thread of their own, and do not wait for large ones."""
        return await (self.light if size <= LIGHT else self.heavy).submit(job, size)

    def close(self) -> None:
        """Stop the threads."""
        self.light.close()
        self.heavy.close()

    @contextmanager
    def holding(self) -> Iterator[Hold]:
        """Count the bytes that one request holds; raise `Busy` if all requests together hold too many."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if size > SMALL:
                self.held += size - own
                own = size
                if self.held > self.limits.memory:
                    raise Busy

        try:
            yield hold
        finally:
            self.held -= own

    async def recommend(self, request: Request, hold: Hold) -> Response:
        """`/v1/recommend`."""
        body = await _body(request, self.limits.body, hold)
        small = len(body) <= SMALL
        query: Query = self.api.parse(body) if small else await self.submit(body, 1 + len(body) // READ)
        answer = await self.submit(query, query.size)
        answer = answer if isinstance(answer, bytes) else as_json(answer)
        hold(len(body) + len(answer))
        return _ChunkedResponse(answer, headers=NOT_KEPT, media_type="application/json")

    async def items(self, request: Request, hold: Hold) -> Response:
        """`/v1/items`."""
        given = request.query_params.multi_items()
        if len(dict(given)) < len(given):
            raise Refused(422, "a parameter is given twice")
        answer = await self.submit(dict(given), SEARCH_SIZE)
        hold(len(answer))
        return _ChunkedResponse(answer, media_type="application/json")


@dataclass(frozen=True)
class _Endpoint:
    """Answers requests by a method of `Handlers`, and counts what a request holds until its answer is sent."""

    handlers: Handlers
    answer: Callable[[Request, Hold], Awaitable[Response]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.handlers.holding() as hold:
            response = await self.answer(Request(scope, receive), hold)
            await response(scope, receive, send)


async def _body(request: Request, most: int, hold: Hold) -> bytes:
    """The body of a request, if it is declared as JSON and not too large."""
    headers = dict(request.scope["headers"])
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Refused(415, "the body must be declared as JSON: send the header Content-Type: application/json")
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > most:
        raise Refused(413, f"the body is larger than {most:,} bytes")
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                raise Refused(413, f"the body is larger than {most:,} bytes")
            hold(size)
    except ClientDisconnect:
        raise Refused(400, "the body did not arrive") from None
    return b"".join(chunks)


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": reason}, status, {**NOT_KEPT, **(headers or {})})


async def _explained(request: Request, error: Exception) -> Response:
    """An error as JSON, with one sentence."""
    if isinstance(error, Refused):
        return _error(error.status, error.reason)
    if isinstance(error, Busy):
        request.scope[BUSY] = True
        return _error(503, "too many requests are waiting; try again in a moment", {"Retry-After": str(RETRY)})
    if isinstance(error, HTTPException):
        allowed = (error.headers or {}).get("Allow", "another method")
        reasons = {404: "not found; /openapi.json describes what there is", 405: f"only {allowed} is supported here"}
        return _error(error.status_code, reasons.get(error.status_code, "this cannot be answered"), error.headers)
    return _error(500, "something went wrong in the server; your request is not to blame")


# -- around every request


class Guard:
    """Answers only to its own host names, adds security headers, writes the log, and lets no exception pass.

    The text of an exception might reveal something.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Iterable[str]) -> None:
        self.app = app
        self.limits = limits
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *ENCODED]}
            await send(message)

        try:
            await (self._misdirected(scope) or self.app)(scope, receive, guarded)
        except asyncio.CancelledError:  # its client has disconnected
            status = 499
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s, line %s", type(error).__name__, where.filename, where.lineno)  # noqa: TRY400
        finally:
            route = scope.get("path") if "endpoint" in scope else "(unknown)"
            log.info("%s %s %s %.1f ms", scope["method"], route, status, 1000 * (time.perf_counter() - began))

    def _misdirected(self, scope: Scope) -> Response | None:
        """The answer to a request that is meant for another server."""
        given = [value for name, value in scope["headers"] if name == b"host"]
        if not given and "*" in self.hosts and scope["http_version"] == "1.0":
            return None
        if len(given) != 1:
            return _error(400, "send exactly one Host header")
        host = given[0].decode("latin-1")
        found = NAME.fullmatch(host)
        if "*" in self.hosts or (found and found[1].lower() in self.hosts):
            return None
        return _error(421, f"this server does not answer to the Host {host[:60]!r}; add it with --allowed-hosts")
