"""`discreet export` and `discreet serve`: a model as static files, and on a local port."""

import errno
import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from socket import gaierror
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from typer import Argument, Option

from discreet.cli import inputs
from discreet.cli.common import by_commas
from discreet.cli.output import pairs, promise, show
from discreet.errors import DataError, MissingExtra, ModelError

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.web import Site

SWITCH = 0.001  # seconds that a thread computes while the one that talks to clients waits; Python's default is 0.005


@dataclass(frozen=True)
class Page:
    """Options of the page, for both commands."""

    HEADING: ClassVar = "The page"

    precision: Annotated[
        Literal["float32", "float16", "int8"],
        Option(help="How item vectors are stored. The command measures and reports what that costs."),
    ] = "float16"
    title: Annotated[str, Option(help="The title of the page.")] = "Recommendations"
    columns: Annotated[
        str | None,
        Option(help="Columns of the catalog to show, such as genres,year; by default those with common names."),
    ] = None
    tradeoff: Annotated[Path | None, Option(help="A JSON file from `discreet tradeoff --curve`, to draw.")] = None
    not_private: Annotated[bool, Option("--not-private", help="Publish a model that has no guarantee.")] = False
    exact_metrics_may_be_public: Annotated[
        bool, Option("--exact-metrics-may-be-public", help="Declare that the numbers of --tradeoff may be published.")
    ] = False

    def make(self, model: "Model") -> "Site":
        """The site of a model."""
        from discreet.web import export as make

        try:
            curve = None if self.tradeoff is None else json.loads(self.tradeoff.read_text(encoding="utf-8"))
        except OSError as error:
            raise DataError(f"tradeoff: {str(self.tradeoff)!r} cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise DataError(f"tradeoff: {str(self.tradeoff)!r} is not JSON: {error}") from None
        given = {**vars(self), "columns": by_commas(self.columns), "tradeoff": curve}
        return make(model, **given)


def export(
    model: inputs.SavedModel,
    site: Annotated[Path, Argument(help="The folder for the site. An existing site is replaced.")],
    page: Page,
) -> None:
    """Write a model as a web page that recommends in the browser, so that what people like never leaves it.

    Example: discreet export model site
    """
    loaded = inputs.saved(model)
    made = page.make(loaded)
    try:
        made.write(site)
    except ModelError as error:
        raise ModelError(f"site: {error}") from None
    about, loss, size = made.manifest, made.loss, sum(map(len, made.files.values()))
    result = {
        "out": str(site),
        "files": len(made.files),
        "bytes": size,
        "items": about["items"],
        "precision": page.precision,
        "loss": loss,
        "private": about["privacy"]["holds"],
        "sentence": about["privacy"]["sentence"],
    }
    rows = {
        "items": f"{about['items']:,}",
        "size": f"{size / 1e6:.2f} MB in {len(made.files)} files",
        "precision": about["precision"],
        "change of scores": f"{loss['rms']:.2g} on average, {loss['largest']:.2g} at most",
        "change of predictions": f"{loss['predicted']:.2g} on average",
        "of the ten best stay": f"{loss['top_10_kept']:.1%}",
    }
    where = (
        f"The site is in {site}. Any web server can host it; on this machine: python3 -m http.server --directory {site}"
    )
    show(result, pairs(rows), "", promise(loaded.guarantee_), "", where)


def serve(
    model: inputs.SavedModel,
    *,
    host: Annotated[str, Option(help="The address to listen on; 0.0.0.0 means all addresses.")] = "127.0.0.1",
    port: Annotated[int, Option(help="The port; 0 means any free port.", min=0, max=65535)] = 8000,
    page: Page,
    allowed_hosts: Annotated[
        str | None, Option(help="More host names to answer to, such as a.example.org,b; '*' means any name.")
    ] = None,
    max_body: Annotated[int, Option(help="The largest request, in bytes.", min=1)] = 256 * 1024,
    max_batch: Annotated[int, Option(help="The most histories in a request.", min=1)] = 100,
    verbose: Annotated[bool, Option("--verbose", help="Log a line for each request, without its content.")] = False,
) -> None:
    """Serve a model until Ctrl-C: the page at /, and /v1/recommend, /v1/items, /v1/statement, /openapi.json.

    Example: discreet serve model
    """
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise MissingExtra("The server", "serve") from None
    from discreet.web.api import Limits
    from discreet.web.connections import listen, raise_file_limit, settings
    from discreet.web.server import LOCAL, allowed_host, application

    limits = Limits(body=max_body, histories=max_batch)
    hosts = list(dict.fromkeys(map(allowed_host, (*LOCAL, host, *(by_commas(allowed_hosts) or ())))))
    loaded = inputs.saved(model)
    site = page.make(loaded)
    loaded.n_jobs = 1  # requests are computed together; threads for each would cost more than they give
    app = application(loaded, site, limits=limits, allowed_hosts=hosts)
    raise_file_limit(limits)
    try:
        listening = listen(host, port)  # before the address is shown, so that clients can connect at once
    except OSError as error:
        hint = "try another --port, or --port 0 for any free one"
        if error.errno == errno.EADDRNOTAVAIL or isinstance(error, gaierror):
            hint = "--host must be an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
        said = str(error.strerror).partition(" (while")[0]  # asyncio repeats the address
        raise ModelError(f"cannot listen on {host}:{port} ({said}); {hint}") from None
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO if verbose else logging.ERROR)
    address = f"http://{f'[{host}]' if ':' in host else host}:{listening[0].getsockname()[1]}"
    told: list[Any] = [promise(loaded.guarantee_), ""]
    told += [f"The page is at {address}/ and computes in the browser; {address}/openapi.json describes the API."]
    told += ["Press Ctrl-C to stop."]
    if host not in ("localhost", "127.0.0.1", "::1") and "*" not in hosts:
        told += [f"It answers to {', '.join(hosts)} only; add other host names with --allowed-hosts."]
    show({"url": f"{address}/", "openapi": f"{address}/openapi.json", "allowed_hosts": hosts}, *told)
    sys.stdout.flush()
    sys.setswitchinterval(SWITCH)
    uvicorn.Server(settings(app, host=host, port=port)).run(listening)
