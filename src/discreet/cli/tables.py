"""Tables on the command line: where they are, what their columns are, and ids that arrive as text."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from discreet.cli.common import Misuse
from discreet.errors import DataError, NotPublic, UnknownItem

if TYPE_CHECKING:
    import pyarrow as pa

    from discreet.data import Interactions
    from discreet.data.catalogue import Ids
    from discreet.models.base import Model

User = Annotated[str | None, typer.Option("--user", help="The column of the user; guessed by its name otherwise.")]
Item = Annotated[str | None, typer.Option("--item", help="The column of the item; guessed by its name otherwise.")]
Value = Annotated[str | None, typer.Option("--value", help="The column of the rating; guessed by its name otherwise.")]
Time = Annotated[str | None, typer.Option("--time", help="The column of the time; guessed by its name otherwise.")]
Connection = Annotated[str | None, typer.Option("--connection", help="Where a SELECT runs: the URL of a database.")]
Items = Annotated[str | None, typer.Option("--items", help="The catalogue, which is public: a file or a SELECT.")]
Range = Annotated[
    tuple[float, float] | None, typer.Option("--range", help="The lowest and the highest rating there can be; public.")
]
Observed = Annotated[
    bool, typer.Option("--observed-items-are-public", help="Your word that which items the table has is no secret.")
]
Implicit = Annotated[bool, typer.Option("--implicit", help="Forget the ratings: every row counts 1.")]
OnDuplicate = Annotated[
    Literal["last", "first", "mean", "sum", "raise"],
    typer.Option("--on-duplicate", help="What becomes of a user and an item that occur together again."),
]
OnInvalid = Annotated[
    Literal["raise", "drop", "clip"],
    typer.Option("--on-invalid", help="What becomes of ratings that are missing or out of range."),
]
OnUnknownRows = Annotated[
    Literal["raise", "drop"],
    typer.Option("--on-unknown", help="What becomes of rows about items outside the catalogue."),
]

Separator = Annotated[
    str | None, typer.Option("--separator", help="What separates the cells of a CSV file; by default as in its header.")
]
TimeFormat = Annotated[
    str | None,
    typer.Option("--time-format", help="How times are written, such as %d/%m/%Y; by default numbers or ISO 8601."),
]

TEXT = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
SOURCE = "A file or glob (csv, tsv, parquet, json), a SELECT, or a name of `discreet datasets list`."


@dataclass(frozen=True)
class Reading:
    """How a table is read; the fields are arguments of `discreet.read`."""

    user: str | None = None
    item: str | None = None
    value: str | None = None
    time: str | None = None
    connection: str | None = None
    items: str | None = None
    value_range: tuple[float, float] | None = None
    observed: bool = False
    on_duplicate: str = "last"
    on_invalid: str = "raise"
    on_unknown: str = "raise"
    separator: str | None = None
    time_format: str | None = None

    def read(self, source: str) -> "Interactions":
        """The table: of a data set, where there is no such file and the name is that of one."""
        from discreet.data import datasets, observed_items_are_public, read

        if self.observed and self.items is not None:
            raise Misuse("--items and --observed-items-are-public: give one of them, the catalogue or your word")
        if datasets.known(source) and not Path(source).exists():
            return self._data_set(source)
        columns = {name: given for name in ("user", "item", "value", "time") if (given := getattr(self, name))}
        return read(
            source,
            **columns,
            items=observed_items_are_public if self.observed else self.items,
            value_range=self.value_range,
            connection=self.connection,
            on_duplicate=self.on_duplicate,
            on_invalid=self.on_invalid,
            on_unknown=self.on_unknown,
            separator=self.separator,
            time_format=self.time_format,
        )

    def _data_set(self, name: str) -> "Interactions":
        from discreet.data import datasets

        for option in (
            "user",
            "item",
            "value",
            "time",
            "connection",
            "items",
            "value_range",
            "separator",
            "time_format",
        ):
            if getattr(self, option) is not None:
                flag = option.removeprefix("value_").replace("_", "-")
                raise Misuse(f"{name} is a data set, whose columns, items and range are known; leave out --{flag}")
        return datasets.load(name)


def forgotten(ratings: "Interactions", implicit: bool, threshold: float | None) -> "Interactions":
    """Implicit feedback, where asked for."""
    if not implicit:
        return ratings
    if threshold is not None and ratings.implicit:
        raise DataError("threshold: the table has no ratings to compare with it; leave out --threshold")
    return ratings.to_implicit(threshold)


def require_public(ratings: "Interactions") -> None:
    """Raise unless a private model is told all that it must be told; says what is missing in the command's words."""
    missing = []
    try:
        ratings.catalogue.require_public()
    except NotPublic:
        missing.append(
            "--items FILE, which items there are (or --observed-items-are-public, your word that it is no secret which "
            "of them the table has)"
        )
    if ratings.value_range is None:
        missing.append("--range LOW HIGH, the lowest and the highest rating that there can be")
    if missing:
        raise NotPublic(
            f"a private model must not read off the table what it takes to be public: give {'; and '.join(missing)}"
        )


