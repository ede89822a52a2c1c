"""The small server behind `discreet serve`: the page, and a JSON API (starlette; extra `serve`).

It keeps nothing. Files are served from memory, by their exact names, so that no path leads anywhere else. What a log
line has of a request is its method, the route and the status: never a query, a body or a reason.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra
from discreet.web.api import Api, Asked, Refused
from discreet.web.batching import Batcher, Busy
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

MAX_BODY = 256 * 1024
PATIENCE = 10.0  # seconds that a body may take to arrive
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
            return Response(self.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.kind)
        return Response(self.content, headers=headers, media_type=self.kind)


def application(model: Model, site: Site, *, max_body: int = MAX_BODY, max_batch: int = 100) -> Guard:
    """The server of a model.

    Args:
        model: A fitted model.
        site: Its page, as `discreet.web.site.export` makes it.
        max_body: The most bytes that a request may have.
        max_batch: The most histories that a request may have.
    """
    answers = Api(model, max_batch)
    batcher: Batcher[Asked, list[dict[str, Any]]] = Batcher(answers.recommend)
    description = described(answers, max_body)

    async def recommend(request: Request) -> Response:
        asked, many = answers.parse(await _body(request, max_body))
        found = await batcher.submit(asked)
        return JSONResponse({"results": found} if many else found[0], headers=NOT_KEPT)

    async def items(request: Request) -> Response:
        return JSONResponse(answers.items(_single(request)))

    async def statement(_: Request) -> Response:
        return Response(model.statement().json(), media_type="application/json")

    async def openapi(_: Request) -> Response:
        return JSONResponse(description)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        batcher.close()

    routes = [
        Route("/v1/recommend", recommend, methods=["POST"]),
        Route("/v1/items", items),
        Route("/v1/statement", statement),
        Route("/openapi.json", openapi),
        *(Route(f"/{name}", _file(File.of(name, content))) for name, content in site.files.items()),
        Route("/", _file(File.of("index.html", site.files["index.html"]))),
    ]
    handlers = {Refused: _refused, Busy: _busy, HTTPException: _http, Exception: _failed}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers))


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


async def _body(request: Request, most: int) -> bytes:
    """The body of a request, which is JSON, not too large and not too slow."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "the body must be declared as JSON: send the header Content-Type: application/json")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise Refused(413, f"the body is larger than {most:,} bytes")

    async def read() -> bytes:
        content = bytearray()
        async for chunk in request.stream():
            content.extend(chunk)
            if len(content) > most:
                raise Refused(413, f"the body is larger than {most:,} bytes")
        return bytes(content)

    try:
        return await asyncio.wait_for(read(), PATIENCE)
    except asyncio.TimeoutError:
        raise Refused(408, "the body took too long to arrive") from None
    except ClientDisconnect:
        raise Refused(400, "the body did not arrive") from None


# -- errors as JSON: one sentence


def _error(status: int, reason: str, headers: Any = None) -> Response:
    return JSONResponse({"error": reason}, status, {**NOT_KEPT, **(headers or {})})


async def _refused(_: Request, error: Any) -> Response:
    return _error(error.status, error.reason)


async def _busy(_: Request, __: Any) -> Response:
    return _error(503, "too many requests are waiting; try again in a moment", {"Retry-After": "1"})


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
    """Adds the security headers, writes the log, and lets no exception pass: its text might tell something."""

    def __init__(self, app: Any) -> None:
        self.app = app

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
            await self.app(scope, receive, guarded)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("%s in %s, line %s", type(error).__name__, where.filename, where.lineno)  # noqa: TRY400
        finally:
            route = scope.get("path") if "endpoint" in scope else "(unknown)"
            log.info("%s %s %s %.1f ms", scope["method"], route, status, 1000 * (time.perf_counter() - began))
