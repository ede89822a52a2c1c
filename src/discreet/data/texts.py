"""Text: CSV, TSV and JSON lines, and the numbers and times written in them.

One line is one row, and is read by itself. How lines are split is declared or follows from the header: nothing is
guessed from rows. A quoted cell must end on the line on which it begins; otherwise two lines of one person could
swallow the lines between them. What a cell means depends on that cell alone, by one grammar for all sources. So
whatever a line holds, the rows of other lines stay the same (docs/proofs/reading.md).
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from discreet.data.cells import is_utf8, numpy_of
from discreet.data.sources import RefusedRow, Table, Wanted, by_select, prefetched, require_names, shown, sliced
from discreet.errors import DataError
from discreet.typing import Floats

BLOCK = 1 << 23  # bytes read at a time
PIECE = 1 << 20  # bytes split at a time
LONGEST = 1 << 28  # bytes of a line: Arrow counts up to 2^31
SEPARATORS = (",", ";", "\t", "|")  # the header of a CSV file has one of them
MARK = "\ufeff".encode()  # a byte order mark, which some programs put at the start of a file
GZIP = b"\x1f\x8b"
Fault = tuple[int, bytes]  # the place of a line in its block, from 0, and the line
MISSING = ("", "NA", "N/A", "NULL", "null", "None", r"\N")  # how text writes a missing value
NUMBER = r"^[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|(?i:nan|inf|infinity))$"
ISO_8601 = (
    r"^(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])"
    r"(?:[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d(?:\.\d+)?))?"
    r"(?:Z| ?UTC|(?P<sign>[-+])(?P<east>[01]\d|2[0-3])(?::?(?P<eastward>[0-5]\d))?)?)?$"
)
Mask = NDArray[np.bool_]
JSON_ADVICE = "Check that the file is whole, with one JSON object a line"


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed. Reading them to the end verifies the checksums of .gz and .zst files."""
    packed = {"gz": "gzip", "zst": "zstd"}.get(path.lower().rpartition(".")[2])
    try:
        with io.BufferedReader(pa.input_stream(path, packed)) as file:
            if packed is None and file.peek(2)[:2] == GZIP:
                raise DataError(f"source: {path!r} is packed by gzip; rename it to {path + '.gz'!r}")
            yield file
    except PermissionError as error:
        raise DataError(f"source: {path!r} cannot be opened ({error.strerror}); check that you may read it") from None
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"source: {path!r} is damaged ({error}). Check that the file is whole, or fetch it") from None


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    r"""Whole lines, some megabytes at a time, each ending in \n."""
    rest: list[bytes] = []  # of a line that is not complete yet
    while piece := file.read(BLOCK):
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, piece[:cut]]).replace(b"\r\n", b"\n")
            rest = []
        rest.append(piece[cut:])
    if last := b"".join(rest):
        yield last.removesuffix(b"\r") + b"\n"


