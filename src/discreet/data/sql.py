"""SELECTs, run by DuckDB or through any SQLAlchemy URL.

Only a single SELECT runs. If it reads text files it must declare their format: nothing is guessed from people's rows.
"""

from __future__ import annotations

import glob
import json
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import PurePath
from typing import Any
from uuid import UUID

import pyarrow as pa

from discreet.data import sources
from discreet.data.sources import Table, Wanted
from discreet.errors import DataError, MissingExtra

ROWS_AT_A_TIME = 50_000  # smaller batches than usual: Python objects are large
SELECT = re.compile(r"^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(select|with|from)\s", re.IGNORECASE | re.DOTALL)
# Where advice begins in an error of DuckDB: it is about options that `read` does not take.
SUGGESTED = r'Did you mean "(?:pg_|duckdb_|sqlite_)'  # tables of its own
ADVICE = re.compile(rf"\n\s*\n|\n\s*({SUGGESTED}|Possible|Potential|The search space|Consider|LINE \d|Candidate|\* )")
SQLITE = b"SQLite format 3\0"

# SQLAlchemy's names of databases that sqlglot calls differently.
DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql", "cockroachdb": "postgres"}
T_SQL = {"SHUTDOWN", "RECONFIGURE", "CHECKPOINT", "REVERT", "COMMIT", "ROLLBACK"}  # statements of one word, or aliases
GUESSERS = ("read_csv", "read_json", "read_ndjson", "sniff_csv", "read_xlsx", "st_read")
DECLARE = (
    "DuckDB would guess types and separators from people's rows, so one row could change how the others are read. "
    "Give the path itself instead of a SELECT, or declare everything: FROM read_csv('ratings.csv', "
    "auto_detect = false, quote = '', header = true, delim = ',', "
    "columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'})"
)


def select(statement: str, connection: Any) -> Table:
    """A SELECT, run by DuckDB (over files, a database file, a connection) or through SQLAlchemy."""
    module = type(connection).__module__.split(".")[0].lstrip("_")
    if module == "sqlalchemy" or (isinstance(connection, str) and "://" in connection):
        return _from_sqlalchemy(statement, connection)
    if module == "duckdb":  # the caller's, with their temporary tables and views
        return _from_duckdb(statement, connection, lambda: None)
    if connection is None:
        database, close = _connect()
    elif isinstance(connection, str | os.PathLike):
        path = os.fspath(connection)
        if not os.path.isfile(path):
            raise DataError(
                f"connection: there is no DuckDB database {path!r}; for other databases give a SQLAlchemy URL such as "
                "'postgresql+psycopg://user@host/name' or 'sqlite:///file.db'"
            )
        with open(path, "rb") as file:
            if file.read(len(SQLITE)) == SQLITE:  # DuckDB would download an extension for it
                raise DataError(f"connection: {path!r} is a SQLite database; use connection={'sqlite:///' + path!r}")
        database, close = _connect(path)
    else:
        raise DataError(
            "connection: a SQLAlchemy URL, engine or connection, a DuckDB connection or the path of a DuckDB "
            f"database is needed, not {type(connection).__name__}"
        )
    return _from_duckdb(statement, database, close)


# DuckDB


def _from_duckdb(statement: str, database: Any, close: Callable[[], None]) -> Table:
    advice = "Correct the SELECT; column and file names are checked by running it in DuckDB"
    with ExitStack() as stack, _explained("the SELECT", advice):
        stack.callback(close)
        kinds = [one.type.name for one in database.extract_statements(statement)]
        if kinds != ["SELECT"]:
            found = ", then ".join(kinds) or "nothing"
            raise DataError(f"source: a single SELECT is needed, but the text holds {found}; leave the others out")
        body = re.sub(r"[\s;]*$", "", statement)
        require_declared_files(body)
        table = relation(database.sql(body), "the SELECT", advice)
        stack.pop_all()  # it stays open until the table has been read
    return replace(
        table, what="a SELECT by DuckDB", stream=lambda wanted: sources.prefetched(table.stream(wanted)), close=close
    )


@contextmanager
def _explained(what: str, advice: str) -> Iterator[None]:
    """Turn an error of DuckDB into a DataError: what is wrong, on one line, with our advice."""
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:  # Arrow turns an error of DuckDB's stream into OSError
        reason = ADVICE.split(str(error).strip(), maxsplit=1)[0]
        reason = re.sub(r"^(Invalid Error: )?([A-Z][A-Za-z-]* )+Error: ", "", reason)
        reason = re.sub(r"\.?\s*\n\s*", "; ", reason).strip().rstrip(".;!")
        raise DataError(f"source: {what} cannot be read: {reason}. {advice}") from None


