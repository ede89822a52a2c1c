"""Sources: which column is what, and every kind of table as a stream of Arrow batches.

Text files are in `texts`, SELECTs in `sql`; `readers` recognizes a source.
"""

from __future__ import annotations

import enum
import glob
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from discreet.data.catalogue import LIBRARIES
from discreet.data.cells import plain_type, to_array, to_values
from discreet.errors import DataError, MissingExtra

BATCH = 1 << 18  # rows at a time: large enough for speed, small beside the finished arrays
SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".txt": "csv",
    ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.bz2", ".tar.xz", ".bz2", ".xz", ".7z", ".rar")

# Which column is what


class Guess(enum.Enum):
    """The default of a column argument: look for a usual name. None means that there is no such column."""

    GUESS = enum.auto()

    def __repr__(self) -> str:
        return "guess"


GUESS = Guess.GUESS
# In order of preference. Compared without case, punctuation and a trailing "id".
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "user": ("user", "uid", "u", "customer", "consumer", "member", "visitor", "client", "account", "person",
             "reader", "listener", "reviewer", "profile", "username"),
    "item": ("item", "iid", "i", "movie", "film", "product", "place", "song", "track", "artist", "album",
             "book", "isbn", "joke", "asin", "sku", "article", "business", "restaurant", "game", "app",
             "video", "show", "anime", "recipe", "url", "page"),
    "value": ("rating", "ratings", "value", "score", "stars", "star", "overall", "grade", "weight", "count",
              "plays", "playcount", "preference", "r"),
    "time": ("timestamp", "time", "ts", "datetime", "date", "createdat", "ratedat", "unixreviewtime"),
}  # fmt: skip
ROLES = ("user", "item", "value", "time")
CERTAIN = {"user", "item", "rating", "value", "timestamp", "time", "userId", "movieId"}  # our names and MovieLens's
WIDE = 8  # columns: a table with more may have one for each item
KEYS = {"user": "user", "item": "item", "value": "rating", "time": None}  # of JSON lines, unless others are named


def guess(role: str, names: Sequence[str]) -> str | None:
    """The column that by its name plays a role, or None."""
    keys = {re.sub(r"[^0-9a-z]", "", name.lower()): name for name in reversed(names)}
    for usual in USUAL_NAMES[role]:
        for key in (usual, f"{usual}id") if role in ("user", "item") else (usual,):
            if key in keys:
                return keys[key]
    return None


@dataclass(frozen=True)
class Wanted:
    """Which columns of a table to read, and which of them are ids or the value."""

    names: list[str]
    ids: tuple[str, ...]
    value: str | None = None
    lenient: bool = False  # whether a line that cannot be read is a row of nulls, not an error


