"""`discreet serve`: a model on a local port, as a page and as a JSON API."""

import logging
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config
from discreet.cli.common import Json, promise, show
from discreet.cli.export import Columns, ExactMetrics, NotPrivate, Precision, Title, Tradeoff, made_site
from discreet.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from discreet.models.base import Model

BACKLOG = 2048  # connections that may wait


def serve(
    model: Annotated[Path, typer.Argument(help="The folder of a model.")],
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 is all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0: any that is free.", min=0, max=65535)] = 8000,
    precision: Precision = "float16",
    title: Title = "Recommendations",
    columns: Columns = None,
    tradeoff: Tradeoff = None,
    not_private: NotPrivate = False,
    exact_metrics_may_be_public: ExactMetrics = False,
    max_body: Annotated[int, typer.Option(help="The most bytes that a request may have.", min=1)] = 256 * 1024,
    max_batch: Annotated[int, typer.Option(help="The most histories that a request may have.", min=1)] = 100,
    verbose: Annotated[bool, typer.Option("--verbose", help="A line for each request, without what it says.")] = False,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Serve a model until Ctrl-C: the page at /, and /v1/recommend, /v1/items, /v1/statement, /openapi.json.

    Example: discreet serve model
    """
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise MissingExtra("The server", "serve") from None
    from discreet.models.storage import load
    from discreet.web.server import application

    loaded = load(model)
    site = made_site(loaded, precision, title, columns, tradeoff, not_private, exact_metrics_may_be_public)
    loaded.n_jobs = 1  # requests are computed together; threads for each would cost more than they give
    listening = _listening(host, port)  # whoever reads the address below can connect at once
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO if verbose else logging.ERROR)
    settings = uvicorn.Config(
        application(loaded, site, max_body=max_body, max_batch=max_batch),
        host=host,
        port=port,
        access_log=False,
        server_header=False,
        log_level="error",
        limit_concurrency=512,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
    )
    address = f"http://{host}:{listening.getsockname()[1]}"
    show({"url": f"{address}/", "openapi": f"{address}/openapi.json"}, as_json, *_told(loaded, address))
    sys.stdout.flush()
    uvicorn.Server(settings).run([listening])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        hint = "another --port may do, or --port 0, which is any that is free"
        raise ModelError(f"{host}:{port} cannot be listened on ({error.strerror}); {hint}") from None


def _told(model: "Model", address: str) -> list[Any]:
    return [
        promise(model.guarantee_),
        "",
        f"The page is at {address}/ and computes in the browser; the API is described at {address}/openapi.json.",
        "Ctrl-C ends it.",
    ]
