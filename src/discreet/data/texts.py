"""Files of text: csv, tsv, json lines. DuckDB reads them, and no line of theirs is ever left out silently."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from discreet.data import sources
from discreet.data.columns import Wanted
from discreet.data.databases import columns_of, connect, explained, literal, quoted, streamed
from discreet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

EXACT_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
# Everything by which the sniffer could leave out lines (a title, a comment, a broken line) is fixed.
WHOLE = ", header = true, skip = 0, comment = '', null_padding = false, ignore_errors = false, strict_mode = true"
ADVICE = (
    "Check that the file is whole, in UTF-8, and that every line has the columns of the first; for other "
    "encodings, separators or files without a header line read it with a SELECT from read_csv(...)"
)
JSON_ADVICE = "Check that the file is whole, with one JSON object a line of the same keys"


def text_files(paths: list[str], kind: str) -> sources.Table:
    """Files of text with a header line (csv, tsv), or of one json object a line; plain, .gz or .zst."""
    connection = connect()
    try:
        return _table(connection, paths, kind)
    except BaseException:
        connection.close()
        raise


def _table(connection: Any, paths: list[str], kind: str) -> sources.Table:
    import duckdb

    listed = "[" + ", ".join(map(literal, paths)) + "]"
    what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"
    json = kind == "json"
    advice = JSON_ADVICE if json else ADVICE
    files = (
        f"read_json({listed}" if json else f"read_csv({listed}{WHOLE}" + (r", delim = '\t'" if kind == "tsv" else "")
    )
    with explained(what, advice):
        header = None if json else _first_line(connection, paths)
        try:
            found = columns_of(connection, f"SELECT * FROM {files})")
        except duckdb.Error:
            if header is not None:
                _require_even(connection, paths, header)
            raise
        if header is not None and len(found) == 1:
            _require_divided(connection, paths, header)

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        kinds = {name: found[name] for name in wanted.names}
        asked = dict(zip(wanted.names, map(quoted, wanted.names), strict=True))
        for name in wanted.ids:
            # Text has no types: ids are taken as they are written, see `ids.typed`. JSON tells numbers from
            # strings, but the guess of a date, a UUID or a float from a sample must not change an id either.
            kinds[name] = "JSON" if json else "VARCHAR"
            if json:
                asked[name] = f"{_json_id(name, found[name])} AS {quoted(name)}"
        value = wanted.value
        if value is not None and not json and found[value] != "BOOLEAN":
            kinds[value] = "VARCHAR"  # with the words for a missing value, see `Cleaner`
        elif value is not None and found[value] in EXACT_INTEGERS:
            kinds[value] = "DOUBLE"  # a sample of whole numbers does not mean that all are whole
        listing = ", ".join(f"{literal(name)}: {literal(of)}" for name, of in kinds.items())
        given = f", {'columns' if json else 'types'} = {{{listing}}})"
        return streamed(connection, f"SELECT {', '.join(asked.values())} FROM {files}{given}", what, advice)

    return sources.Table(what, list(found), stream, untyped_ids=not json, close=connection.close)


def _json_id(name: str, kind: str) -> str:
    """An id of JSON in the type that a sample has, or an error: 1 and "1" are two ids, and so are 1 and 1.5."""
    cell = quoted(name)
    said = f"column {name}: some ids are numbers and some are strings, or some whole and some not; write all alike"
    refused = f"CAST(error({literal(said)}) AS VARCHAR)"
    if kind in EXACT_INTEGERS:
        of_type, converted = "IN ('BIGINT', 'UBIGINT')", f"CAST({cell} AS VARCHAR)"
    elif kind in ("DOUBLE", "HUGEINT", "UHUGEINT", "BOOLEAN") or "(" in kind:  # numbers, as they are written
        of_type, converted = "<> 'VARCHAR'", f"CAST({cell} AS VARCHAR)"
    else:
        of_type, converted = "= 'VARCHAR'", f"{cell} ->> '$'"
    missing = f"{cell} IS NULL OR json_type({cell}) = 'NULL'"
    id_ = f"CASE WHEN {missing} THEN NULL WHEN json_type({cell}) {of_type} THEN {converted} ELSE {refused} END"
    return f"CAST({id_} AS {kind})" if kind in EXACT_INTEGERS else id_


def _lines(path: str) -> str:
    """The lines of a file, undivided, as a table of SQL."""
    return (
        f"read_csv({literal(path)}, auto_detect = false, columns = {{'line': 'VARCHAR'}}, delim = '\\x01', "
        "quote = '', escape = '', header = false, skip = 0, strict_mode = false)"
    )


def _first_line(connection: Any, paths: list[str]) -> str:
    """The line that names the columns: below an empty one it would be taken for a row."""
    header = ""
    for path in reversed(paths):
        first = connection.execute(f"SELECT line FROM {_lines(path)} LIMIT 1").fetchone()
        header = "" if first is None or first[0] is None else first[0].strip()
        if not header:
            raise DataError(f"source: {path!r} begins with an empty line; the first line must name the columns")
    return header


def _separator(header: str) -> str | None:
    found = re.search(r"[,;\t|]|::", header)
    return None if found is None else found.group()


def _require_even(connection: Any, paths: list[str], header: str) -> None:
    """Name the first line that has another number of columns than the header, if there is one."""
    mark = _separator(header)
    if mark is None:
        return
    expected = header.count(mark) + 1
    for path in paths:
        count = f"(length(line) - length(replace(line, {literal(mark)}, ''))) // {len(mark)} + 1"
        numbered = f"SELECT line, {count} AS n, row_number() OVER () AS place FROM {_lines(path)}"
        uneven = connection.execute(
            # Not those with quotes, which may hide separators.
            f"SELECT place, line, n FROM ({numbered}) WHERE n <> {expected} AND NOT contains(line, '\"') LIMIT 1"
        ).fetchone()
        if uneven is not None:
            place, line, n = uneven
            shown = line if len(line) <= 80 else line[:77] + "..."
            raise DataError(
                f"source: line {place} of {path!r}, {shown!r}, has a different number of columns ({n}) than the "
                f"first ({expected}). Check that the file is whole; a cell that "
                f"holds {mark!r} must be in double quotes"
            )


def _require_divided(connection: Any, paths: list[str], header: str) -> None:
    """Lines that cannot all be divided alike come back whole, in one column: say why."""
    if _separator(header) is not None:
        _require_even(connection, paths, header)
        raise DataError(
            f"source: the columns of {paths[0]!r} are not separated as those of such a file are, or a line has a "
            f"different number of columns than the first, {header!r}. Correct it, or read it with a SELECT from "
            "read_csv(..., delim = ...)"
        )