def _connect(database: str = ":memory:") -> tuple[Any, Callable[[], None]]:
    """Open a database so that nothing is downloaded or written, and our variables are not tables.

    Returns it with what closes it. Rows that do not fit in memory go to a temporary folder that nobody else may enter.
    """
    import duckdb

    in_memory = database == ":memory:"
    with _explained(database, "Give the path of a DuckDB database"):
        connection = duckdb.connect(database, read_only=not in_memory, config={"autoinstall_known_extensions": "false"})
    spilled = tempfile.TemporaryDirectory(prefix="discreet-")

    def close() -> None:
        connection.close()
        spilled.cleanup()

    connection.execute("SET temp_directory = ?", [spilled.name])
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_progress_bar = false")
    return connection, close


def relation(source: Any, what: str, advice: str = "Run the relation by itself to see what is wrong with it") -> Table:
    """A DuckDB relation."""
    sources.require_names(source.columns)
    kinds = dict(zip(source.columns, map(str, source.types), strict=True))

    def column(name: str, is_id: bool) -> str:
        """A column in a type that Arrow has: DuckDB's sums and counts are 128 bits wide."""
        quoted = '"' + name.replace('"', '""') + '"'
        if kinds[name] not in ("HUGEINT", "UHUGEINT"):
            return quoted
        return f"CAST({quoted} AS {'VARCHAR' if is_id else 'DOUBLE'}) AS {quoted}"  # not all of them fit in 64 bits

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        with _explained(what, advice):
            chosen = source.project(", ".join(column(name, name in wanted.ids) for name in wanted.names))
            for batch in chosen.to_arrow_reader(sources.BATCH):
                yield from sources.sliced([_with_uuids(batch, kinds)])

    return Table(what, list(kinds), stream, is_query=True)


def _with_uuids(batch: pa.RecordBatch, kinds: dict[str, str]) -> pa.RecordBatch:
    """UUIDs in their own type: DuckDB gives them as text."""
    for at, name in enumerate(batch.schema.names):
        if kinds[name] == "UUID" and not isinstance(batch.schema.types[at], pa.BaseExtensionType):
            cells = [None if cell is None else UUID(cell) for cell in batch.column(at).to_pylist()]
            batch = batch.set_column(at, name, pa.array(cells, pa.uuid()))
    return batch


def require_declared_files(statement: str) -> None:
    """Raise if DuckDB would guess the format or types of text files that a SELECT reads.

    The SELECT must also say whether folder names such as `user=zed/` become columns.
    """
    for node in _nodes(_parsed(statement)):
        if node.get("type") == "BASE_TABLE":
            _require_file(str(node.get("table_name")), statement)
        function = str(node.get("function_name", "")).lower()
        if function in ("query", "query_table"):
            raise DataError(f"source: what {function}() reads cannot be checked; write the SELECT itself")
        declared = function == "read_csv" and all(any(way in _bare(node) for way in ways) for ways in _declared())
        if function.startswith(GUESSERS) and not declared:
            raise DataError(f"source: the SELECT reads a text file. {DECLARE}")
        if function in ("read_parquet", "parquet_scan"):
            # Its string literals, which versions of DuckDB write differently.
            for path in (below.get(key) for below in _nodes(node) for key in ("text", "value")):
                if isinstance(path, str):
                    _require_file(path, statement)


def _require_file(name: str, statement: str) -> None:
    kind = sources.format_of(name)
    if kind not in (None, "parquet"):
        raise DataError(f"source: the SELECT reads the text file {name!r}. {DECLARE}")
    if kind is None or re.search(r"\bhive_partitioning\b", statement, re.IGNORECASE):
        return
    for path in [name, *glob.iglob(name, recursive=True)]:
        if any("=" in folder for folder in PurePath(path).parts[:-1]):
            raise DataError(
                f"source: {path!r} is in a folder with = in its name, which DuckDB would make a column. Say whether it "
                "should: FROM read_parquet(..., hive_partitioning = false)"
            )


def _parsed(statement: str) -> Any:
    import duckdb

    with duckdb.connect() as parser:
        (tree,) = parser.execute("SELECT json_serialize_sql(?)", [statement]).fetchone() or ("{}",)
    parsed = json.loads(tree)
    if parsed.get("error", True):
        raise DataError(f"source: the SELECT cannot be checked ({parsed.get('error_message')}); write a simpler one")
    return parsed


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for branch in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(branch)


def _bare(node: Any) -> str:
    """A part of a parsed statement as text, without positions."""
    return re.sub(r'"query_location(_length)?": \d+(, )?', "", json.dumps(node))