@dataclass(frozen=True)
class Columns:
    """The name of the column behind each role; `value` None means that every row counts 1."""

    user: str
    item: str
    value: str | None
    time: str | None
    guessed: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the roles."""
        return [name for name in (self.user, self.item, self.value, self.time) if name is not None]

    def wanted(self, lenient: bool = False) -> Wanted:
        """These columns, to be read."""
        return Wanted(self.names, (self.user, self.item), self.value, lenient)

    def described(self, roles: Sequence[str] = ROLES) -> str:
        """The columns behind some roles, in words."""
        words = [f"{name!r} as {role}" for role in roles if (name := getattr(self, role)) is not None]
        if "value" in roles and self.value is None:
            words.append("no value (every row counts 1)")
        return ", ".join(words)


def choose(names: Sequence[str] | None, **given: str | Guess | None) -> Columns:
    """Choose the four columns: those that the caller named, and otherwise those with usual names.

    JSON lines have no header (`names` is None). Their keys depend on the rows, so nothing is guessed from them.
    """
    if names is None:
        given = {role: KEYS[role] if isinstance(name, Guess) else name for role, name in given.items()}
        names = [name for name in given.values() if isinstance(name, str)]
    listed = ", ".join(map(repr, names))
    free = [name for name in names if name not in given.values()]
    chosen: dict[str, Any] = {}
    guessed: list[str] = []
    for role, name in given.items():
        chosen[role] = guess(role, free) if isinstance(name, Guess) else name
        if isinstance(name, Guess) and (role != "time" or chosen[role] is not None):  # having no times is not a guess
            guessed.append(role)
        if chosen[role] is not None and chosen[role] not in names:
            raise DataError(f"{role}={name!r}: there is no such column; the columns are {listed}")
    if lacking := [role for role in ("user", "item") if chosen.get(role, "") is None]:
        wanted = " and ".join(f"{role}=" for role in lacking)
        why = "these are data and not names, the file has no header line: add one, or name them in a SELECT"
        if len(names) > WIDE:
            why = "each item has a column of its own, give a table with a row for each rating: see pandas.melt"
        raise DataError(
            f"{lacking[0]}: no column has a usual name for {' or '.join(f'{role}s' for role in lacking)}; "
            f"pass {wanted}, from the columns {listed}. (If {why})"
        )
    columns = Columns(**chosen, guessed=tuple(guessed))
    if len(set(columns.names)) < len(columns.names):
        raise DataError(f"user, item, value and time must be different columns, not {', '.join(columns.names)}")
    return columns


# Tables


@dataclass(frozen=True)
class Table:
    """A table that has been found but not read: the common form of all sources."""

    what: str  # for people
    names: Sequence[str] | None  # None: JSON lines, which have no header
    stream: Callable[[Wanted], Generator[pa.RecordBatch, None, None]]
    rows: int | None = None  # if known beforehand
    is_text: bool = False  # cells are as they are written in a text file
    is_query: bool = False  # the order of the rows means nothing
    library: str | None = None  # the data frame library of the source, if it is one
    close: Callable[[], None] = lambda: None
    places: Callable[[Sequence[int]], list[tuple[int, str]]] | None = None  # of files: numbers of rows within them


class RefusedRow(DataError):
    """A row that cannot be used, by its number from 0, or None if the message says where it stands."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


def sliced(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Cut large batches, so that the next steps need little memory; leave out empty ones."""
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH):
            yield batch.slice(start, BATCH)


def prefetched(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Decode the next batch while the last one is processed."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = pool.submit(next, batches, None)
            yield batch


def batch_of(names: Sequence[str], rows: Iterable[Sequence[Any]], wanted: Wanted) -> pa.RecordBatch:
    """One batch of rows of Python objects, in their own types."""
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return pa.RecordBatch.from_pydict(
        {name: (to_values if name == wanted.value else to_array)(columns[name], name) for name in wanted.names}
    )


def require_names(names: Any) -> None:
    """Raise unless the names of columns are distinct strings."""
    listed = list(names) if isinstance(names, Iterable) else []
    for name in listed:
        if not isinstance(name, str):
            raise DataError(
                f"source: the names of columns must be text, not {name!r}; name them: "
                "frame.set_axis(['user', 'item', 'rating'], axis=1)"
            )
        if listed.count(name) > 1:
            raise DataError(
                f"source: more than one column is called {name!r}; rename or remove the others. (If that is a value, "
                "the file has no header line: add one, or read it with a SELECT that names its columns)"
            )


# Files


def found_files(given: Sequence[str | os.PathLike[str]]) -> tuple[list[str], str]:
    """The files that match paths and globs, and their format. A path that exists is not a glob."""
    paths: list[str] = []
    for one in given:
        source = os.fspath(one)
        name = os.path.expanduser(source)
        found = [name] if os.path.exists(name) else sorted(glob.glob(name, recursive=True))
        if not found:
            query = ". A query must be a SELECT" if re.match(r"\w+\s+\S", source) else ""
            raise DataError(f"source: no file matches {source!r}; relative paths start in {os.getcwd()!r}{query}")
        for path in found:
            if os.path.isdir(path):
                raise DataError(f"source: {path!r} is a folder; give a glob such as {path + '/*.parquet'!r}")
            if not os.path.getsize(path):
                raise DataError(f"source: {path!r} is an empty file; fetch or write it again")
            if path.lower().endswith(SPREADSHEETS):
                raise DataError(f"source: {path!r} is a spreadsheet; save its table as CSV in UTF-8")
            if path.lower().endswith(ARCHIVES):
                raise DataError(f"source: {path!r} is an archive; unpack it, and give the table inside")
            if format_of(path) is None:
                raise DataError(
                    f"source: the format of {path!r} is not known by its suffix (known: {', '.join(SUFFIXES)}; with "
                    f".gz or .zst). Rename it if it is one of these. {by_select(path)}"
                )
        paths += found
    formats = {str(format_of(path)) for path in paths}
    if len(formats) > 1:
        raise DataError(f"source: files of one format are needed, not {' and '.join(sorted(formats))}")
    return paths, formats.pop()


def by_select(path: str) -> str:
    """How to read a text file whose columns are separated by several characters and have no names."""
    return (
        "If its columns are separated by '::', as in MovieLens, name them in a SELECT (header = true if its first line "
        "names them): "
        f"\"SELECT * FROM read_csv({path!r}, auto_detect = false, quote = '', header = false, delim = '::', "
        "columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE', 'time': 'BIGINT'})\""
    )


def format_of(path: str) -> str | None:
    """The format of a file by its name, or None."""
    bare = path.lower().removesuffix(".gz").removesuffix(".zst")
    return next((kind for suffix, kind in SUFFIXES.items() if bare.endswith(suffix)), None)


def shown(paths: list[str]) -> str:
    """A short description of some files."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"


@contextmanager
def _whole(path: str, otherwise: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"source: {path!r} {otherwise} ({error}); fetch it again") from None


def _parquet(path: str) -> Any:
    with _whole(path, "is not a whole parquet file"):
        # A buffer would hold the whole file. Checksums are verified where the file has them.
        return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)


