"""Data frames of any library, in and out."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import narwhals as nw
import pyarrow as pa

from discreet.data import databases
from discreet.data.columns import Wanted
from discreet.data.ids import to_array
from discreet.data.objects import to_values
from discreet.data.tables import Table, require_names, sliced
from discreet.errors import DataError, MissingExtra

LIBRARIES = ("pandas", "polars", "pyarrow")


def to_library(table: pa.Table, library: str | None) -> Any:
    """Convert an Arrow table; None leaves it as it is."""
    if library is None or library == "pyarrow":
        return table
    if library not in LIBRARIES:
        raise DataError(f"library: one of {', '.join(LIBRARIES)} is needed, not {library!r}")
    uuids = {field.name: table[field.name].to_pylist() for field in table.schema if isinstance(field.type, pa.UuidType)}
    for name, cells in uuids.items():  # polars has no such type, and text is of more use than bytes
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(map(str, cells), pa.large_string()))
    frame = nw.from_native(table, eager_only=True)
    try:
        native = frame.to_polars() if library == "polars" else frame.to_pandas()
    except ModuleNotFoundError as error:
        raise DataError(f"library={library!r} is not installed ({error}); pip install {library}") from None
    for name, cells in uuids.items() if library == "pandas" else ():
        native[name] = cells
    return native


def from_frame(source: Any) -> Table:
    """A data frame of any library, an Arrow stream, a DuckDB relation, a Spark DataFrame."""
    library = type(source).__module__.split(".")[0].lstrip("_")  # some versions of DuckDB say _duckdb
    what = f"a {library} {type(source).__name__}"
    if library == "duckdb":
        return databases.relation(source, what)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if type(source).__name__ == "Series" or isinstance(source, pa.Array | pa.ChunkedArray):
        raise DataError(
            f"source: a {type(source).__name__} is a single column; give a table with columns user and item"
        )
    if type(source).__name__ != "LazyFrame":  # whose names are the result of a query
        require_names(getattr(source, "column_names", None) or getattr(source, "columns", ()))
    try:
        frame = nw.from_native(source)
    except TypeError:
        if not hasattr(source, "__arrow_c_stream__"):
            raise DataError(
                f"source: {type(source).__name__} is not a table that can be read. Give a path, a SELECT, a data "
                "frame, an Arrow table, a scipy sparse matrix or a list of (user, item, value)"
            ) from None
        reader = pa.RecordBatchReader.from_stream(source)
        return Table(what, reader.schema.names, lambda wanted: sliced(_selected(reader, wanted)), library="pyarrow")
    is_query = isinstance(frame, nw.LazyFrame)
    try:
        names = frame.collect_schema().names() if isinstance(frame, nw.LazyFrame) else frame.columns
    except nw.exceptions.NarwhalsError as error:
        raise DataError(f"source: {what} cannot be read: {str(error).splitlines()[0]}. Correct its query") from None

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        chosen = frame.select(wanted.names)
        if (table := _objects(chosen, library, wanted)) is not None:
            yield from sliced(table.to_batches())
            return
        if isinstance(chosen, nw.LazyFrame):
            try:
                chosen = chosen.collect("pyarrow")
            except ImportError as error:
                raise MissingExtra(f"reading {what} ({error})", "spark") from None
        yield from sliced(_reader(chosen))

    kept = library if library in LIBRARIES else None
    return Table(what, list(names), stream, None if is_query else len(frame), library=kept, is_query=is_query)


def _selected(reader: pa.RecordBatchReader, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            yield batch.select(wanted.names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"source: the Arrow stream broke off: {error}") from None


def _reader(frame: Any) -> pa.RecordBatchReader:
    """A frame as an Arrow stream; an error names the column that Arrow cannot take."""
    try:
        return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        names = list(frame.columns)
        if len(names) > 1:
            for name in names:
                _reader(frame.select([name]))
        raise _mixed(names[0], error.args[0]) from None


def _mixed(name: str, why: object) -> DataError:
    return DataError(
        f"source: column {name!r} holds more than one type, or an unknown one ({why}); make it one, for instance "
        f"frame[{name!r}].astype(str)"
    )


def _objects(frame: Any, library: str, wanted: Wanted) -> pa.Table | None:
    """A pandas frame with columns of Python objects or categories, converted cell by cell; None for any other."""
    if library == "polars":
        for name, kind in frame.collect_schema().items():
            if kind == nw.Object:
                raise DataError(f"source: column {name!r} holds Python objects; give it a type: frame.cast(...)")
    if library != "pandas":
        return None
    native = nw.to_native(frame)
    columns = {name: native[name] for name in wanted.names}
    if not any(column.dtype == object or str(column.dtype) == "category" for column in columns.values()):
        return None
    arrays = {}
    for name, column in columns.items():
        convert = to_values if name == wanted.value else to_array
        try:
            if str(column.dtype) == "category":
                to_array(column.cat.categories.tolist(), "categories")
            is_object = column.dtype == object
            arrays[name] = convert(column.tolist(), "it") if is_object else pa.array(column, from_pandas=True)
        except (DataError, pa.ArrowException) as error:
            raise _mixed(name, error) from None
    return pa.table(arrays)
