"""Numbers and times that are written as text: what a cell means depends on that cell and on nothing else.

There is one grammar for all sources. It is never adapted to what a column holds, so that no row changes how another
row is read (docs/proofs/reading.md).
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from discreet.errors import DataError
from discreet.typing import Floats

MISSING = ("", "NA", "N/A", "NULL", "null", "None", r"\N")  # how text says that there is no value
NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"
ISO_8601 = (
    r"^(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d+)?))?"
    r"(?:Z| ?UTC|(?P<sign>[-+])(?P<east>[01]\d|2[0-3])(?::?(?P<eastward>[0-5]\d))?)?)?$"
)

Mask = NDArray[np.bool_]


def numbers(column: pa.Array) -> tuple[Floats, Mask | None]:
    """The numbers in a column of text, NaN where there is none, and which cells hold something else.

    true and false are 1 and 0. Blanks around a number do not matter.
    """
    if not column.null_count:
        with contextlib.suppress(pa.ArrowInvalid):
            plain: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
            if np.isfinite(plain).all():  # a finite number in this grammar is one in that of the slow way too
                return plain, None
    column = pc.utf8_trim_whitespace(column)
    nothing = pa.scalar(None, column.type)
    column = pc.if_else(pc.is_in(column, value_set=pa.array(MISSING, column.type)), nothing, column)
    lower = pc.utf8_lower(column)
    for word, number in (("true", "1"), ("false", "0")):
        column = pc.if_else(pc.equal(lower, word), pa.scalar(number, column.type), column)
    written = pc.match_substring_regex(column, NUMBER)
    bad: Mask = ~pc.fill_null(written, True).to_numpy(zero_copy_only=False)
    readable = pc.utf8_ltrim(pc.if_else(written, column, nothing), "+")
    found: Floats = readable.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return found, bad if bad.any() else None


def times(column: pa.Array, time_format: str | None) -> tuple[Floats, Mask | None]:
    """The times in a column of text as numbers, NaN where there is none, and which cells hold something else.

    A number stays what it is. A date or time of ISO 8601, or in `time_format` if one is given, becomes the seconds
    since 1970 in UTC; what has no time zone is taken to be in UTC.
    """
    if time_format is None:
        found, bad = numbers(column)
        if bad is None:
            return found, None
        asked = pa.array(bad)
    else:
        found = np.full(len(column), np.nan)
        missing = pc.is_in(pc.utf8_trim_whitespace(column), value_set=pa.array(MISSING, column.type))
        bad = pc.and_(pc.is_valid(column), pc.invert(missing)).to_numpy(zero_copy_only=False)
        asked = pa.array(bad)
    cells = pc.utf8_trim_whitespace(column.filter(asked))
    seconds = _iso_8601(cells) if time_format is None else _strptime(cells, time_format)
    found, bad = found.copy(), bad.copy()
    found[np.flatnonzero(bad)] = seconds
    bad[np.flatnonzero(bad)] = np.isnan(seconds)
    return found, bad if bad.any() else None


def check_format(time_format: str) -> None:
    """Raise unless a format is one for `strptime`."""
    if not isinstance(time_format, str) or "%" not in time_format:
        raise DataError(f"time_format: a format for strptime such as '%d/%m/%Y %H:%M' is needed, not {time_format!r}")
    _strptime(pa.array(["x"], pa.large_string()), time_format)


def _iso_8601(cells: pa.Array) -> Floats:
    """Seconds since 1970 in UTC, NaN for what is no date or time of ISO 8601."""
    parts = pc.extract_regex(cells, ISO_8601)

    def part(name: str) -> Floats:
        text = pc.struct_field(parts, name)
        text = pc.if_else(pc.equal(text, ""), pa.scalar("0", text.type), text)  # a part that may be left out
        numbers: Floats = text.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return numbers

    there = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    months = np.where(there, (part("year") - 1970) * 12 + part("month") - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(there, part("day") - 1, 0).astype("timedelta64[D]")
    there &= days.astype("datetime64[M]") == months  # else that month has fewer days
    east = 60 * part("east") + part("eastward")
    minus = pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), False).to_numpy(zero_copy_only=False)
    minutes = 60 * part("hour") + part("minute") - np.where(minus, -east, east)
    seconds: Floats = days.astype(np.int64) * 86_400.0 + 60 * minutes + part("second")
    return np.where(there, seconds, np.nan)


def _strptime(cells: pa.Array, time_format: str) -> Floats:
    """The same in a format for `strptime`. DuckDB decides about each cell by itself."""
    import duckdb

    with duckdb.connect() as database:
        database.register("cells", pa.table({"cell": cells}))
        try:
            found: Any = database.sql(
                # DuckDB takes the words infinity and epoch for times in any format.
                "SELECT CASE WHEN regexp_matches(cell, '[0-9]') THEN epoch_us(try_strptime(cell, $1)) END AS micros "
                "FROM cells",
                params=[time_format],
            )
            micros = found.to_arrow_table().column("micros").combine_chunks()
        except duckdb.Error as error:
            raise DataError(f"time_format: {time_format!r} is no format for strptime ({error})") from None
    seconds: Floats = micros.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / 1e6
    return seconds