def from_parquet(paths: list[str]) -> Table:
    """Parquet files, which must all have the columns that are read, in the same types."""
    files = {path: _parquet(path) for path in paths}
    schemas = {path: file.schema_arrow for path, file in files.items()}
    first = paths[0]
    require_names(schemas[first].names)

    def require_schemas(names: list[str]) -> None:
        for path, schema in schemas.items():
            require_names(schema.names)
            for name in names:
                if name not in schema.names:
                    raise DataError(f"source: {path!r} has no column {name!r}, which {first!r} has")
                here, there = plain_type(schemas[first].field(name).type), plain_type(schema.field(name).type)
                if here != there:
                    raise DataError(
                        f"source: column {name!r} is {here} in {first!r} and {there} in {path!r}; give it one type"
                    )

    def stream(names: list[str]) -> Iterator[pa.RecordBatch]:
        require_schemas(names)  # before any row is read
        for path in paths:
            with _whole(path, "is damaged"):
                for batch in files[path].iter_batches(BATCH, columns=names):
                    yield batch.select(names)

    ends = np.cumsum([file.metadata.num_rows for file in files.values()])

    def places(asked: Sequence[int]) -> list[tuple[int, str]]:
        within = np.searchsorted(ends, asked, side="right")
        starts = np.concatenate([[0], ends])
        return [(int(row - starts[at]) + 1, paths[at]) for row, at in zip(asked, within, strict=True)]

    names = schemas[first].names
    return Table(
        shown(paths), names, lambda wanted: prefetched(stream(wanted.names)), rows=int(ends[-1]), places=places
    )


# Objects in memory


def from_sparse(matrix: Any) -> Table:
    """A scipy sparse matrix or array: users are its rows, items its columns, both by number from 0."""
    from scipy.sparse import issparse

    if not issparse(matrix) or len(matrix.shape) != 2:
        raise DataError(f"source: a two-dimensional sparse matrix is needed, not {type(matrix).__name__}")
    if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
        raise DataError(
            f"source: a sparse matrix of numbers is needed, not of {matrix.dtype}; give matrix.astype(float)"
        )
    entries = matrix.astype(np.float64).tocoo(copy=True)  # as floats, so that sums do not overflow
    entries.sum_duplicates()  # repeated entries of a sparse matrix mean their sum
    columns = {"user": entries.row.astype(np.int64), "item": entries.col.astype(np.int64), "value": entries.data}

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        return sliced([pa.RecordBatch.from_pydict({name: columns[name] for name in wanted.names})])

    return Table(f"a sparse matrix of shape {matrix.shape}", list(columns), stream, rows=entries.nnz)


