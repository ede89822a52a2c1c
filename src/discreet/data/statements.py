"""Only a single SELECT runs, and one that reads files must say how: no text file is guessed about."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from discreet.errors import DataError

# SQLAlchemy's names of databases, where sqlglot has another one.
DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql", "cockroachdb": "postgres"}
BEGINNINGS = ("SELECT", "WITH", "VALUES", "L_PAREN", "FROM")
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "INTO", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "ATTACH")
PLAIN_FILES = (".parquet", ".pq")  # which have types
TEXT_FILES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
DECLARED = re.compile(r"\bauto_detect\s*(=|:=|=>)\s*false\b", re.IGNORECASE)
ADVICE = (
    "DuckDB would guess types and separators from people's rows, so that one of them changes how the others are read. "
    "Give the path itself to discreet.read, or declare all of it: FROM read_csv('ratings.csv', auto_detect = false, "
    "header = true, delim = ',', columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'})"
)


def require_select(statement: str, database: str) -> None:
    """Raise unless a statement is a single SELECT that writes nothing. No database is asked.

    Args:
        statement: The statement.
        database: SQLAlchemy's name of the kind of database, or "spark".
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    dialect = sqlglot.Dialect.get(DIALECTS.get(database, database))  # None, which is standard SQL, if it has no such
    try:
        tokens = sqlglot.tokenize(statement, read=dialect)
    except SqlglotError as error:
        raise DataError(f"source: the statement cannot be understood ({error}). Correct the SELECT") from None
    words = [token.token_type.name for token in tokens]
    while words and words[-1] == "SEMICOLON":
        words.pop()
    if not words or words[0] not in BEGINNINGS:
        raise DataError("source: a single SELECT is needed; this begins otherwise, and is not run. Correct the SELECT")
    if "SEMICOLON" in words:
        raise DataError("source: a single SELECT is needed, but there are several statements; leave the others out")
    written = next((word for word in words if word in WRITES), None)
    if written is not None:
        raise DataError(
            f"source: a SELECT that only reads is needed, and this one has {written}. (A column or table of that name "
            "must be in quotes)"
        )


def require_declared_files(statement: str) -> None:
    """Raise if a SELECT of DuckDB reads text files whose format and types are left to be guessed.

    Columns that DuckDB would make of the names of folders (`user=zed/`) have to be asked for, or declined, too.
    """
    import duckdb

    with duckdb.connect() as parser:
        (tree,) = parser.execute("SELECT json_serialize_sql(?)", [statement]).fetchone() or ("{}",)
    parsed, readers = json.loads(tree), 0
    if parsed.get("error", True):
        raise DataError(f"source: the SELECT cannot be checked ({parsed.get('error_message')}); write a simpler one")
    for node in _nodes(parsed):
        if node.get("type") == "BASE_TABLE":
            _require_file(str(node.get("table_name")), statement)
        function = str(node.get("function_name", "")).lower()
        if function.startswith(("read_csv", "read_json", "read_ndjson", "sniff_csv", "read_xlsx", "st_read")):
            readers += 1
        if function in ("read_parquet", "parquet_scan"):
            for path in _texts(node):
                _require_file(path, statement)
    if readers > len(DECLARED.findall(statement)):
        raise DataError(f"source: the SELECT reads a text file. {ADVICE}")


def _require_file(name: str, statement: str) -> None:
    bare = name.lower().removesuffix(".gz").removesuffix(".zst")
    if bare.endswith(TEXT_FILES):
        raise DataError(f"source: the SELECT reads the text file {name!r}. {ADVICE}")
    if not bare.endswith(PLAIN_FILES) or re.search(r"\bhive_partitioning\b", statement, re.IGNORECASE):
        return
    for path in [name, *glob.iglob(name, recursive=True)]:
        if any("=" in folder for folder in PurePath(path).parts[:-1]):
            raise DataError(
                f"source: {path!r} is in a folder with = in its name, of which DuckDB would make a column. Say whether "
                "it is to: FROM read_parquet(..., hive_partitioning = false)"
            )


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for branch in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(branch)


def _texts(tree: dict[str, Any]) -> Iterator[str]:
    """The string literals below a node, in the forms that versions of DuckDB have for them."""
    for node in _nodes(tree):
        for key in ("text", "value"):
            if isinstance(node.get(key), str):
                yield node[key]
