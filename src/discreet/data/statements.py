"""Only a single SELECT runs, and one that reads files must say how: no text file is guessed about."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from typing import Any

from discreet.errors import DataError

# SQLAlchemy's names of databases, where sqlglot has another one.
DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql", "cockroachdb": "postgres"}
BEGINNINGS = ("SELECT", "WITH", "VALUES", "L_PAREN", "FROM")
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "INTO", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "ATTACH")
T_SQL = (
    "EXEC", "EXECUTE", "SHUTDOWN", "KILL", "GRANT", "REVOKE", "DENY", "BACKUP", "RESTORE", "DBCC", "WAITFOR", "USE",
    "OPENROWSET", "OPENQUERY", "DISABLE", "ENABLE", "RECONFIGURE",
)  # fmt: skip
PLAIN_FILES = (".parquet", ".pq")  # which have types
TEXT_FILES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
GUESSERS = ("read_csv", "read_json", "read_ndjson", "sniff_csv", "read_xlsx", "st_read")
ADVICE = (
    "DuckDB would guess types and separators from people's rows, so that one of them changes how the others are read. "
    "Give the path itself to discreet.read, or declare all of it: FROM read_csv('ratings.csv', auto_detect = false, "
    "quote = '', header = true, delim = ',', columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'})"
)


def require_select(statement: str, database: str) -> None:
    """Raise unless a statement is a single SELECT that writes nothing. No database is asked.

    Args:
        statement: The statement.
        database: SQLAlchemy's name of the kind of database, or "spark".
    """
    tokens = _tokens(statement, database)
    words = [token.token_type.name for token in tokens]
    while words and words[-1] == "SEMICOLON":
        words.pop()
    if not words or words[0] not in BEGINNINGS:
        raise DataError("source: a single SELECT is needed; this begins otherwise, and is not run. Correct the SELECT")
    if "SEMICOLON" in words:
        raise DataError("source: a single SELECT is needed, but there are several statements; leave the others out")
    if "/*!" in statement:
        raise DataError("source: the SELECT has a comment that MySQL runs, /*! ... */; leave it out")
    written = [word for word in words if word in WRITES]
    if database == "mssql":  # which needs no semicolons between statements
        bare = [token.text.upper() for token in tokens if token.token_type.name not in ("IDENTIFIER", "STRING")]
        written += [word for word in bare if word in T_SQL]
        forbidden = any(word in T_SQL for word in bare) or not _is_query(statement, database)
    else:  # some of these words may be names
        forbidden = bool(written) and not _is_query(statement, database)
    if forbidden:
        raise DataError(
            f"source: a SELECT that only reads is needed, and this one has {', '.join(written) or 'more than that'}. "
            "(A column or table of such a name must be in quotes)"
        )


def _dialect(database: str) -> Any:
    import sqlglot

    return sqlglot.Dialect.get(DIALECTS.get(database, database))  # None, which is standard SQL, if it has no such


def _tokens(statement: str, database: str) -> list[Any]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return list(sqlglot.tokenize(statement, read=_dialect(database)))
    except SqlglotError as error:
        raise DataError(f"source: the statement cannot be understood ({error}). Correct the SELECT") from None


def _is_query(statement: str, database: str) -> bool:
    """Whether a statement is one query, in which nothing is written, by a parser of its dialect."""
    import sqlglot
    from sqlglot import expressions as exp
    from sqlglot.errors import SqlglotError

    writing = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Into, exp.Copy)
    try:
        found = [one for one in sqlglot.parse(statement, read=_dialect(database)) if one is not None]
    except SqlglotError:
        return False
    return len(found) == 1 and isinstance(found[0], exp.Query) and not found[0].find(*writing, exp.Command, exp.Attach)


def reads_text_files(statement: str) -> bool:
    """Whether a SELECT of Spark names files of a format whose types Spark guesses, as in json.`ratings.json`."""
    tokens = _tokens(statement, "spark")
    texts, kinds = [token.text.lower() for token in tokens], [token.token_type.name for token in tokens]
    return any(
        text in ("json", "csv", "xml") and kinds[at + 1 : at + 3] == ["DOT", "IDENTIFIER"]
        for at, text in enumerate(texts)
    )


def require_declared_files(statement: str) -> None:
    """Raise if a SELECT of DuckDB reads text files whose format and types are left to be guessed.

    Columns that DuckDB would make of the names of folders (`user=zed/`) have to be asked for, or declined, too.
    """
    for node in _nodes(_parsed(statement)):
        if node.get("type") == "BASE_TABLE":
            _require_file(str(node.get("table_name")), statement)
        function = str(node.get("function_name", "")).lower()
        if function in ("query", "query_table"):
            raise DataError(f"source: what {function}() reads cannot be checked; write the SELECT itself")
        declared = function == "read_csv" and all(any(way in _bare(node) for way in ways) for ways in _declared())
        if function.startswith(GUESSERS) and not declared:
            raise DataError(f"source: the SELECT reads a text file. {ADVICE}")
        if function in ("read_parquet", "parquet_scan"):
            for path in _texts(node):
                _require_file(path, statement)


def _parsed(statement: str) -> Any:
    import duckdb

    with duckdb.connect() as parser:
        (tree,) = parser.execute("SELECT json_serialize_sql(?)", [statement]).fetchone() or ("{}",)
    parsed = json.loads(tree)
    if parsed.get("error", True):
        raise DataError(f"source: the SELECT cannot be checked ({parsed.get('error_message')}); write a simpler one")
    return parsed


def _bare(node: Any) -> str:
    """A part of a statement as text, without its place in it."""
    return re.sub(r'"query_location(_length)?": \d+(, )?', "", json.dumps(node))


@cache
def _declared() -> tuple[tuple[str, ...], ...]:
    """How DuckDB's parser writes down that nothing is to be guessed, and that a quote is a character like any other."""
    found = []
    for name, value in (("auto_detect", "false"), ("quote", "''")):
        ways = [_parsed(f"SELECT * FROM read_csv({name} {sign} {value})") for sign in ("=", ":=", "=>")]
        nodes = [node for way in ways for node in _nodes(way) if node.get("function_name") == "read_csv"]
        arguments = [(node.get("arguments") or node["children"])[0] for node in nodes]
        found.append(tuple(dict.fromkeys(_bare(argument).strip("{}") for argument in arguments)))
    return tuple(found)


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