def from_rows(rows: Iterable[Any]) -> Table:
    """Tuples (user, item), (user, item, value) or (user, item, value, time); or mappings."""
    remaining = iter(rows)
    first = next(remaining, None)
    if first is None:
        raise DataError("source: the list is empty; give rows (user, item, value)")
    mapping = isinstance(first, dict)
    if not mapping and not (isinstance(first, list | tuple) and 2 <= len(first) <= len(ROLES)):
        raise DataError(f"source: rows (user, item), (user, item, value) or with a time are needed, not {first!r}")
    # Sorted, so that the order of keys in the first row does not decide which column is the user.
    names = sorted(first, key=str) if mapping else list(ROLES[: len(first)])

    def cells(row: Any, at: int) -> tuple[Any, ...]:
        # All rows must have the keys of the first; otherwise the first row would decide for the others.
        alike = isinstance(row, dict if mapping else list | tuple) and len(row) == len(names)
        if not alike or (mapping and not all(name in row for name in names)):
            raise DataError(f"source: row {at} is {row!r}, but the first row has {len(names)} cells ({names})")
        return tuple(row[name] for name in names) if mapping else tuple(row)

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        everything = (cells(row, at) for at, row in enumerate(chain([first], remaining), start=1))
        while block := list(islice(everything, BATCH)):
            yield batch_of(names, block, wanted)

    return Table("a list of rows", names, stream, rows=len(rows) if isinstance(rows, Sequence) else None)


def from_frame(source: Any, library: str) -> Table:
    """A data frame of any library, an Arrow stream, a Spark DataFrame."""
    kind = type(source).__name__
    what = f"a {library} {kind}"
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if kind == "Series" or isinstance(source, pa.Array | pa.ChunkedArray):
        raise DataError(f"source: a {kind} is a single column; give a table with columns user and item")
    if kind != "LazyFrame":  # its names are the result of a query
        require_names(getattr(source, "column_names", None) or getattr(source, "columns", ()))
    import narwhals as nw

    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        return _from_stream(source, what)
    is_query = isinstance(frame, nw.LazyFrame)
    try:
        names = frame.collect_schema().names()
    except nw.exceptions.NarwhalsError as error:
        raise DataError(f"source: {what} cannot be read: {str(error).splitlines()[0]}. Correct its query") from None

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        chosen = frame.select(wanted.names)
        try:
            chosen = chosen.collect("pyarrow") if is_query else chosen
        except ImportError as error:
            raise MissingExtra(f"reading {what} ({error})", "spark") from None
        columns = {name: _column(chosen[name], name == wanted.value) for name in wanted.names}
        return sliced(pa.table(columns).to_batches())

    kept = library if library in LIBRARIES else None
    return Table(what, names, stream, None if is_query else len(frame), library=kept, is_query=is_query)


def _from_stream(source: Any, what: str) -> Table:
    """An Arrow stream, or else nothing that can be read."""
    if not hasattr(source, "__arrow_c_stream__"):
        raise DataError(
            f"source: {type(source).__name__} is not a table that can be read. Give a path, a SELECT, a data frame, an "
            "Arrow table, a scipy sparse matrix or a list of (user, item, value)"
        )
    reader = pa.RecordBatchReader.from_stream(source)

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        try:
            yield from sliced(batch.select(wanted.names) for batch in reader)
        except (pa.ArrowInvalid, OSError) as error:
            raise DataError(f"source: the Arrow stream broke off: {error}") from None

    return Table(what, reader.schema.names, stream, library="pyarrow")


def _column(column: Any, is_value: bool) -> pa.ChunkedArray:
    """A column of a frame in Arrow; Python objects are converted cell by cell."""
    native = column.to_native()
    kind = str(getattr(native, "dtype", "")).lower()
    try:
        if kind == "category":  # of pandas, which has categories of any type
            to_array(native.cat.categories.tolist(), "categories")
        if kind == "object":
            return pa.chunked_array([(to_values if is_value else to_array)(column.to_list(), "it")])
        return pa.chunked_array(column)
    except (DataError, pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise DataError(
            f"source: column {column.name!r} holds more than one type, or an unknown one ({error}); make it one, for "
            f"instance frame[{column.name!r}].astype(str)"
        ) from None
