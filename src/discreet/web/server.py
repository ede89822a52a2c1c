"""The small server behind `discreet serve`: the page, and a JSON API (starlette; extra `serve`).

It keeps nothing. Files are served from memory, by their exact names, so that no path leads anywhere else. What a log
line has of a request is its method, the route and the status: never a query, a body or a reason.

It answers only to the names that it is known by: a page whose own name someone made to point here (DNS rebinding) would
else be a page of this server to a browser, and could ask it on behalf of whoever looks at it.

Limits of one request, and of all that is at hand, are kept here; those of connections in `discreet.web.connections`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import re
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra, ModelError
from discreet.web.api import READ, SEARCH_SIZE, Api, Asked, Job, Refused, rendered
from discreet.web.batching import Batcher, Busy
from discreet.web.limits import DEFAULTS, LOCAL, RETRY, SMALL, Limits
from discreet.web.openapi import described

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError:
    raise MissingExtra("The server", "serve") from None

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.web.site import Site

LIGHT = 16  # the size of what does not wait for what is larger
PIECE = 64 * 1024  # bytes of an answer that are handed on at once
NAME = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+?)\.?(?::[0-9]*)?", re.IGNORECASE)  # of a host, and perhaps a port
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
BUSY = "discreet.busy"  # in the scope of a request that was refused because too much is waiting
NOT_KEPT = {"Cache-Control": "no-store"}  # what is answered to one person

log = logging.getLogger("discreet.serve")


@dataclass(frozen=True)
class File:
    """A file in memory."""

    content: bytes
    packed: bytes
    kind: str
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> File:
        """By its name and content."""
        kind = TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        return cls(content, gzip.compress(content, 6, mtime=0), kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"')

    def answer(self, request: Request) -> Response:
        """The file, packed where the client can unpack it; nothing if the client has it."""
        headers = {"ETag": self.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == self.etag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Pieces(self.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.kind)
        return Pieces(self.content, headers=headers, media_type=self.kind)


class Pieces(Response):
    """An answer that is handed on as the client reads it: what is not read yet is nowhere copied."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it."""
        if len(self.body) <= PIECE:
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for end in range(PIECE, len(self.body) + PIECE, PIECE):
            part = bytes(self.body[end - PIECE : end])
            await send({"type": "http.response.body", "body": part, "more_body": end < len(self.body)})


def application(model: Model, site: Site, *, limits: Limits = DEFAULTS, allowed_hosts: Iterable[str] = LOCAL) -> Guard:
    """The server of a model, as an ASGI application.

    `discreet.web.connections.settings` has what uvicorn needs to run it within the limits of connections.

    Args:
        model: A fitted model.
        site: Its page, as `discreet.web.site.export` makes it.
        limits: What it takes from clients.
        allowed_hosts: The names that it is reached by, which are all that it answers to; "*" is any.
    """
    answers = Api(model, limits)
    desk = Desk(answers)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        desk.close()

    routes = [
        Route("/v1/recommend", Recommend(desk), methods=["POST"]),
        Route("/v1/items", Items(desk), methods=["GET"]),
        Route("/v1/statement", _file(File.of("statement.json", model.statement().json().encode()))),
        Route("/openapi.json", _file(File.of("openapi.json", rendered(described(answers))))),
        *(Route(f"/{name}", _file(File.of(name, content))) for name, content in site.files.items()),
        Route("/", _file(File.of("index.html", site.files["index.html"]))),
    ]
    handlers = {Refused: _refused, Busy: _busy, HTTPException: _http, Exception: _failed}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Guard(app, limits, [allowed_host(name) for name in allowed_hosts])


def allowed_host(name: str) -> str:
    """A name that a server may answer to, as it is compared."""
    found = NAME.fullmatch(f"[{name}]" if ":" in name and "[" not in name else name)
    if name != "*" and (found is None or found[0] not in (found[1], found[1] + ".")):
        raise ModelError(
            f"allowed hosts: {name!r} is no name; give it as in recommend.example.org, without http:// and port"
        )
    return name if found is None else found[1].lower()


# -- what is computed