@cache
def _declared() -> tuple[tuple[str, ...], ...]:
    """How DuckDB's parser represents auto_detect = false and quote = '', in every notation."""
    found = []
    for name, value in (("auto_detect", "false"), ("quote", "''")):
        ways = [_parsed(f"SELECT * FROM read_csv({name} {sign} {value})") for sign in ("=", ":=", "=>")]
        nodes = [node for way in ways for node in _nodes(way) if node.get("function_name") == "read_csv"]
        arguments = [(node.get("arguments") or node["children"])[0] for node in nodes]
        found.append(tuple(dict.fromkeys(_bare(argument).strip("{}") for argument in arguments)))
    return tuple(found)


# Other databases


def _from_sqlalchemy(statement: str, connection: Any) -> Table:
    import sqlalchemy as sa

    @contextmanager
    def explained() -> Iterator[None]:
        try:
            yield
        except (sa.exc.NoSuchModuleError, ImportError) as error:
            if "psycopg" in str(error) and isinstance(error, ImportError):
                raise MissingExtra(f"PostgreSQL ({error})", "postgres") from None
            raise DataError(f"connection: {error}; install the driver of this database") from None
        except (sa.exc.ArgumentError, sa.exc.DBAPIError) as error:
            reason = str(getattr(error, "orig", None) or error).strip()
            raise DataError(f"source: the SELECT failed: {reason}. Correct the SELECT or the connection") from None

    with explained(), ExitStack() as stack:
        engine = opened = connection
        if isinstance(connection, str):
            _require_sqlite_file(sa.make_url(connection))
            engine = sa.create_engine(connection)
            stack.callback(engine.dispose)
        require_select(statement, engine.dialect.name)
        if not isinstance(connection, sa.Connection):
            opened = stack.enter_context(engine.connect())
            _read_only(opened)
            stack.callback(_read_only, opened, False)
        options = {"stream_results": True, "max_row_buffer": ROWS_AT_A_TIME}
        # A colon in the statement is a colon, not a parameter.
        result = opened.execute(sa.text(statement.replace(":", r"\:")), execution_options=options)
        names = list(result.keys())
        sources.require_names(names)
        close = stack.pop_all().close

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        with explained():
            for rows in result.partitions(ROWS_AT_A_TIME):
                yield sources.batch_of(names, rows, wanted)

    return Table("a SELECT by SQLAlchemy", names, stream, close=close, is_query=True)


def _require_sqlite_file(url: Any) -> None:
    """Raise if there is no such file: SQLite would create it."""
    path = url.database
    if url.get_backend_name() != "sqlite" or not path or path.startswith((":memory:", "file:")):
        return
    if not os.path.exists(path):
        raise DataError(
            f"connection: there is no file {path!r}; relative paths start in {os.getcwd()!r}, absolute ones are "
            "written with four slashes, sqlite:////..."
        )


def _read_only(connection: Any, on: bool = True) -> None:
    """Make the database refuse to write, if it can: a SELECT may call a function that does anything."""
    if connection.dialect.name == "postgresql" and on:  # until the connection is returned
        connection.execution_options(postgresql_readonly=True)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if on else 'OFF'}")


def require_select(statement: str, database: str) -> Any:
    """The parsed statement, if it is a single SELECT that writes nothing. `database`: SQLAlchemy's name, or "spark"."""
    import sqlglot
    from sqlglot import expressions as exp
    from sqlglot.errors import SqlglotError

    if "/*!" in statement:
        raise DataError("source: the SELECT has a comment that MySQL runs, /*! ... */; leave it out")
    dialect = sqlglot.Dialect.get(DIALECTS.get(database, database))  # None, standard SQL, if it is not known
    try:
        found = [one for one in sqlglot.parse(statement, read=dialect) if one is not None]
    except SqlglotError as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"source: the statement cannot be understood ({reason}). Correct the SELECT") from None
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise DataError("source: a single SELECT is needed, and nothing else. Correct the SELECT")
    writing = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Into, exp.Copy)
    bare = {one.name.upper() for one in found[0].find_all(exp.Identifier) if not one.quoted}
    if found[0].find(*writing, exp.Command, exp.Attach) or (database == "mssql" and bare & T_SQL):
        raise DataError("source: a SELECT that only reads is needed, and this one would write. Correct the SELECT")
    return found[0]


def reads_text_files(statement: Any) -> bool:
    """Whether a parsed SELECT of Spark reads files whose types Spark guesses, as in json.`ratings.json`."""
    from sqlglot import expressions as exp

    return any(table.db.lower() in ("json", "csv", "xml") for table in statement.find_all(exp.Table))
