"""What is read by a database: text files and SELECTs by DuckDB, SELECTs by any SQLAlchemy URL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from discreet.data import sources
from discreet.data.columns import Wanted
from discreet.errors import DataError, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_A_TIME = 50_000  # Python objects are large; a batch of them is therefore smaller
EXACT_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


@contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
    """Turn an error of DuckDB into one of ours that says what to do."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DataError(f"source: {what} cannot be read: {error}. {advice}") from None


def _connect(database: str = ":memory:") -> Any:
    import duckdb

    inside = database == ":memory:"
    with _explained(database, "Give the path of a DuckDB database"):
        connection = duckdb.connect(database, read_only=not inside)
    # What does not fit in memory goes to the system's temporary folder, not the caller's working folder.
    connection.execute("SET temp_directory = ?", [os.path.join(tempfile.gettempdir(), "discreet-duckdb")])
    connection.execute("SET python_enable_replacements = false")  # our local variables are not tables
    connection.execute("SET enable_progress_bar = false")
    return connection


def _nothing() -> None:
    """Leave open what is the caller's."""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _columns(connection: Any, query: str) -> dict[str, str]:
    """Names and types of what a query gives."""
    return {row[0]: row[1] for row in connection.execute(f"DESCRIBE {query}").fetchall()}


def _stream(connection: Any, query: str, what: str, advice: str) -> Generator[pa.RecordBatch, None, None]:
    def batches() -> Iterator[pa.RecordBatch]:
        with _explained(what, advice):
            reader = _reader(connection.sql(query))
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except OSError as error:  # how Arrow reports an error in the middle of DuckDB's stream
                    raise DataError(f"source: {what} cannot be read: {error}. {advice}") from None
                yield batch

    return sources.prefetched(sources.sliced(batches()))


def _reader(found: Any) -> pa.RecordBatchReader:
    # The second name is that of older versions.
    reader = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_record_batch
    return reader(sources.BATCH)


def _cast(name: str, kind: str, is_id: bool) -> str:
    """A column in a type that Arrow has: DuckDB's sums and counts are 128 bits wide."""
    quoted = _quoted(name)
    if kind not in ("HUGEINT", "UHUGEINT"):
        return quoted
    return f"CAST({quoted} AS {'BIGINT' if is_id else 'DOUBLE'}) AS {quoted}"


def _with_uuids(batch: pa.RecordBatch, kinds: dict[str, str]) -> pa.RecordBatch:
    """UUIDs as themselves: DuckDB hands them over as text."""
    import pyarrow as pa

    for at, name in enumerate(batch.schema.names):
        if kinds[name] == "UUID" and not isinstance(batch.schema.types[at], pa.BaseExtensionType):
            cells = [None if cell is None else UUID(cell) for cell in batch.column(at).to_pylist()]
            batch = batch.set_column(at, name, pa.array(cells, pa.uuid()))
    return batch


def text_files(paths: list[str], kind: str) -> sources.Table:
    """Files of text with a header line (csv, tsv), or of one json object a line; plain, .gz or .zst."""
    connection = _connect()
    listed = "[" + ", ".join(map(_text, paths)) + "]"
    what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
    advice = (
        "Check that the file is whole, in UTF-8, and that every line has the columns of the first; for other "
        "encodings, separators or files without a header line read it with a SELECT from read_csv(...)"
        if kind != "json"
        else "Check that the file is whole, with one JSON object a line of the same keys"
    )
    if kind == "json":
        reader, options = "read_json", ""
    else:
        reader, options = "read_csv", ", header = true" + (r", delim = '\t'" if kind == "tsv" else "")
    with _explained(what, advice):
        found = _columns(connection, f"SELECT * FROM {reader}({listed}{options})")

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        # Text has no types: ids are taken as they are written, see `ids.typed`. JSON tells numbers from
        # strings, but the guess of a date, a UUID or a float from a sample must not change an id either.
        kinds = {name: found[name] for name in wanted.names}
        for name in wanted.ids:
            if kind != "json" or kinds[name] not in EXACT_INTEGERS:
                kinds[name] = "VARCHAR"
        if wanted.value is not None and found[wanted.value] in EXACT_INTEGERS:
            kinds[wanted.value] = "DOUBLE"  # a sample of whole numbers does not mean that all are whole
        listing = ", ".join(f"{_text(name)}: {_text(of)}" for name, of in kinds.items())
        given = f", {'columns' if kind == 'json' else 'types'} = {{{listing}}}"
        query = f"SELECT {', '.join(map(_quoted, wanted.names))} FROM {reader}({listed}{options}{given})"
        return _stream(connection, query, what, advice)

    return sources.Table(what, list(found), stream, untyped_ids=kind != "json", close=connection.close)