class Held:
    """Bytes that are at hand for one request; they are given back when it is over."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.size = 0

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.desk.held -= self.size

    def __call__(self, size: int) -> None:
        """So many are at hand now; raises `Busy` where there are too many for all requests together."""
        if size > SMALL:
            self.desk.held += size - self.size
            self.size = size
            if self.desk.held > self.desk.limits.memory:
                raise Busy


class Desk:
    """What is being computed."""

    def __init__(self, answers: Api) -> None:
        self.answers = answers
        self.limits = answers.limits
        self.held = 0  # bytes of bodies and answers
        self.light: Batcher[Job, Any] = Batcher(answers.compute, self.limits.waiting)
        self.heavy: Batcher[Job, Any] = Batcher(answers.compute, self.limits.waiting)

    async def done(self, job: Job, size: int) -> Any:
        """A job, done: small ones in a thread of their own, for they would wait for as long as a large one takes."""
        return await (self.light if size <= LIGHT else self.heavy).submit(job, size)

    def close(self) -> None:
        """Stop the threads."""
        self.light.close()
        self.heavy.close()


class Recommend:
    """`/v1/recommend`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        with Held(self.desk) as held:
            body = await _body(Request(scope, receive), self.desk.limits.body, held)
            asked: Asked = (
                self.desk.answers.parse(body)
                if len(body) <= SMALL
                else await self.desk.done(body, 1 + len(body) // READ)
            )
            answer = await self.desk.done(asked, asked.size)
            answer = answer if isinstance(answer, bytes) else rendered(answer)
            held(len(body) + len(answer))
            await Pieces(answer, headers=NOT_KEPT, media_type="application/json")(scope, receive, send)


class Items:
    """`/v1/items`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        with Held(self.desk) as held:
            answer = await self.desk.done(_single(Request(scope)), SEARCH_SIZE)
            held(len(answer))
            await Pieces(answer, media_type="application/json")(scope, receive, send)


def _file(file: File) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return file.answer(request)

    return answer


def _single(request: Request) -> dict[str, str]:
    """The parameters of a query, each of which may be given once."""
    given = request.query_params.multi_items()
    if len(dict(given)) < len(given):
        raise Refused(422, "a parameter is given twice")
    return dict(given)


async def _body(request: Request, most: int, held: Held) -> bytes:
    """The body of a request, which is JSON and not too large."""
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
            held(size)
    except ClientDisconnect:
        raise Refused(400, "the body did not arrive") from None
    return b"".join(chunks)


# -- errors as JSON: one sentence


def _error(status: int, reason: str, headers: Any = None) -> Response:
    return JSONResponse({"error": reason}, status, {**NOT_KEPT, **(headers or {})})


async def _refused(_: Request, error: Any) -> Response:
    return _error(error.status, error.reason)


async def _busy(request: Request, _: Any) -> Response:
    request.scope[BUSY] = True
    return _error(503, "too many requests are waiting; try again in a moment", {"Retry-After": str(RETRY)})


async def _http(_: Request, error: Any) -> Response:
    allowed = (error.headers or {}).get("Allow", "another method")
    reasons = {
        404: "there is nothing here; /openapi.json says what there is",
        405: f"here it is {allowed} that is answered",
    }
    return _error(error.status_code, reasons.get(error.status_code, "this cannot be answered"), error.headers)


async def _failed(_: Request, __: Any) -> Response:
    return _error(500, "something went wrong here; it is not about your request")


# -- around every request


class Guard:
    """Answers to its own names only, adds the security headers, writes the log, and lets no exception pass.

    The text of an exception might tell something.
    """

    def __init__(self, app: Any, limits: Limits, hosts: Iterable[str]) -> None:
        self.app = app
        self.limits = limits
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def guarded(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *ENCODED]}
            await send(message)

        try:
            await (self._misdirected(scope) or self.app)(scope, receive, guarded)
        except asyncio.CancelledError:  # its client has left
            status = 499
            raise
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s, line %s", type(error).__name__, where.filename, where.lineno)  # noqa: TRY400
        finally:
            route = scope.get("path") if "endpoint" in scope else "(unknown)"
            log.info("%s %s %s %.1f ms", scope["method"], route, status, 1000 * (time.perf_counter() - began))

    def _misdirected(self, scope: Any) -> Response | None:
        """The refusal of a request that is for somebody else."""
        given = [value for name, value in scope["headers"] if name == b"host"]
        if not given and "*" in self.hosts and scope["http_version"] == "1.0":
            return None
        if len(given) != 1:
            return _error(400, "one Host header is needed, which says whom the request is for")
        host = given[0].decode("latin-1")
        found = NAME.fullmatch(host)
        if "*" in self.hosts or (found and found[1].lower() in self.hosts):
            return None
        return _error(421, f"this server does not answer to the Host {host[:60]!r}; --allowed-hosts says which it does")
