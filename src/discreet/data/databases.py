"""SELECTs, run by DuckDB or through any SQLAlchemy URL."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

import pyarrow as pa

from discreet.data import tables
from discreet.data.columns import Wanted
from discreet.data.statements import require_declared_files, require_select
from discreet.errors import DataError, MissingExtra

ROWS_AT_A_TIME = 50_000  # Python objects are large; a batch of them is therefore smaller
# Where the reason ends in an error of DuckDB, and its advice begins: options that `read` does not take.
ADVICE = re.compile(r"\n\s*\n|\n\s*(Possible|Potential|The search space|Consider|LINE \d|Candidate|\* )")
SQLITE = b"SQLite format 3\0"


@contextmanager
def explained(what: str, advice: str) -> Iterator[None]:
    """Turn an error of DuckDB into one of ours that says what to do."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise DataError(f"source: {what} cannot be read: {reason(error)}. {advice}") from None


def reason(error: BaseException) -> str:
    """What an error of DuckDB says is wrong, on one line, without its advice."""
    said = ADVICE.split(str(error).strip(), maxsplit=1)[0]
    said = re.sub(r"^(Invalid Error: )?([A-Z][A-Za-z-]* )+Error: ", "", said)
    return re.sub(r"\.?\s*\n\s*", "; ", said).strip().rstrip(".;")


def connect(database: str = ":memory:") -> Any:
    """Open a database: nothing is downloaded, nothing is written, our variables are not tables."""
    import duckdb

    inside = database == ":memory:"
    with explained(database, "Give the path of a DuckDB database"):
        connection = duckdb.connect(database, read_only=not inside, config={"autoinstall_known_extensions": "false"})
    # What does not fit in memory goes to the system's temporary folder, not the caller's working folder.
    connection.execute("SET temp_directory = ?", [os.path.join(tempfile.gettempdir(), "discreet-duckdb")])
    connection.execute("SET python_enable_replacements = false")  # our local variables are not tables
    connection.execute("SET enable_progress_bar = false")
    return connection


def _stream(
    found: Any, kinds: dict[str, str], wanted: Wanted, what: str, advice: str
) -> Generator[pa.RecordBatch, None, None]:
    """Some columns of a DuckDB relation, a batch at a time."""
    with explained(what, advice):
        asked = found.project(", ".join(_cast(name, kinds[name], name in wanted.ids) for name in wanted.names))
        reader = asked.to_arrow_reader(tables.BATCH)
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except OSError as error:  # how Arrow reports an error in the middle of DuckDB's stream
                raise DataError(f"source: {what} cannot be read: {reason(error)}. {advice}") from None
            yield from tables.sliced([_with_uuids(batch, kinds)])


def _cast(name: str, kind: str, is_id: bool) -> str:
    """A column in a type that Arrow has: DuckDB's sums and counts are 128 bits wide."""
    column = '"' + name.replace('"', '""') + '"'
    if kind not in ("HUGEINT", "UHUGEINT"):
        return column
    return f"CAST({column} AS {'VARCHAR' if is_id else 'DOUBLE'}) AS {column}"  # not all of them fit in 64 bits


def _with_uuids(batch: pa.RecordBatch, kinds: dict[str, str]) -> pa.RecordBatch:
    """UUIDs as themselves: DuckDB hands them over as text."""
    for at, name in enumerate(batch.schema.names):
        if kinds[name] == "UUID" and not isinstance(batch.schema.types[at], pa.BaseExtensionType):
            cells = [None if cell is None else UUID(cell) for cell in batch.column(at).to_pylist()]
            batch = batch.set_column(at, name, pa.array(cells, pa.uuid()))
    return batch


def _refuse_sqlite(path: str | os.PathLike[str]) -> None:
    """DuckDB would download an extension for a file of SQLite."""
    name = os.fspath(path)
    with open(name, "rb") as file:
        is_sqlite = file.read(len(SQLITE)) == SQLITE
    if is_sqlite:
        raise DataError(f"connection: {name!r} is a database of SQLite; use connection={'sqlite:///' + name!r}")


def _single_select(database: Any, statement: str) -> str:
    """The one SELECT that a statement is; nothing else may run."""
    import duckdb

    statements = database.extract_statements(statement)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        found = ", then ".join(one.type.name for one in statements) or "nothing"
        raise DataError(f"source: a single SELECT is needed, but the text holds {found}; leave the others out")
    return re.sub(r"[\s;]*$", "", statement)


