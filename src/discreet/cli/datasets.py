"""`discreet datasets`: what there is, where it is, and what is in it; and one that is made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import config
from discreet.cli.common import Command, Json
from discreet.errors import DataError

RATINGS, MOVIES = "ratings.parquet", "movies.csv"
SEED = 0  # the same files for everybody

app = typer.Typer(help="Data sets: list, fetch and describe those of the papers; make one up.", no_args_is_help=True)


def names(incomplete: str) -> list[str]:
    """Names of data sets, for the shell to complete."""
    from discreet.data.datasets import CATALOG

    return [name for name in CATALOG if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="A name that `discreet datasets list` shows.", autocompletion=names)]


@app.command("list", cls=Command)
def list_(config_file: config.Config = None, as_json: Json = False) -> None:
    """Show the data sets there are, and which of them are at hand.

    Example: discreet datasets list
    """
    from discreet.data.datasets import CATALOG

    rows = [
        {
            "name": data.name,
            "title": data.title,
            "interactions": data.interactions,
            "users": data.users,
            "items": data.items,
            "value_range": list(data.value_range),
            "path": None if (path := data.where()) is None else str(path),
            "downloads": [source.url for source in data.downloads],
            "licence": data.licence,
        }
        for data in CATALOG.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    table.add_column("name", no_wrap=True)
    for heading in ("interactions", "users", "items"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("where", overflow="fold")  # a path is never cut
    for row in rows:
        where = row["path"] or ("can be fetched" if row["downloads"] else "bring your own file")
        counts = [f"{row[key]:,}" for key in ("interactions", "users", "items")]
        table.add_row(str(row["name"]), *counts, Text(str(where)))
    Console().print(table)


@app.command(cls=Command)
def fetch(name: Name, config_file: config.Config = None, as_json: Json = False) -> None:
    """Download a data set into DISCREET_DATA, or the platform's cache, unless it is at hand.

    Example: discreet datasets fetch 1m
    """
    from discreet.data import archives, datasets

    data = datasets.find(name)
    archives.tell_licence(data.name, data.licence)
    found = data.where()
    if found is None and not data.downloads:
        raise datasets.cannot_download(data)
    paths = [found] if found is not None else [archives.download(source) for source in data.downloads]
    if as_json:
        typer.echo(
            json.dumps({"name": data.name, "paths": [str(path) for path in paths], "was_at_hand": found is not None})
        )
    else:
        for path in paths:
            typer.echo(f"{data.title} is in {path}")


@app.command(cls=Command)
def describe(
    name: Annotated[str, typer.Argument(help="A name that `discreet datasets list` shows, or the path of a table.")],
    source: Annotated[Path | None, typer.Option(help="The original archive or its folder, if you have it.")] = None,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Load a data set, or any table, and show what is in it: exact numbers, for its owner.

    Example: discreet datasets describe ratings.parquet
    """
    from discreet.data import datasets, read

    is_table = source is None and not datasets.known(name) and (Path(name).suffix or "*" in name)
    ratings = read(name) if is_table else datasets.load(name, source)
    described: dict[str, Any] = ratings.describe()
    typer.echo(json.dumps(described, indent=2, default=str) if as_json else str(described))


@app.command(cls=Command)
def sample(
    folder: Annotated[Path, typer.Argument(help="Where to write; by default here.")] = Path(),
    users: Annotated[int, typer.Option(help="How many people to make up.", min=1)] = 20_000,
    items: Annotated[int, typer.Option(help="How many films.", min=10)] = 300,
    ratings: Annotated[int, typer.Option(help="How many ratings.", min=1)] = 1_000_000,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Make up ratings.parquet and movies.csv, to try the other commands on. Files that are there are never replaced.

    Example: discreet datasets sample
    """
    from pyarrow import csv, parquet

    from discreet.data.synthetic import movielens_like

    paths = [folder / RATINGS, folder / MOVIES]
    if there := [str(path) for path in paths if path.exists()]:
        raise DataError(f"{' and '.join(there)}: already there, and not replaced; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    made = movielens_like(users, items, ratings, random_state=SEED)
    table, films = made.to_arrow(), made.catalogue.to_arrow()
    parquet.write_table(table.rename_columns(["userId", "movieId", "rating"]), paths[0])  # as MovieLens has them
    csv.write_csv(films.rename_columns(["movieId", *films.column_names[1:]]), paths[1])
    said = f"{len(made):,} ratings, from 0.5 to 5, by people who are made up: {paths[0]}; {items:,} films: {paths[1]}."
    typer.echo(json.dumps({"paths": [str(path) for path in paths]}) if as_json else said)