@dataclass(frozen=True)
class Csv:
    """How the lines of one file are split."""

    header: bytes  # the first line; equal lines, as in concatenated files, are not rows
    separator: str
    names: tuple[str, ...]  # the columns

    @classmethod
    def of(cls, path: str, header: bytes, separator: str | None) -> Csv:
        """Parse a header, which is nobody's row."""
        header = header.removeprefix(MARK).rstrip(b"\r\n")
        text = header.decode(errors="replace")
        if header.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            raise DataError(f"source: {path!r} is text in UTF-16; convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW_FILE")
        if "\0" in text or not is_utf8(header):
            raise DataError(f"source: {path!r} is not text in UTF-8; convert it, for instance with iconv")
        if not text.strip():
            raise DataError(f"source: {path!r} begins with an empty line; the first line must name the columns")
        if separator is None:
            bare = re.sub(r'"[^"]*"', "", text)
            if re.fullmatch(r"sep=.", text):
                raise DataError(f"source: the first line of {path!r} is {text!r}; remove it, and pass separator=")
            separator = max(SEPARATORS, key=bare.count)  # the first of several that occur equally often
            if "::" in bare and not bare.count(separator):
                raise DataError(
                    f"source: the columns of {path!r} are separated by several characters: {text!r}. {by_select(path)}"
                )
        elif separator not in text and any(other in text for other in SEPARATORS):
            raise DataError(
                f"separator: there is no {separator!r} in the first line of {path!r}, {text!r}; leave separator= out "
                "to have it guessed"
            )
        try:
            (cells,) = csv.reader([text], delimiter=separator, strict=True)
        except (csv.Error, ValueError) as error:
            raise DataError(f"source: the first line of {path!r}, {text!r}, cannot be split ({error})") from None
        names = tuple(cell.strip() for cell in cells)
        require_names(names)
        return cls(header, separator, names)

    def rows(self, block: bytes, names: Sequence[str]) -> tuple[pa.RecordBatch, Fault | None]:
        """Some columns of some lines, as text. A line that cannot be split is a row of nulls; return the first."""
        starts = np.concatenate([[0], np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + 1])
        buffers = [None, pa.py_buffer(starts.astype(np.int64)), pa.py_buffer(block)]
        lines = pa.Array.from_buffers(pa.large_binary(), len(starts) - 1, buffers)  # each with its end
        is_row = np.ones(len(lines), dtype=bool)
        others = [line + b"\n" for line in (b"", self.header, MARK + self.header)]
        if any(block.startswith(line) or b"\n" + line in block for line in others):
            is_row = ~numpy_of(pc.is_in(lines, value_set=pa.array(others, lines.type)))
        good = is_row & (np.diff(starts) <= LONGEST) & self._well_formed(block, lines)
        kept = self._divided(block if good.all() else b"".join(lines.filter(pa.array(good)).to_pylist()), names)
        bad = is_row & ~good
        if not bad.any():
            return kept, None
        place = np.where(good, np.cumsum(good) - 1, 0)[is_row]
        at = int(bad.argmax())
        return kept.take(pa.array(place, mask=bad[is_row])), (at, lines[at].as_py().rstrip(b"\n"))

    def _well_formed(self, block: bytes, lines: pa.Array) -> Mask:
        """Which lines are UTF-8 and follow RFC 4180: a cell has no quotes, or is quoted with inner quotes doubled."""
        if not is_utf8(block):
            texts = pa.array([line if is_utf8(line) else None for line in lines.to_pylist()], lines.type)
        elif self._is_regular(block):
            return np.ones(len(lines), dtype=bool)
        else:
            texts = lines
        texts = texts.cast(pa.large_string())
        mark = re.escape(self.separator)
        quoted, bare = r'"(?:[^"\r]|"")*"', rf'[^"\r\n{mark}]*'
        split = pc.match_substring_regex(texts, rf"^(?:{quoted}|{bare})(?:{mark}(?:{quoted}|{bare}))*\n$")
        cuts = pc.count_substring(pc.replace_substring_regex(texts, quoted, ""), self.separator)
        return numpy_of(pc.fill_null(pc.and_(split, pc.equal(cuts, len(self.names) - 1)), False))

    def _is_regular(self, block: bytes) -> bool:
        """Whether no line has quotes, and each has as many separators as the header."""
        if b'"' in block or b"\r" in block:
            return False
        content = np.frombuffer(block, np.uint8)
        ends, cuts = (np.flatnonzero(content == byte) for byte in (ord("\n"), ord(self.separator)))
        starts = np.concatenate([[0], ends[:-1] + 1])
        if len(cuts) != len(ends) * (len(self.names) - 1):
            return False
        by_line = cuts.reshape(len(ends), -1)
        return bool((by_line >= starts[:, None]).all() and (by_line < ends[:, None]).all())

    def _divided(self, block: bytes, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of well-formed lines."""
        places = [str(self.names.index(name)) for name in names]
        if not block:
            return pa.RecordBatch.from_pydict({name: pa.array([], pa.large_string()) for name in names})
        # Arrow removes a byte order mark at the start, which must not be part of an id. It works on pieces of a block
        # in parallel, and a line has to fit in one.
        given = MARK + block
        longest = int(np.diff(np.flatnonzero(np.frombuffer(given, np.uint8) == ord("\n")), prepend=-1).max())
        table = arrow_csv.read_csv(
            pa.BufferReader(given),
            read_options=arrow_csv.ReadOptions(
                column_names=list(map(str, range(len(self.names)))), block_size=max(PIECE, 2 * longest)
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.separator, quote_char='"' if b'"' in block else False, ignore_empty_lines=False
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.large_string()), include_columns=places, strings_can_be_null=False
            ),
        )
        (batch,) = table.combine_chunks().to_batches()
        return pa.RecordBatch.from_arrays(batch.columns, names=list(names))

    def fault(self, line: bytes) -> str:
        """What is wrong with a line that cannot be split."""
        if len(line) >= LONGEST:
            return f"is longer than {LONGEST:,} bytes"
        if not is_utf8(line):
            return "is not in UTF-8; convert the file, for instance with iconv"
        if b'"' in line:
            return (
                "has a quote that is not closed on the same line, follows a space, is inside an unquoted cell, or is "
                'not doubled (""); or a different number of columns than the first. A cell with line breaks cannot be '
                "read: replace them with spaces"
            )
        found = line.count(self.separator.encode()) + 1
        return (
            f"has a different number of columns ({found}) than the first ({len(self.names)}). Check that the file is "
            f"whole; a cell that holds {self.separator!r} must be in double quotes"
        )


DECODER = json.JSONDecoder()
SCALARS = {str, int, float, bool, type(None)}


class Json:
    """Lines that are JSON objects, with values taken as they are written.

    7 and "7" are the same text, so they would be one id. `kinds` records which of the two were met, so that a column
    with both can be refused.
    """

    names = None  # there is no header

    def __init__(self) -> None:
        self.kinds: dict[str, set[type]] = {}

    def rows(self, block: bytes, names: Sequence[str]) -> tuple[pa.RecordBatch, Fault | None]:
        """Some values of some lines, as text. A line that is no object is a row of nulls; return the first."""
        nothing = (None,) * len(names)
        lines = block.split(b"\n")[:-1]
        found = [_values(line, names) for line in lines if line.strip()]
        fault = None
        if not all(found):
            fault = [(at, line) for at, line in enumerate(lines) if line.strip()][found.index(None)]
        columns = list(zip(*(row or nothing for row in found), strict=True)) or [()] * len(names)
        for name, column in zip(names, columns, strict=True):
            met = {str if kind is str else float for kind in set(map(type, column)) - {type(None)}}
            self.kinds.setdefault(name, set()).update(met)
        arrays = [pa.array(list(map(_written, column)), pa.large_string()) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(names)), fault

    def fault(self, line: bytes) -> str:
        """What is wrong with a line that cannot be read."""
        if line.lstrip().startswith(b"["):
            return "is a JSON array; write one object a line, for instance with jq -c '.[]'"
        return f"is not a JSON object, or has a list or an object as a value. {JSON_ADVICE}"

    def require_one_kind(self, names: Sequence[str]) -> None:
        """Raise if some ids were strings and some were not."""
        for name in names:
            if len(self.kinds.get(name, ())) > 1:
                raise DataError(
                    f'source: column {name}: some ids are numbers and some are strings, so 7 and "7" would be the '
                    "same; write all of them the same way"
                )


def _values(line: bytes, names: Sequence[str]) -> tuple[Any, ...] | None:
    """Some values of a line that is a JSON object; None if it is not."""
    try:
        text = line.decode().removeprefix("\ufeff").strip()
        content, end = DECODER.raw_decode(text)
        values = tuple([content.get(name) for name in names])
        if "\\" in text:
            "".join(map(str, values)).encode()  # fails for an escaped half of a character
    except (ValueError, AttributeError, RecursionError):
        return None
    return values if end == len(text) and {type(value) for value in values} <= SCALARS else None


def _written(value: Any) -> str | None:
    """A value as JSON writes it."""
    if value is None or type(value) is str:
        return value
    return str(value).lower() if type(value) is bool else repr(value)


def text_files(paths: list[str], kind: str, separator: str | None = None) -> Table:
    """Text files with a header line (csv, tsv), or with one JSON object per line; plain, .gz or .zst."""
    if kind == "json":
        if separator is not None:
            raise DataError("separator: JSON lines have none; leave it out")
        readers: Sequence[Csv | Json] = [Json()] * len(paths)
    else:
        separator = checked_separator(separator, kind)
        readers = [Csv.of(path, _first_line(path), separator) for path in paths]

    def stream(wanted: Wanted) -> Generator[pa.RecordBatch, None, None]:
        return prefetched(sliced(_batches(paths, readers, wanted)))

    return Table(shown(paths), readers[0].names, stream, is_text=True, places=partial(_places, paths, readers))


def checked_separator(given: str | None, kind: str) -> str | None:
    """The separator that was declared or that the kind of file has; None: look at the header."""
    if given is None:
        return "\t" if kind == "tsv" else None
    if given == "::":
        raise DataError(f"separator: a single character is needed, not {given!r}. {by_select('ratings.dat')}")
    if not (isinstance(given, str) and len(given) == 1 and given.isascii() and given.isprintable() | (given == "\t")):
        raise DataError(f"separator: a single character such as ';' is needed, not {given!r}")
    if given.isalnum() or given in '" ':
        raise DataError(f"separator: {given!r} cannot separate cells")
    return given


def _first_line(path: str) -> bytes:
    with opened(path) as file:
        return file.readline()


def _batches(paths: list[str], readers: Sequence[Csv | Json], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    for path, reader in zip(paths, readers, strict=True):
        lost = [name for name in wanted.names if reader.names is not None and name not in reader.names]
        if lost:
            raise DataError(f"source: {path!r} has no column {lost[0]!r}, which {paths[0]!r} has")
        line = 1
        with opened(path) as file:
            if reader.names is not None:  # in the first line
                file.readline()
                line += 1
            for block in _blocks(file):
                batch, fault = reader.rows(block, wanted.names)
                if fault is not None and not wanted.lenient:
                    text = fault[1].decode(errors="replace")
                    text = text if len(text) <= 80 else text[:77] + "..."
                    why = reader.fault(fault[1])
                    raise RefusedRow(f"source: line {line + fault[0]} of {path!r}, {text!r}, {why}")
                if isinstance(reader, Json) and not wanted.lenient:
                    reader.require_one_kind(wanted.ids)
                yield as_missing(batch, wanted)
                line += block.count(b"\n")


def _places(paths: list[str], readers: Sequence[Csv | Json], rows: Sequence[int]) -> list[tuple[int, str]]:
    """The lines of rows, numbered as in an editor: with the header and empty lines."""
    row = 0
    found: list[tuple[int, str]] = []
    for path, reader in zip(paths, readers, strict=True):
        headers = (reader.header, MARK + reader.header) if isinstance(reader, Csv) else ()
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                if len(found) == len(rows):
                    return found
                text = line.removesuffix(b"\n").removesuffix(b"\r")
                if text not in headers and (text if headers else text.strip()):
                    if row == rows[len(found)]:
                        found.append((number, path))
                    row += 1
    return found


def as_missing(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """In text, an empty id is missing."""
    for name in wanted.ids:
        at = wanted.names.index(name)
        cells = batch.column(at)
        empty = pc.equal(cells, "")
        if pc.any(empty).as_py():
            batch = batch.set_column(at, name, pc.if_else(empty, pa.scalar(None, cells.type), cells))
    return batch


# Numbers and times


def numbers(column: pa.Array) -> tuple[Floats, Mask]:
    """The numbers in a column of text, NaN where missing, and which cells hold something else.

    true and false are 1 and 0. Blanks around a number do not matter.
    """
    if not column.null_count:
        with contextlib.suppress(pa.ArrowInvalid):
            plain = numpy_of(column.cast(pa.float64()))
            if np.isfinite(plain).all():  # such numbers are read the same way below
                return plain, np.zeros(len(column), bool)
    column = pc.utf8_trim_whitespace(column)
    nothing = pa.scalar(None, column.type)
    column = pc.if_else(pc.is_in(column, value_set=pa.array(MISSING, column.type)), nothing, column)
    lower = pc.utf8_lower(column)
    for word, number in (("true", "1"), ("false", "0")):
        column = pc.if_else(pc.equal(lower, word), pa.scalar(number, column.type), column)
    written = pc.match_substring_regex(column, NUMBER)
    readable = pc.utf8_ltrim(pc.if_else(written, column, nothing), "+")
    return numpy_of(readable.cast(pa.float64())), ~numpy_of(pc.fill_null(written, True))


def times(column: pa.Array, time_format: str | None) -> tuple[Floats, Mask]:
    """The times in a column of text as numbers, NaN where missing, and which cells hold something else.

    Numbers stay as they are. Dates and times in ISO 8601, or in `time_format` if given, become seconds since 1970 in
    UTC; without a time zone they are taken to be in UTC.
    """
    if time_format is None:
        found, bad = numbers(column)
        if not bad.any():
            return found, bad
    else:
        found = np.full(len(column), np.nan)
        missing = pc.is_in(pc.utf8_trim_whitespace(column), value_set=pa.array(MISSING, column.type))
        bad = numpy_of(pc.and_(pc.is_valid(column), pc.invert(missing)))
    asked = np.flatnonzero(bad)
    cells = pc.utf8_trim_whitespace(column.take(pa.array(asked)))
    seconds = _iso_8601(cells) if time_format is None else _strptime(cells, time_format)
    found, bad = found.copy(), bad.copy()
    found[asked], bad[asked] = seconds, np.isnan(seconds)
    return found, bad


def check_format(time_format: str) -> None:
    """Raise unless `strptime` knows the format."""
    if not isinstance(time_format, str) or "%" not in time_format:
        raise DataError(f"time_format: a format for strptime such as '%d/%m/%Y %H:%M' is needed, not {time_format!r}")
    _strptime(pa.array(["x"], pa.large_string()), time_format)


def _iso_8601(cells: pa.Array) -> Floats:
    """Seconds since 1970 in UTC; NaN if a cell is not a date or time in ISO 8601."""
    parts = pc.extract_regex(cells, ISO_8601)

    def part(name: str) -> Floats:
        text = pc.struct_field(parts, name)
        text = pc.if_else(pc.equal(text, ""), pa.scalar("0", text.type), text)  # an optional part
        return numpy_of(text.cast(pa.float64()))

    there = numpy_of(pc.is_valid(parts))
    months = np.where(there, (part("year") - 1970) * 12 + part("month") - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(there, part("day") - 1, 0).astype("timedelta64[D]")
    there = there & (days.astype("datetime64[M]") == months)  # otherwise that month has fewer days
    east = 60 * part("east") + part("eastward")
    minus = numpy_of(pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), False))
    minutes = 60 * part("hour") + part("minute") - np.where(minus, -east, east)
    seconds: Floats = days.astype(np.int64) * 86_400.0 + 60 * minutes + part("second")
    return np.where(there, seconds, np.nan)


def _strptime(cells: pa.Array, time_format: str) -> Floats:
    """The same in a format for `strptime`. DuckDB parses each cell by itself."""
    import duckdb

    with duckdb.connect() as database:
        database.register("cells", pa.table({"cell": cells}))
        try:
            found: Any = database.sql(
                # DuckDB takes the words infinity and epoch as times in any format.
                "SELECT CASE WHEN regexp_matches(cell, '[0-9]') THEN epoch_us(try_strptime(cell, $1)) END AS micros "
                "FROM cells",
                params=[time_format],
            )
            micros = found.to_arrow_table().column("micros").combine_chunks()
        except duckdb.Error:
            raise DataError(f"time_format: {time_format!r} is not a format of strptime, such as '%d/%m/%Y'") from None
    return numpy_of(micros.cast(pa.float64(), safe=False)) / 1e6
