"""The items there are. A public input: it is declared by the owner, never read off the data silently."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from discreet.data import texts
from discreet.data.columns import Wanted, guess
from discreet.data.frames import to_library
from discreet.data.ids import Ids, decoded, sorted_order, typed
from discreet.data.sources import SELECT, found_files, open_table
from discreet.data.tables import shown
from discreet.errors import DataError, NotPublic
from discreet.typing import Array


class ObservedItems(enum.Enum):
    """The type of `discreet.observed_items_are_public`."""

    PUBLIC = enum.auto()

    def __repr__(self) -> str:
        return "discreet.observed_items_are_public"


observed_items_are_public = ObservedItems.PUBLIC
"""Pass as `items=` to declare that the set of items in the data is no secret. The statement will say so."""
OBSERVED = "those observed in the data, which the owner declares to be public"


class Catalogue:
    """The items in a fixed order, with whatever is publicly known about them.

    Example:
        >>> import discreet
        >>> films = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0).catalogue
        >>> len(films), films.names
        (50, ['title', 'genres'])
        >>> films.column("title")[:2]
        ['Film 1', 'Film 2']

    Attributes:
        ids: The items; the position of an item is its number.
        origin: How the catalogue came to be public, or None if it has not been declared public.
    """

    def __init__(self, ids: Any, columns: pa.Table | None = None, *, origin: str | None = "given") -> None:
        self.ids = (ids if isinstance(ids, Ids) else Ids(ids, "items")).require_distinct("items")
        self.origin = origin
        self._columns = pa.table({} if columns is None else {n: _plain(columns[n]) for n in columns.column_names})
        if self._columns.num_columns and self._columns.num_rows != len(self.ids):
            raise DataError(f"items: {self._columns.num_rows} rows of columns for {len(self.ids)} items")

    @classmethod
    def read(cls, items: Any, *, item: str | None = None, connection: Any = None) -> Catalogue:
        """Read a catalogue from ids, or from a data frame, file or SELECT with one row for each item.

        Args:
            items: A list, array or series of ids; a data frame or Arrow table; the path of a file; a SELECT.
            item: The column of the ids; by default `item`, or one with a usual name such as movieId or id.
            connection: Where a SELECT runs, as in `discreet.read`.

        Returns:
            The items in the order given (a set: sorted), with the other columns (titles, genres, ...) beside them.
        """
        if isinstance(items, Catalogue):
            return items
        if isinstance(items, set | frozenset):  # which has no order
            unordered = Ids(items, "items")
            return cls(unordered.some(sorted_order(unordered.to_arrow())))
        is_table = hasattr(items, "columns") or hasattr(items, "column_names")
        if not (is_table or isinstance(items, str | os.PathLike)):
            return cls(items)

        def column(names: Sequence[str]) -> str:
            found = item if item in names else guess("item", names) or ("id" if "id" in names else None)
            if found is None:
                raise DataError(f"items: none of the columns {list(names)} looks like the item; name it with item=")
            return found

        is_file = isinstance(items, os.PathLike) or (isinstance(items, str) and not SELECT.match(items))
        paths, kind = found_files([items]) if is_file and connection is None else ([], "")
        if kind in ("csv", "tsv", "json"):
            whole, name = text_table(paths, kind, column)
            what = shown(paths)
        else:
            table = open_table(items, connection)
            try:
                names = list(table.names or ())
                name, what = column(names), table.what
                whole = _whole(table.stream(Wanted(names, (name,))))
            finally:
                table.close()
        if not whole.num_rows:
            raise DataError(f"items: {what} has no rows; a catalogue needs at least one item")
        ids = whole.column(name).combine_chunks()
        if kind in ("csv", "tsv"):
            ids = typed(ids)
        return cls(Ids(ids, "items"), whole.drop_columns([name]))

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return NotImplemented
        return self.ids == other.ids and bool(self._columns.equals(other._columns))

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        beside = f" with {', '.join(self.names)}" if self.names else ""
        return f"Catalogue of {len(self)} items{beside} ({self.origin or 'not declared public'})"

    @property
    def names(self) -> list[str]:
        """The columns beside the ids."""
        names: list[str] = self._columns.column_names
        return names

    @property
    def columns(self) -> pa.Table:
        """What is known about the items, in their order, as an Arrow table."""
        return self._columns

    def column(self, name: str) -> list[Any]:
        """One column, in the order of the items."""
        if name not in self.names:
            raise DataError(f"the catalogue has no column {name!r}; it has {self.names}")
        cells: list[Any] = self._columns.column(name).to_pylist()
        return cells

    def take(self, numbers: Sequence[int] | Array) -> Catalogue:
        """The items at the given numbers, in that order, as a catalogue of its own."""
        chosen = pa.array(np.asarray(numbers, dtype=np.int64))
        columns = self._columns.take(chosen) if self.names else None
        return Catalogue(Ids(self.ids.take(chosen)), columns, origin=self.origin)

    def of_origin(self, origin: str) -> Catalogue:
        """The same items, with another account of how they came to be public."""
        return Catalogue(self.ids, self._columns, origin=origin)

    def require_public(self) -> None:
        """Raise NotPublic unless the owner has declared these items public."""
        if self.origin is None:
            raise NotPublic(
                "items: this catalogue has not been declared public, and which items exist must not be read "
                "off private data silently. Either give the items, discreet.read(..., items=ids, frame or file), "
                "or pass items=discreet.observed_items_are_public, which the privacy statement will then say"
            )

    def to_arrow(self) -> pa.Table:
        """The ids (column `item`) and all columns, as an Arrow table."""
        others = {name: self._columns.column(name) for name in self.names if name != "item"}
        return pa.table({"item": self.ids.to_arrow(), **others})

    def to_frame(self, library: str | None = None) -> Any:
        """The same as a data frame of a library: "pandas", "polars" or "pyarrow"."""
        return to_library(self.to_arrow(), library)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One type for text, whichever library it came from."""
    if isinstance(column.type, pa.DictionaryType):
        column = pa.chunked_array([decoded(chunk) for chunk in column.chunks] or [pa.array([], pa.large_string())])
    text = pa.types.is_string(column.type) or str(column.type) == "string_view"
    return column.cast(pa.large_string()) if text else column


