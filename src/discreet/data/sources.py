"""Every kind of table, as one: names of columns, and a stream of Arrow batches of some of them."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data import databases, texts
from discreet.data.columns import Wanted
from discreet.data.objects import to_values
from discreet.errors import DataError, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 18  # rows at a time: large enough for speed, small beside the finished arrays
ROLES = ("user", "item", "value", "time")
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
COMPRESSED = (".gz", ".zst")
SELECT = re.compile(r"^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|from)\s", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Table:
    """A table that has been found but not read."""

    what: str  # for people
    names: Sequence[str] | None  # None: JSON lines, which have no header
    stream: Callable[[Wanted], Generator[pa.RecordBatch, None, None]]
    rows: int | None = None  # where it is known beforehand
    is_text: bool = False  # cells arrive as they are written in a text file
    is_query: bool = False  # rows have no order that can be relied upon
    library: str | None = None  # the data frame library of the source, if it is one
    close: Callable[[], None] = lambda: None


def open_table(source: Any, connection: Any = None, separator: str | None = None) -> Table:
    """Recognize a source."""
    paths = source if isinstance(source, list | tuple) else [source]
    are_paths = bool(paths) and all(isinstance(path, str | os.PathLike) for path in paths)
    is_select = connection is not None or (isinstance(source, str) and SELECT.match(source))
    if are_paths and not is_select:
        return from_files(paths, separator)
    if separator is not None:
        raise DataError("separator: it is that of a CSV file; leave it out")
    if isinstance(source, Table):  # one of our own, such as the files of a data set
        return source
    if is_select:
        if not isinstance(source, str):
            raise DataError(f"source: with connection= a SELECT statement is needed, not {type(source).__name__}")
        return databases.select(source, connection)
    module = type(source).__module__.split(".")[0]
    if module == "scipy":
        return from_sparse(source)
    if isinstance(source, np.ndarray):
        raise DataError(
            "source: a NumPy array does not say what its rows are. For a matrix of users by items pass "
            "scipy.sparse.csr_array(array); for rows of (user, item, value) pass array.tolist()"
        )
    if isinstance(source, Iterable) and not hasattr(source, "columns") and module in ("builtins", "itertools"):
        return from_tuples(source)
    return from_frame(source)


def sliced(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Cut large batches, so that whatever follows needs little memory at a time; leave out empty ones."""
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH):
            yield batch.slice(start, BATCH)


def prefetched(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Decode the next batch while the last one is being indexed."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch


def from_files(given: Sequence[str | os.PathLike[str]], separator: str | None = None) -> Table:
    """Files by path or glob, of one format."""
    paths, kind = found_files(given)
    if kind == "parquet":
        if separator is not None:
            raise DataError("separator: it is that of a CSV file; leave it out")
        return _from_parquet(paths)
    return texts.text_files(paths, kind, separator)


def found_files(given: Sequence[str | os.PathLike[str]]) -> tuple[list[str], str]:
    """The files that are meant, and their format. What is the name of a file is that file, and not a glob."""
    paths: list[str] = []
    for one in given:
        source = os.fspath(one)
        name = os.path.expanduser(source)
        found = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not found:
            raise DataError(f"source: no file matches {source!r}; relative paths start in {os.getcwd()!r}")
        for path in found:
            if os.path.isdir(path):
                raise DataError(f"source: {path!r} is a folder; give a glob such as {path + '/*.parquet'!r}")
            if not os.path.getsize(path):
                raise DataError(f"source: {path!r} is an empty file; fetch or write it again")
        paths += found
    formats = {_format(path) for path in paths}
    if len(formats) > 1:
        raise DataError(f"source: files of one format are needed, not {' and '.join(sorted(formats))}")
    return paths, formats.pop()


def _format(path: str) -> str:
    suffixes = Path(path).suffixes
    if suffixes and suffixes[-1].lower() in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1].lower() if suffixes else ""
    if suffix not in SUFFIXES:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"source: the format of {path!r} is not known by its suffix (known: {known}; with .gz or .zst). "
            "Rename it, or read it with a SELECT from read_csv(..., auto_detect = false, columns = ...)"
        )
    return SUFFIXES[suffix]


