"""`discreet export`: a model as static files, for any web server."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from discreet.cli import config
from discreet.cli.common import Json, pairs, show
from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.web import Site

Precision = Annotated[
    Literal["float32", "float16", "int8"],
    typer.Option(help="How item vectors are stored; what that costs is measured and said."),
]
Title = Annotated[str, typer.Option(help="What the page calls itself.")]
Columns = Annotated[
    str | None, typer.Option(help="Columns of the catalogue to show: genres,year. By default those of usual names.")
]
Tradeoff = Annotated[Path | None, typer.Option(help="A JSON file of accuracy at several epsilons, to be drawn.")]
NotPrivate = Annotated[
    bool, typer.Option("--not-private", help="Your word that a model without a guarantee may be published.")
]

ExactMetrics = Annotated[
    bool,
    typer.Option("--exact-metrics-may-be-public", help="Your word that the numbers of --tradeoff may be published."),
]


def export(
    model: Annotated[Path, typer.Argument(help="The folder of a model.")],
    site: Annotated[Path, typer.Argument(help="The folder for the site; a site that is there is replaced.")],
    precision: Precision = "float16",
    title: Title = "Recommendations",
    columns: Columns = None,
    tradeoff: Tradeoff = None,
    not_private: NotPrivate = False,
    exact_metrics_may_be_public: ExactMetrics = False,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Write a model as a web page that recommends in the browser, where what people like stays.

    Example: discreet export model site
    """
    from discreet.models.storage import load

    made = made_site(load(model), precision, title, columns, tradeoff, not_private, exact_metrics_may_be_public)
    made.write(site)
    about = made.manifest
    size = sum(map(len, made.files.values()))
    result = {
        "out": str(site),
        "files": len(made.files),
        "bytes": size,
        "items": about["items"],
        "precision": precision,
        "loss": made.loss,
        "private": about["privacy"]["holds"],
        "sentence": about["privacy"]["sentence"],
    }
    show(result, as_json, *_told(made, site, size))


def made_site(
    model: "Model",
    precision: str,
    title: str,
    columns: str | None,
    tradeoff: Path | None,
    not_private: bool,
    exact_metrics_may_be_public: bool,
) -> "Site":
    """The site of a model."""
    from discreet.web import export as make

    named = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    return make(
        model,
        precision=precision,
        title=title,
        columns=named,
        tradeoff=None if tradeoff is None else _curve(tradeoff),
        not_private=not_private,
        exact_metrics_may_be_public=exact_metrics_may_be_public,
    )


def _curve(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"tradeoff: {str(path)!r} is not JSON: {error}") from None


def _told(made: "Site", site: Path, size: int) -> list[Any]:
    from rich.text import Text

    loss, about = made.loss, made.manifest
    rows = {
        "items": f"{about['items']:,}",
        "size": f"{size / 1e6:.2f} MB in {len(made.files)} files",
        "precision": about["precision"],
        "it moves scores by": f"{loss['rms']:.2g} on average, {loss['largest']:.2g} at most",
        "of the ten best stay": f"{loss['top_10_kept']:.1%}",
    }
    sentence = about["privacy"]["sentence"]
    style = "bold" if about["privacy"]["holds"] else "bold red"
    where = (
        f"The site is in {site}. Any web server can host it; on this machine: python3 -m http.server --directory {site}"
    )
    return [pairs(rows), "", Text(sentence, style=style), "", where]