def select(statement: str, connection: Any) -> sources.Table:
    """A SELECT, run by DuckDB (over files, a database file, a connection) or through SQLAlchemy."""
    module = type(connection).__module__.split(".")[0].lstrip("_")
    if module == "sqlalchemy" or (isinstance(connection, str) and "://" in connection):
        return _from_sqlalchemy(statement, connection)
    if connection is None:
        database = _connect()
    elif module == "duckdb":
        database = connection  # the caller's, with her temporary tables and views
    elif isinstance(connection, str | os.PathLike):
        if not os.path.exists(connection):
            raise DataError(
                f"connection: there is no DuckDB database {os.fspath(connection)!r}; for other databases give a "
                "SQLAlchemy URL such as 'postgresql+psycopg://user@host/name' or 'sqlite:///file.db'"
            )
        database = _connect(os.fspath(connection))
    else:
        raise DataError(
            "connection: a SQLAlchemy URL, engine or connection, a DuckDB connection or the path of a DuckDB "
            f"database is needed, not {type(connection).__name__}"
        )
    close = _nothing if database is connection else database.close
    body = statement.strip().rstrip(";")
    advice = "Correct the SELECT; column and file names are checked by running it in DuckDB"
    with _explained("the SELECT", advice):
        found = _columns(database, body)

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        asked = [_cast(name, found[name], name in wanted.ids) for name in wanted.names]
        batches = _stream(database, f"SELECT {', '.join(asked)} FROM ({body}\n) AS t", "the SELECT", advice)
        return (_with_uuids(batch, found) for batch in batches)

    return sources.Table("a SELECT by DuckDB", list(found), stream, close=close)


def relation(source: Any, what: str) -> sources.Table:
    """A DuckDB relation."""
    advice = "Run the relation by itself to see what is wrong with it"
    found = dict(zip(source.columns, map(str, source.types), strict=True))

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        def batches() -> Iterator[pa.RecordBatch]:
            with _explained(what, advice):
                asked = [_cast(name, found[name], name in wanted.ids) for name in wanted.names]
                yield from _reader(source.project(", ".join(asked)))

        return (_with_uuids(batch, found) for batch in sources.sliced(batches()))

    return sources.Table(what, list(found), stream)


def _from_sqlalchemy(statement: str, connection: Any) -> sources.Table:
    import sqlalchemy as sa

    advice = "Correct the SELECT or the connection"

    @contextmanager
    def explained() -> Iterator[None]:
        try:
            yield
        except sa.exc.NoSuchModuleError as error:
            raise DataError(f"connection: {error}; install the driver of this database") from None
        except ImportError as error:
            if "psycopg" in str(error):
                raise MissingExtra(f"PostgreSQL ({error})", "postgres") from None
            raise DataError(f"connection: {error}; install the driver of this database") from None
        except (sa.exc.ArgumentError, sa.exc.DBAPIError) as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise DataError(f"source: the SELECT failed: {reason}. {advice}") from None

    with explained():
        ours = not isinstance(connection, sa.Connection)
        engine = sa.create_engine(connection) if isinstance(connection, str) else connection
        opened = engine.connect() if ours else connection

        def close() -> None:
            if ours:
                opened.close()
            if isinstance(connection, str):
                engine.dispose()

        try:
            options = {"stream_results": True, "max_row_buffer": ROWS_AT_A_TIME}
            # A colon in the statement is a colon, not a parameter.
            result = opened.execute(sa.text(statement.replace(":", r"\:")), execution_options=options)
            names = list(result.keys()) if result.returns_rows else []
        except BaseException:
            close()
            raise
    if not names:
        close()
        raise DataError("source: the statement gives no rows; a SELECT is needed")

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        at = {name: names.index(name) for name in wanted.names}
        with explained():
            for rows in result.partitions(ROWS_AT_A_TIME):
                columns = list(zip(*rows, strict=True))
                yield sources.batch_of({name: columns[place] for name, place in at.items()})

    return sources.Table("a SELECT by SQLAlchemy", names, stream, close=close)
