"""`discreet serve`: a model on a local port, as a page and as a JSON API."""

import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config
from discreet.cli.common import Json, promise, show
from discreet.cli.export import Columns, ExactMetrics, NotPrivate, Precision, Title, Tradeoff, made_site
from discreet.errors import MissingExtra, ModelError

if TYPE_CHECKING:
    from discreet.models.base import Model

SWITCH = 0.001  # seconds that a thread computes while the one that talks to clients waits; Python's own are 0.005


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
    allowed_hosts: Annotated[
        str | None,
        typer.Option(help="Names that it is reached by, besides localhost and --host: a.example.org,b. '*' is any."),
    ] = None,
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
    from discreet.web.api import Limits
    from discreet.web.connections import listen, raise_file_limit, settings
    from discreet.web.server import LOCAL, allowed_host, application

    limits = Limits(body=max_body, histories=max_batch)
    named = [name.strip() for name in (allowed_hosts or "").split(",") if name.strip()]
    hosts = list(dict.fromkeys(map(allowed_host, (*LOCAL, host, *named))))
    loaded = load(model)
    site = made_site(loaded, precision, title, columns, tradeoff, not_private, exact_metrics_may_be_public)
    loaded.n_jobs = 1  # requests are computed together; threads for each would cost more than they give
    app = application(loaded, site, limits=limits, allowed_hosts=hosts)
    raise_file_limit(limits)
    listening = _listening(host, port, listen)  # whoever reads the address below can connect at once
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO if verbose else logging.ERROR)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening[0].getsockname()[1]}"
    told = [*_told(loaded, address), *_names(host, hosts)]
    show({"url": f"{address}/", "openapi": f"{address}/openapi.json", "allowed_hosts": hosts}, as_json, *told)
    sys.stdout.flush()
    sys.setswitchinterval(SWITCH)
    uvicorn.Server(settings(app, host=host, port=port)).run(listening)


def _listening(host: str, port: int, listen: Callable[[str, int], list[socket.socket]]) -> list[socket.socket]:
    try:
        return listen(host, port)
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


def _names(host: str, hosts: list[str]) -> list[str]:
    """What whoever opens it to others has to know."""
    if host in ("localhost", "127.0.0.1", "::1") or "*" in hosts:
        return []
    return [f"It answers to {', '.join(hosts)} only; name whatever else it is reached by with --allowed-hosts."]