def _from_parquet(paths: list[str]) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from discreet.data.ids import plain_type

    def opened(path: str) -> Any:
        try:
            # A buffer would hold the whole file. Checksums are verified where the file has them.
            return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"source: {path!r} is not a whole parquet file ({error}); fetch it again") from None

    def require_schemas(names: list[str]) -> None:
        """Raise, before any row is read, unless all files have these columns, in the same types."""
        for path, file in zip(paths, files, strict=True):
            require_names(file.schema_arrow.names)
            for name in names:
                if name not in file.schema_arrow.names:
                    raise DataError(f"source: {path!r} has no column {name!r}, which {paths[0]!r} has")
                kinds = [plain_type(one.schema_arrow.field(name).type) for one in (files[0], file)]
                if kinds[0] != kinds[1]:
                    raise DataError(
                        f"source: column {name!r} is {kinds[0]} in {paths[0]!r} and {kinds[1]} in {path!r}; give it "
                        "one type"
                    )

    def stream(names: list[str]) -> Iterator[pa.RecordBatch]:
        require_schemas(names)
        for path in paths:
            file = opened(path)
            try:
                for batch in file.iter_batches(BATCH, columns=names):
                    yield batch.select(names)
            except (pa.ArrowInvalid, OSError) as error:
                raise DataError(f"source: {path!r} is damaged ({error}); fetch it again") from None

    files = [opened(path) for path in paths]
    require_names(files[0].schema_arrow.names)
    return Table(
        what=shown(paths),
        names=files[0].schema_arrow.names,
        stream=lambda wanted: prefetched(stream(wanted.names)),
        rows=sum(file.metadata.num_rows for file in files),
    )