def select(statement: str, connection: Any) -> tables.Table:
    """A SELECT, run by DuckDB (over files, a database file, a connection) or through SQLAlchemy."""
    module = type(connection).__module__.split(".")[0].lstrip("_")
    if module == "sqlalchemy" or (isinstance(connection, str) and "://" in connection):
        return _from_sqlalchemy(statement, connection)
    if connection is None:
        database = connect()
    elif module == "duckdb":
        database = connection  # the caller's, with their temporary tables and views
    elif isinstance(connection, str | os.PathLike):
        if not os.path.isfile(connection):
            raise DataError(
                f"connection: there is no DuckDB database {os.fspath(connection)!r}; for other databases give a "
                "SQLAlchemy URL such as 'postgresql+psycopg://user@host/name' or 'sqlite:///file.db'"
            )
        _refuse_sqlite(connection)
        database = connect(os.fspath(connection))
    else:
        raise DataError(
            "connection: a SQLAlchemy URL, engine or connection, a DuckDB connection or the path of a DuckDB "
            f"database is needed, not {type(connection).__name__}"
        )
    close = (lambda: None) if database is connection else database.close
    advice = "Correct the SELECT; column and file names are checked by running it in DuckDB"
    try:
        with explained("the SELECT", advice):
            body = _single_select(database, statement)
            require_declared_files(body)
            found = relation(database.sql(body), "the SELECT", advice)
    except BaseException:
        close()
        raise
    return replace(
        found, what="a SELECT by DuckDB", stream=lambda wanted: tables.prefetched(found.stream(wanted)), close=close
    )


def relation(
    source: Any, what: str, advice: str = "Run the relation by itself to see what is wrong with it"
) -> tables.Table:
    """A DuckDB relation."""
    tables.require_names(source.columns)
    kinds = dict(zip(source.columns, map(str, source.types), strict=True))
    return tables.Table(what, list(kinds), lambda wanted: _stream(source, kinds, wanted, what, advice), is_query=True)


def _require_sqlite_file(url: Any) -> None:
    """SQLite would create the file."""
    path = url.database
    if url.get_backend_name() != "sqlite" or not path or path.startswith((":memory:", "file:")):
        return
    if not os.path.exists(path):
        raise DataError(
            f"connection: there is no file {path!r}; relative paths start in {os.getcwd()!r}, absolute ones are "
            "written with four slashes, sqlite:////..."
        )


def _only_read(connection: Any, on: bool = True) -> None:
    """Have the database itself refuse to write, where it can: a function that a SELECT calls may do anything."""
    if connection.dialect.name == "postgresql" and on:  # until the connection is given back
        connection.execution_options(postgresql_readonly=True)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if on else 'OFF'}")


def _from_sqlalchemy(statement: str, connection: Any) -> tables.Table:
    import sqlalchemy as sa

    advice = "Correct the SELECT or the connection"

    @contextmanager
    def sql_explained() -> Iterator[None]:
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

    with sql_explained():
        ours = not isinstance(connection, sa.Connection)
        if isinstance(connection, str):
            _require_sqlite_file(sa.make_url(connection))
        engine = sa.create_engine(connection) if isinstance(connection, str) else connection
        require_select(statement, engine.dialect.name)
        opened = engine.connect() if ours else connection
        if ours:
            _only_read(opened)

        def close() -> None:
            if ours:
                _only_read(opened, False)
                opened.close()
            if isinstance(connection, str):
                engine.dispose()

        try:
            options = {"stream_results": True, "max_row_buffer": ROWS_AT_A_TIME}
            # A colon in the statement is a colon, not a parameter.
            result = opened.execute(sa.text(statement.replace(":", r"\:")), execution_options=options)
            names = list(result.keys())
            tables.require_names(names)
        except BaseException:
            close()
            raise

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        with sql_explained():
            for rows in result.partitions(ROWS_AT_A_TIME):
                yield tables.batch_of(dict(zip(names, zip(*rows, strict=True), strict=True)), wanted)

    return tables.Table("a SELECT by SQLAlchemy", names, stream, close=close, is_query=True)
