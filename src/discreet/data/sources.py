"""Every kind of source, recognized and opened as one `Table`."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data import databases, tables, texts
from discreet.data.columns import ROLES, Wanted
from discreet.data.frames import from_frame
from discreet.data.ids import plain_type
from discreet.data.tables import Table, batch_of, prefetched, require_names, shown, sliced
from discreet.errors import DataError

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
SELECT = re.compile(r"^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|from)\s", re.IGNORECASE | re.DOTALL)


def open_table(source: Any, connection: Any = None, separator: str | None = None) -> Table:
    """Recognize a source."""
    paths = source if isinstance(source, list | tuple) else [source]
    are_paths = bool(paths) and all(isinstance(path, str | os.PathLike) for path in paths)
    is_select = connection is not None or (isinstance(source, str) and SELECT.match(source))
    if are_paths and not is_select:
        return _from_files(paths, separator)
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
        return _from_sparse(source)
    if isinstance(source, np.ndarray):
        raise DataError(
            "source: a NumPy array does not say what its rows are. For a matrix of users by items pass "
            "scipy.sparse.csr_array(array); for rows of (user, item, value) pass array.tolist()"
        )
    if isinstance(source, Iterable) and not hasattr(source, "columns") and module in ("builtins", "itertools"):
        return _from_rows(source)
    return from_frame(source)


def _from_files(given: Sequence[str | os.PathLike[str]], separator: str | None) -> Table:
    paths, kind = found_files(given)
    if kind != "parquet":
        return texts.text_files(paths, kind, separator)
    if separator is not None:
        raise DataError("separator: it is that of a CSV file; leave it out")
    return _from_parquet(paths)


def is_spark(thing: Any) -> bool:
    """Whether this is a table of Spark."""
    return type(thing).__module__.startswith("pyspark.sql.") and type(thing).__name__ == "DataFrame"


def found_files(given: Sequence[str | os.PathLike[str]]) -> tuple[list[str], str]:
    """The files that paths and globs stand for, and their format. A path that exists is never taken for a glob."""
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
            if format_of(path) is None:
                raise DataError(
                    f"source: the format of {path!r} is not known by its suffix (known: {', '.join(SUFFIXES)}; with "
                    ".gz or .zst). Rename it, or read it with a SELECT from read_csv(..., auto_detect = false, "
                    "columns = ...)"
                )
        paths += found
    formats = {str(format_of(path)) for path in paths}
    if len(formats) > 1:
        raise DataError(f"source: files of one format are needed, not {' and '.join(sorted(formats))}")
    return paths, formats.pop()


def format_of(path: str) -> str | None:
    """The format of a file by its name, or None."""
    bare = path.lower().removesuffix(".gz").removesuffix(".zst")
    return next((kind for suffix, kind in SUFFIXES.items() if bare.endswith(suffix)), None)


def _from_parquet(paths: list[str]) -> Table:
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
                for batch in file.iter_batches(tables.BATCH, columns=names):
                    yield batch.select(names)
            except (pa.ArrowInvalid, OSError) as error:
                raise DataError(f"source: {path!r} is damaged ({error}); fetch it again") from None

    files = [opened(path) for path in paths]
    names = files[0].schema_arrow.names
    require_names(names)
    rows = sum(file.metadata.num_rows for file in files)
    return Table(shown(paths), names, lambda wanted: prefetched(stream(wanted.names)), rows)


def _from_sparse(matrix: Any) -> Table:
    """A scipy sparse matrix or array: users are its rows, items its columns, both by number from 0."""
    from scipy.sparse import issparse

    if not issparse(matrix) or len(matrix.shape) != 2:
        raise DataError(f"source: a two-dimensional sparse matrix is needed, not {type(matrix).__name__}")
    if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise DataError(
            f"source: a sparse matrix of numbers is needed, not of {matrix.dtype}; give matrix.astype(float)"
        )
    entries = matrix.astype(np.float64).tocoo(copy=True)  # in which sums do not overflow
    entries.sum_duplicates()  # what entries that repeat mean in such a matrix
    columns = {"user": entries.row.astype(np.int64), "item": entries.col.astype(np.int64), "value": entries.data}

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        return sliced([pa.RecordBatch.from_pydict({name: columns[name] for name in wanted.names})])

    return Table(f"a sparse matrix of shape {matrix.shape}", list(columns), stream, rows=entries.nnz)


def _from_rows(rows: Iterable[Any]) -> Table:
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
        if not alike or (mapping and not all(name in row for name in names)):
            raise DataError(f"source: row {at} is {row!r}, but the first row has {len(names)} cells ({names})")
        return tuple(row[name] for name in names) if mapping else tuple(row)

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        everything = (cells(row, at) for at, row in enumerate(chain([first], remaining), start=1))
        while block := list(islice(everything, tables.BATCH)):
            yield batch_of(dict(zip(names, zip(*block, strict=True), strict=True)), wanted)

    return Table("a list of rows", names, stream, rows=len(rows) if isinstance(rows, Sequence) else None)