# -- ids that arrive as text, or in another type than the model's


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def converted(ids: "Ids", texts: "pa.Array", argument: str) -> "pa.Array":
    """Ids written as text in the type of a model's own."""
    import pyarrow as pa

    kind = ids.to_arrow().type
    if _is_text(kind):
        return texts
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_large_binary(kind):  # which Arrow makes of no text
        known = {str(item): item for item in ids}
        unknown = next((text for text in texts.to_pylist() if text not in known), None)
        if unknown is not None:
            raise UnknownItem(f"{argument}: the model does not know {unknown!r}; its items are such as {str(ids[0])!r}")
        return pa.array([known[text] for text in texts.to_pylist()], kind)
    try:
        return texts.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        odd = next(text.as_py() for text in texts if not _fits(text, kind))
        raise DataError(
            f"{argument}: {odd!r} cannot be an item of this model, whose ids are of type {kind}, such as {ids[0]}"
        ) from None


def _fits(text: Any, kind: "pa.DataType") -> bool:
    import pyarrow as pa

    try:
        text.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def as_ids(model: "Model", texts: Sequence[str], argument: str) -> list[Any]:
    """Ids from a command line or a text file, in the type of the model's items."""
    import pyarrow as pa

    array = pa.array([text.strip() for text in texts], pa.large_string())
    ids: list[Any] = converted(model.items_, array, argument).to_pylist()
    return ids


def for_model(model: "Model", ratings: "Interactions", argument: str) -> "Interactions":
    """A table whose items have the type of the model's, where one of them is text: text files have no types."""
    import pyarrow as pa

    from discreet.data import Catalogue

    if ratings.implicit and not model.implicit_ and model.value_range_ != (0.0, 1.0):
        raise DataError(
            f"{argument}: the table has no ratings, and the model needs them; name their column with --value"
        )
    here, there = ratings.items.to_arrow(), model.items_.to_arrow().type
    if _is_text(here.type) == _is_text(there):
        return ratings
    ids = converted(model.items_, here, argument) if _is_text(here.type) else here.cast(pa.large_string())
    about = ratings.catalogue
    return replace(ratings, catalogue=Catalogue(ids, about.columns, origin=about.origin))


# -- short lists: a history, items to allow or to deny


def is_file(text: str) -> bool:
    """Whether a text is the path of a table, be it there or not."""
    from discreet.data.sources import SUFFIXES

    path = Path(text.removesuffix(".gz").removesuffix(".zst"))
    return Path(text).is_file() or ("=" not in text and path.suffix.lower() in SUFFIXES)


def listed(path: str, argument: str) -> tuple[list[str], list[str] | None]:
    """Items and ratings, if there are any, of a file; a text file may do without a heading."""
    from discreet.data.sources import guess

    separator = TEXT.get(Path(path).suffix.lower())
    if separator is not None:
        rows = _text_rows(path, separator, argument)
        names = [name.strip() for name in rows[0]] if rows else []
        if guess("item", names) is None and "id" not in names:  # no heading
            return _cells(rows, 0, 1 if rows and len(rows[0]) > 1 else None, path, argument)
        rows = rows[1:]
    else:
        names, rows = _whole(path, argument)
    if guess("user", names) is not None:
        raise DataError(f"{argument}: {path!r} has a column of users; give a table of many people with --users")
    item, value = guess("item", names) or ("id" if "id" in names else None), guess("value", names)
    if item is None:
        raise DataError(f"{argument}: none of the columns {names} of {path!r} looks like the item; call one 'item'")
    return _cells(rows, names.index(item), None if value is None else names.index(value), path, argument)


def _text_rows(path: str, separator: str, argument: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return [row for row in csv.reader(file, delimiter=separator) if any(map(str.strip, row))]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{argument}: {path!r} is not a text file of rows: {error}") from None


def _whole(path: str, argument: str) -> tuple[list[str], list[list[str]]]:
    """The columns and the rows of a file that is no CSV."""
    import pyarrow as pa

    from discreet.data.readers import open_table, text_table
    from discreet.data.sources import Wanted, found_files

    paths, kind = found_files([path])
    if kind == "json":
        found, _ = text_table(paths, kind, lambda names: names[0])
    else:
        table = open_table(path)
        try:
            found = pa.Table.from_batches(list(table.stream(Wanted(list(table.names or ()), ()))))
        finally:
            table.close()
    return found.column_names, [[str(cell) for cell in row.values()] for row in found.to_pylist()]


def _cells(
    rows: list[list[str]], item: int, value: int | None, path: str, argument: str
) -> tuple[list[str], list[str] | None]:
    if any(len(row) <= max(item, value or 0) for row in rows):
        raise DataError(
            f"{argument}: {path!r} has rows with too few cells; each needs an item" + ", rating" * bool(value)
        )
    return [row[item] for row in rows], None if value is None else [row[value] for row in rows]
