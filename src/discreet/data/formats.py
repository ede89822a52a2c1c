"""The file formats in which the data sets of the papers were published."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from discreet.data.sources import Table
from discreet.errors import DataError, MissingExtra

PIECE = 1 << 24  # bytes of text parsed at a time
LINE = 1 << 20  # bytes, to refuse a file without line ends; a line of ratings has about 30
BLANK = re.compile(rb"\n[ \t\r]*(?=\n)")
YEAR = re.compile(r"\((\d{4})\)\s*$")
NETFLIX = re.compile(rb"(?m)^(\d{1,18}):[ \t]*\r?\n")  # before the lines of a film
YAHOO = re.compile(rb"(?m)^(\d{1,18})\|(\d{1,18})[ \t]*\r?\n")  # before the lines of a user, with their number
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
TEXT = pa.large_string()

# Ratings


def movielens_ratings(path: Path) -> Table:
    """Lines of u.data (tabs), ratings.dat (`::`) or ratings.csv (commas, with a header in any order)."""
    kinds = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float32(), "timestamp": pa.int64()}
    if path.suffix == ".csv":
        names = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
        return _table(path.name, _with_header(path, names, kinds))
    delimiter, columns = "\t", kinds
    if path.suffix == ".dat":  # between the two colons of `::` is a column of nothing
        delimiter = ":"
        columns = {at: kind for name in kinds for at, kind in ((name, kinds[name]), (f"after {name}", pa.null()))}
        del columns["after timestamp"]
    return _table(path.name, (_parsed(body, columns, delimiter, path.name) for body in _whole_lines([path], path.name)))


def restaurant_ratings(path: Path) -> Table:
    """Lines of rating_final.csv."""
    names = {"userID": "user", "placeID": "item", "rating": "rating"}
    kinds = {"user": pa.string(), "item": pa.int64(), "rating": pa.float32()}
    return _table(path.name, _with_header(path, names, kinds), ("user", "item", "rating"))


def netflix_ratings(paths: Iterable[Path]) -> Table:
    """Blocks `film:` of lines `user,rating,date`."""
    kinds = {"user": pa.int64(), "rating": pa.float32(), "timestamp": pa.date32()}
    what = "the training set"

    def tables() -> Iterator[pa.Table]:
        for body, films, counts in _headed(paths, NETFLIX, what):
            yield _parsed(body, kinds, ",", what).append_column("item", pa.array(np.repeat(films, counts)))

    return _table("Netflix prize", tables())


def yahoo_ratings(path: Path) -> Table:
    r"""Blocks `user|n` of n lines `item\tscore\tday\thh:mm:ss` (KDD Cup 2011)."""
    kinds = {"item": pa.int64(), "rating": pa.float32(), "day": pa.int32(), "clock": pa.time32("s")}

    def tables() -> Iterator[pa.Table]:
        for body, users, counts in _headed([path], YAHOO, path.name):
            table = _parsed(body, kinds, "\t", path.name).append_column("user", pa.array(np.repeat(users, counts)))
            clock = table["clock"].cast(pa.int32()).cast(pa.int64())
            yield table.append_column("timestamp", pc.add(pc.multiply(table["day"].cast(pa.int64()), 86_400), clock))

    return _table("Yahoo! Music", tables())


def jester_sheet(path: Path, first_user: int) -> pa.Table:
    """The ratings of an .xls sheet: one row per user, with the number of ratings and 100 jokes; 99 means no rating."""
    try:
        import xlrd
    except ImportError:
        raise MissingExtra("reading Jester's .xls files", "excel") from None
    try:
        sheet = xlrd.open_workbook(str(path), on_demand=True).sheet_by_index(0)
        cells = np.array([sheet.row_values(row) for row in range(sheet.nrows)], dtype=np.float64)
    except (xlrd.XLRDError, ValueError, IndexError) as error:
        raise DataError(f"source: {path.name} is not a whole .xls sheet of numbers ({error}); fetch it again") from None
    if cells.ndim != 2 or cells.shape[1] < 2:
        raise DataError(f"source: {path.name} has no columns of ratings; fetch it again")
    rated = cells[:, 1:] != 99
    wrong = np.flatnonzero(rated.sum(axis=1) != cells[:, 0])
    if len(wrong):
        raise DataError(
            f"source: row {wrong[0] + 1} of {path.name} does not have as many ratings as it says; fetch it again"
        )
    users, items = np.nonzero(rated)
    return pa.table({"user": users + first_user, "item": items + 1, "rating": cells[:, 1:][rated]})


# Items


def movielens_films(path: Path) -> pa.Table:
    """The films of u.item (`|`, Latin-1), movies.dat (`::`, Latin-1 or UTF-8) or movies.csv."""
    if path.suffix == ".csv":
        rows: list[Any] = list(_cells(path, "movieId", "title", "genres"))
    else:
        film = _film if path.suffix == ".dat" else _film_100k
        rows = [film(line, path) for line in _lines(path)]
    if not rows:
        raise DataError(f"source: {path.name} has no films; fetch it again")
    return _items(path, rows, "title", "genres")


def with_years(films: pa.Table) -> pa.Table:
    """Add a column of the years that MovieLens titles end in."""
    years = [int(found[1]) if (found := YEAR.search(title or "")) else None for title in films["title"].to_pylist()]
    return films.append_column("year", pa.array(years, pa.int16()))


def restaurant_places(path: Path) -> pa.Table:
    """The columns placeID, name, city and country of geoplaces2.csv (Latin-1)."""
    names = ("name", "city", "country")
    return _items(path, list(_cells(path, "placeID", *names)), *names)


def netflix_titles(path: Path) -> pa.Table:
    """`film,year,title` in Latin-1; a title may have commas, a year may be NULL."""
    rows = [line.split(",", 2) for line in _lines(path)]
    if any(len(row) != 3 for row in rows):
        raise DataError(f"source: {path.name} has a line that is not 'film,year,title'")
    years = [int(year) if re.fullmatch(r"[0-9]{1,4}", year) else None for _, year, _ in rows]
    titles = _items(path, [(film, title) for film, _, title in rows], "title")
    return titles.append_column("year", pa.array(years, pa.int32()))


def joke_text(page: str) -> str:
    """The text of a joke from its HTML page."""
    inside = re.search(r"<!--begin of joke\s*-->(.*?)<!--end of joke\s*-->", page, re.DOTALL | re.IGNORECASE)
    bare = re.sub(r"<[^>]*>", " ", inside.group(1) if inside else page)
    return " ".join(html.unescape(bare).split())


def _items(path: Path, rows: list[Any], *names: str) -> pa.Table:
    """A table from rows of an item's number and its texts."""
    for number, *_ in rows:
        if not re.fullmatch(r"[0-9]{1,18}", number):  # what 64 bits hold
            raise DataError(
                f"source: {path.name} has {number[:200]!r} where the number of an item should be; fetch it again"
            )
    numbers = pa.array([int(row[0]) for row in rows], pa.int64())
    return pa.table(
        {"item": numbers} | {name: pa.array([row[at] for row in rows], TEXT) for at, name in enumerate(names, 1)}
    )


