"""`discreet datasets`: list, fetch and describe data sets, and make one up."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli import inputs
from discreet.cli.common import Commands, Misuse, command, completing
from discreet.cli.output import grid, require_folder, show

SEED = 0  # the same files for everyone

complete_names = completing("discreet.data.datasets", "CATALOG")
app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    help="List, fetch and describe the data sets of the papers, or generate one.",
    no_args_is_help=True,
)


@command(app, "list")
def list_() -> None:
    """List the data sets, and say which of them are on this machine.

    Example: discreet datasets list
    """
    from discreet.data.datasets import CATALOG

    rows, cells = [], []
    for data in CATALOG.values():
        path, counts = data.where(), {"interactions": data.interactions, "users": data.users, "items": data.items}
        rows.append(
            {
                "name": data.name,
                "title": data.title,
                **counts,
                "value_range": data.value_range,
                "path": path,
                "downloads": [source.url for source in data.downloads],
                "license": data.license,
            }
        )
        where = path.name if path else "can be fetched" if data.downloads else "bring your own file"
        cells.append((data.name, *(f"{count:,}" for count in counts.values()), where))
    table = grid(("name", "interactions", "users", "items", "where"), cells)
    for column in table.columns[1:-1]:
        column.justify = "right"
    folders = dict.fromkeys(str(path.parent) for path in (data.where() for data in CATALOG.values()) if path)
    show(rows, table, *(["", f"Files are in {' and '.join(folders)}."] if folders else []))


@command(app)
def fetch(
    name: Annotated[str, Argument(help="A name from `discreet datasets list`.", autocompletion=complete_names)],
) -> None:
    """Download a data set into DISCREET_DATA, or the platform's cache, unless it is already there.

    Example: discreet datasets fetch 1m
    """
    from discreet.data import archives, datasets

    data = datasets.find(name)
    archives.tell_license(data.name, data.license)
    found = data.where()
    with inputs.no_path_advised():
        if found is None and not data.downloads:
            raise datasets.cannot_download(data)
        paths = [found] if found is not None else [archives.download(source) for source in data.downloads]
    result = {"name": data.name, "paths": [str(path) for path in paths], "was_available": found is not None}
    show(result, *(f"{data.title} is in {path}" for path in paths))


@command(app)
def describe(
    name: Annotated[str, Argument(help="A name from `discreet datasets list`, or the path of a table.")],
    source: Annotated[Path | None, Option(help="The original archive or its folder, if you have it.")] = None,
) -> None:
    """Load a data set, or any table, and describe it: exact numbers, for its owner.

    Example: discreet datasets describe ratings.parquet
    """
    from discreet.data import datasets

    is_table = source is None and not datasets.known(name) and (Path(name).suffix or "*" in name)
    ratings = inputs.Table().read(name, argument="name") if is_table else datasets.load(name, source)
    described: Any = ratings.describe()
    show(described, str(described))


@command(app)
def sample(
    folder: Annotated[Path, Argument(help="Where to write; by default the current folder.")] = Path(),
    users: Annotated[int, Option(help="How many people to generate.", min=1)] = 20_000,
    items: Annotated[int, Option(help="How many films.", min=10)] = 300,
    ratings: Annotated[int, Option(help="How many ratings.", min=1)] = 1_000_000,
) -> None:
    """Generate ratings.parquet and movies.csv, to try the other commands. The command never replaces files.

    Example: discreet datasets sample
    """
    from pyarrow import csv, parquet

    from discreet.data.synthetic import movielens_like

    paths = [folder / "ratings.parquet", folder / "movies.csv"]
    if there := [str(path) for path in paths if path.exists()]:
        raise Misuse(f"FOLDER: {' and '.join(there)} would be replaced; name another folder")
    if ratings > users * items:
        raise Misuse(f"--ratings: {users:,} users can rate {items:,} items at most {users * items:,} times")
    require_folder("FOLDER", folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = movielens_like(users, items, ratings, random_state=SEED)
    table, films = made.to_arrow(), made.catalogue.to_arrow()
    parquet.write_table(table.rename_columns(["userId", "movieId", "rating"]), paths[0])  # MovieLens's names
    csv.write_csv(films.rename_columns(["movieId", *films.column_names[1:]]), paths[1])
    said = f"{len(made):,} ratings, from 0.5 to 5, by generated people: {paths[0]}; {items:,} films: {paths[1]}."
    show({"paths": [str(path) for path in paths]}, said)