def shown(paths: list[str]) -> str:
    """Some files in words."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"


def from_sparse(matrix: Any) -> Table:
    """A scipy sparse matrix or array: users are its rows, items its columns, both by number from 0."""
    import pyarrow as pa
    from scipy.sparse import issparse

    if not issparse(matrix) or len(matrix.shape) != 2:
        raise DataError(f"source: a two-dimensional sparse matrix is needed, not {type(matrix).__name__}")
    if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise DataError(
            f"source: a sparse matrix of numbers is needed, not of {matrix.dtype}; give matrix.astype(float)"
        )
    entries = matrix.astype(np.float64).tocoo(copy=True)  # in which sums do not overflow
    entries.sum_duplicates()  # what entries that repeat mean in such a matrix

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        columns = {"user": entries.row, "item": entries.col, "value": entries.data}
        whole = [pa.array(columns[name].astype(np.int64) if name != "value" else entries.data) for name in wanted.names]
        yield from sliced([pa.RecordBatch.from_arrays(whole, names=wanted.names)])

    return Table(f"a sparse matrix of shape {matrix.shape}", ROLES[:3], stream, rows=entries.nnz)


def from_tuples(rows: Iterable[Any]) -> Table:
    """Tuples (user, item), (user, item, value) or (user, item, value, time); or mappings."""
    remaining = iter(rows)
    first = next(remaining, None)
    if first is None:
        raise DataError("source: the list is empty; give rows (user, item, value)")
    mapping = isinstance(first, dict)
    if not mapping and not (isinstance(first, list | tuple) and 2 <= len(first) <= len(ROLES)):
        raise DataError(f"source: rows (user, item), (user, item, value) or with a time are needed, not {first!r}")
    # Sorted: which key comes first in the first row must not decide which of two is the user.
    names = sorted(first, key=str) if mapping else list(ROLES[: len(first)])

    def cells(row: Any, at: int) -> tuple[Any, ...]:
        # All rows have the keys of the first, no more and no fewer: otherwise the first would decide for the others.
        alike = isinstance(row, dict if mapping else list | tuple) and len(row) == len(names)
        try:
            found = tuple(row[name] for name in names) if mapping and alike else tuple(row) if alike else ()
        except KeyError:
            found = ()
        if not found:
            raise DataError(f"source: row {at} is {row!r}, but the first row has {len(names)} cells ({names})")
        return found

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        everything = (cells(row, at) for at, row in enumerate(chain([first], remaining), start=1))
        while block := list(islice(everything, BATCH)):
            columns = dict(zip(names, zip(*block, strict=True), strict=True))
            yield batch_of({name: columns[name] for name in wanted.names}, wanted)

    known = len(rows) if isinstance(rows, Sequence) else None
    return Table("a list of rows", names, stream, rows=known)


def batch_of(columns: dict[str, Sequence[Any]], wanted: Wanted) -> pa.RecordBatch:
    """One batch of Python objects, in the types that these have."""
    import pyarrow as pa

    from discreet.data.ids import to_array

    return pa.RecordBatch.from_pydict({
        name: to_values(cells, name) if name == wanted.value else to_array(cells, name)
        for name, cells in columns.items()
    })  # fmt: skip


def _from_reader(reader: pa.RecordBatchReader, names: list[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    try:
        for batch in reader:
            yield batch.select(names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"source: the Arrow stream broke off: {error}") from None


def require_names(names: Any) -> None:
    """Raise unless columns have names, all different."""
    listed = list(names) if isinstance(names, Iterable) else []
    for name in listed:
        if not isinstance(name, str):
            raise DataError(
                f"source: the names of columns must be text, not {name!r}; name them: "
                "frame.set_axis(['user', 'item', 'rating'], axis=1)"
            )
        if listed.count(name) > 1:
            raise DataError(f"source: more than one column is called {name!r}; rename or remove the others")


def _reader(frame: Any) -> pa.RecordBatchReader:
    """A frame as an Arrow stream; a column that Arrow cannot take is named."""
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(frame)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        names = list(frame.columns)
        if len(names) > 1:
            for name in names:
                _reader(frame.select([name]))
        raise DataError(
            f"source: column {names[0]!r} holds more than one type, or an unknown one ({error.args[0]}); make it one, "
            f"for instance frame[{names[0]!r}].astype(str)"
        ) from None


def _objects(frame: Any, library: str, wanted: Wanted) -> pa.Table | None:
    """A frame of pandas with columns of Python objects or categories, looked at one by one; None for any other."""
    import narwhals as nw
    import pyarrow as pa

    from discreet.data.ids import to_array

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
        is_category, is_object = str(column.dtype) == "category", column.dtype == object
        convert = to_values if name == wanted.value else to_array
        try:
            if is_category:
                to_array(column.cat.categories.tolist(), "categories")
            arrays[name] = convert(column.tolist(), "it") if is_object else pa.array(column, from_pandas=True)
        except (DataError, pa.ArrowException) as error:
            raise DataError(
                f"source: column {name!r} holds more than one type, or an unknown one ({error}); make it one, for "
                f"instance frame[{name!r}].astype(str)"
            ) from None
    return pa.table(arrays)


def is_spark(thing: Any) -> bool:
    """Whether this is a table of Spark."""
    return type(thing).__module__.startswith("pyspark.sql.") and type(thing).__name__ == "DataFrame"


def from_frame(source: Any) -> Table:
    """A data frame of any library, an Arrow stream, a DuckDB relation, a Spark DataFrame."""
    import narwhals as nw
    import pyarrow as pa

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
        return Table(
            what, reader.schema.names, lambda wanted: sliced(_from_reader(reader, wanted.names)), library="pyarrow"
        )
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

    is_query = isinstance(frame, nw.LazyFrame)
    kept = library if library in ("pandas", "polars", "pyarrow") else None
    return Table(what, list(names), stream, None if is_query else len(frame), library=kept, is_query=is_query)