def _whole(batches: Any) -> pa.Table:
    found = [pa.Table.from_batches([batch]) for batch in batches]
    return pa.concat_tables(found, promote_options="permissive") if found else pa.table({})


def text_table(paths: list[str], kind: str, item: Callable[[Sequence[str]], str]) -> tuple[pa.Table, str]:
    """A public table of items, all of it, with the name of the column of ids; types are those that its columns have.

    What is public may be guessed from. The ids are text, unless JSON has them as numbers.
    """
    found = []
    name = ""
    for path in paths:
        with texts.opened(path) as file, texts.explained(path):
            if kind == "json":
                try:
                    table = arrow_json.read_json(file)
                except pa.ArrowInvalid as error:
                    raise DataError(f"items: {path!r} cannot be read ({error}). {texts.JSON_ADVICE}") from None
                name = item(table.column_names)
            else:
                table, name = _csv_catalogue(path, file, kind, item)
            found.append(table)
    return pa.concat_tables(found, promote_options="permissive"), name


def _csv_catalogue(path: str, file: IO[bytes], kind: str, item: Callable[[Sequence[str]], str]) -> tuple[pa.Table, str]:
    reader = texts.Csv.of(path, file.readline(), texts.checked_separator(None, kind))
    name = item(reader.names)
    try:
        table = arrow_csv.read_csv(
            file,
            read_options=arrow_csv.ReadOptions(column_names=list(reader.names), use_threads=False),  # for row numbers
            parse_options=arrow_csv.ParseOptions(delimiter=reader.separator, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types={name: pa.large_string()}),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return pa.table({column: pa.array([], pa.large_string()) for column in reader.names}), name
        uneven = re.search(r"Row #(\d+): Expected \d+ columns, got \d+: (.*)", str(error), flags=re.S)
        if uneven is None:
            advice = "Check that the file is whole, in UTF-8, and that every line has as many cells as the first"
            raise DataError(f"items: {path!r} cannot be read ({error}). {advice}") from None
        line = uneven[2].encode()
        raise DataError(f"items: line {int(uneven[1]) + 1} of {path!r}, {uneven[2]!r}, {reader.fault(line)}") from None
    return table, name