def _film(line: str, path: Path) -> tuple[str, str, str]:
    number, _, rest = line.partition("::")
    title, separator, genres = rest.rpartition("::")
    if not separator:
        raise DataError(f"source: {path.name} has a line that is not 'id::title::genres': {line[:200]!r}")
    return number, title, genres


def _film_100k(line: str, path: Path) -> tuple[str, str, str]:
    cells = line.split("|")
    if len(cells) != 5 + len(GENRES_100K):
        raise DataError(f"source: {path.name} has a line without id, title and 19 genres: {line[:200]!r}")
    genres = [name for name, flag in zip(GENRES_100K, cells[5:], strict=True) if flag == "1"]
    return cells[0], cells[1], "|".join(genres)


# Text


def _lines(path: Path) -> list[str]:
    """The lines of a small file, without the blank ones."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:  # the older files
        text = data.decode("latin-1")
    return [line for line in re.split(r"\r?\n", text) if line.strip()]


def _cells(path: Path, *names: str) -> Iterator[list[str]]:
    """Some columns of a small CSV file that names them in its first line."""
    rows = csv.DictReader(_lines(path))
    try:
        for row in rows:
            cells = [row.get(name) for name in names]
            if None in cells:
                raise DataError(f"source: line {rows.line_num} of {path.name} has no {names[cells.index(None)]}")
            yield [str(cell) for cell in cells]
    except csv.Error as error:
        raise DataError(f"source: {path.name} is damaged ({error}); fetch it again") from None


def _whole_lines(paths: Iterable[Path], what: str) -> Iterator[bytes]:
    """The text of files in pieces of whole lines, without blank lines, which editors leave behind."""
    for path in paths:
        rest = b""
        with path.open("rb") as file:
            while piece := file.read(PIECE) or (b"\n" if rest else b""):  # the last line may have no end
                start, end, after = (rest + piece).rpartition(b"\n")
                whole = BLANK.sub(b"", b"\n" + start + end)[1:] if end else b""
                rest = after
                if whole:
                    yield whole
                if len(rest) > LINE:
                    raise DataError(f"source: {what} has a line of more than {LINE:,} bytes; is it the original file?")


def _with_header(path: Path, names: dict[str, str], kinds: dict[str, Any]) -> Iterator[pa.Table]:
    """Some columns, renamed, of a file with commas and a header."""
    whole = _whole_lines([path], path.name)
    header, _, rest = next(whole, b"").partition(b"\n")
    found = [name.strip().strip('"') for name in header.decode("utf-8-sig", "replace").split(",")]
    wrong = next((name for name in names if found.count(name) != 1), None)
    if wrong is not None:
        how = "no column" if wrong not in found else "more than one column"
        raise DataError(
            f"source: {path.name} has {how} {wrong!r}; its first line is {header[:200]!r}. Is it the original file?"
        )
    columns = {names.get(name, f"column {at}"): kinds.get(names.get(name, "")) for at, name in enumerate(found)}
    for body in chain([rest] if rest else [], whole):
        yield _parsed(body, columns, ",", path.name, list(kinds))


def _headed(paths: Iterable[Path], header: re.Pattern[bytes], what: str) -> Iterator[tuple[bytes, Any, Any]]:
    """Parse text in which a header line comes before each block of lines.

    The header's first group is a number; a second one, if any, says how many lines follow. Yields the lines without
    headers, the headers' numbers, and how many lines each has.
    """
    owner, missing = -1, 0
    for whole in _whole_lines(paths, what):
        heads = list(header.finditer(whole))
        ends = np.flatnonzero(np.frombuffer(whole, np.uint8) == ord("\n"))
        starts = [0, *(head.end() for head in heads)]
        stops = [*(head.start() for head in heads), len(whole)]
        counts = np.searchsorted(ends, stops) - np.searchsorted(ends, starts)
        owners = np.array([owner, *(int(head.group(1)) for head in heads)])
        if counts[0] and owner < 0:
            raise DataError(f"source: {what} begins without a header line; is it the original file?")
        if header.groups > 1:
            short = np.array([missing, *(int(head.group(2)) for head in heads)]) - counts
            missing = int(short[-1])
            wrong = np.flatnonzero(short[:-1])
            if len(wrong):
                at = int(wrong[0])
                raise DataError(
                    f"source: {what} is damaged: for {owners[at]} it announces {abs(int(short[at]))} lines "
                    f"{'more' if short[at] > 0 else 'fewer'} than there are; fetch it again"
                )
        owner = int(owners[-1])
        body = header.sub(b"", whole)
        if body:
            yield body, owners, counts
    if missing:
        raise DataError(f"source: {what} ends {missing} lines too early; fetch it again")


def _parsed(body: bytes, kinds: dict[str, Any], delimiter: str, what: str, only: list[str] | None = None) -> pa.Table:
    types = {name: kind for name, kind in kinds.items() if kind is not None}
    try:
        return arrow_csv.read_csv(
            BytesIO(body),
            read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(column_types=types, include_columns=only),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"source: {what} is damaged ({error}); fetch it again") from None


def _table(
    what: str, tables: Iterator[pa.Table], names: tuple[str, ...] = ("user", "item", "rating", "timestamp")
) -> Table:
    return Table(
        what, names, lambda wanted: (batch for table in tables for batch in table.select(wanted.names).to_batches())
    )
