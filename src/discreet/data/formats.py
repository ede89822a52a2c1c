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

from discreet.errors import DataError, MissingExtra

PIECE = 1 << 24  # bytes of text parsed at a time
LINE = 1 << 20  # bytes: a line of ratings has some 30; without a bound, a file without line ends would be held whole
BLANK = re.compile(rb"\n[ \t\r]*(?=\n)")
YEAR = re.compile(r"\((\d{4})\)\s*$")
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


def movielens_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Lines of u.data (tabs), ratings.dat (`::`) or ratings.csv (commas, with a header in any order)."""
    kinds = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float32(), "timestamp": pa.int64()}
    if path.suffix == ".csv":
        names = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
        yield from _with_header(path, names, kinds)
        return
    delimiter, columns = "\t", kinds
    if path.suffix == ".dat":  # between the two colons of `::` is a column of nothing
        delimiter = ":"
        columns = {at: kind for name in kinds for at, kind in ((name, kinds[name]), (f"after {name}", pa.null()))}
        del columns["after timestamp"]
    for body in lines([path], path.name):
        yield from _parsed(body, columns, delimiter, path.name).select(list(kinds)).to_batches()


def restaurant_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Lines of rating_final.csv."""
    names = {"userID": "user", "placeID": "item", "rating": "rating"}
    yield from _with_header(path, names, {"user": pa.string(), "item": pa.int64(), "rating": pa.float32()})


def _with_header(path: Path, names: dict[str, str], kinds: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Lines with commas, after one that names their columns, of which some are needed and get new names."""
    whole = lines([path], path.name)
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
        yield from _parsed(body, columns, ",", path.name, list(kinds)).to_batches()


def movielens_films(path: Path) -> pa.Table:
    """The films of u.item (`|`, Latin-1), movies.dat (`::`, Latin-1 or UTF-8) or movies.csv."""
    if path.suffix == ".csv":
        cells = _cells(path, "movieId", "title", "genres")
        rows = [(_number(film, path), title, genres) for film, title, genres in cells]
    else:
        film = _film if path.suffix == ".dat" else _film_100k
        rows = [film(line, path) for line in _lines(path)]
    if not rows:
        raise DataError(f"source: {path.name} has no films; fetch it again")
    items, titles, genres = zip(*rows, strict=True)
    text = pa.large_string()
    return pa.table({"item": items, "title": pa.array(titles, text), "genres": pa.array(genres, text)})


def with_years(films: pa.Table) -> pa.Table:
    """With a column of the years that titles of MovieLens end in."""
    years = [int(found[1]) if (found := YEAR.search(title or "")) else None for title in films["title"].to_pylist()]
    return films.append_column("year", pa.array(years, pa.int16()))


def _lines(path: Path) -> list[str]:
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


def _number(cell: str, path: Path) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", cell):  # what 64 bits hold
        raise DataError(f"source: {path.name} has {cell[:200]!r} where the number of an item should be; fetch it again")
    return int(cell)


def _film(line: str, path: Path) -> tuple[int, str, str]:
    number, _, rest = line.partition("::")
    title, separator, genres = rest.rpartition("::")
    if not separator:
        raise DataError(f"source: {path.name} has a line that is not 'id::title::genres': {line[:200]!r}")
    return _number(number, path), title, genres


def _film_100k(line: str, path: Path) -> tuple[int, str, str]:
    cells = line.split("|")
    if len(cells) != 5 + len(GENRES_100K):
        raise DataError(f"source: {path.name} has a line without id, title and 19 genres: {line[:200]!r}")
    genres = [name for name, flag in zip(GENRES_100K, cells[5:], strict=True) if flag == "1"]
    return _number(cells[0], path), cells[1], "|".join(genres)


def jester_sheet(path: Path, first_user: int) -> pa.Table:
    """Ratings of an .xls sheet: a row for each user, the number of their ratings, then 100 jokes; 99: none."""
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
    if not np.array_equal(rated.sum(axis=1), cells[:, 0]):
        at = int(np.flatnonzero(rated.sum(axis=1) != cells[:, 0])[0]) + 1
        raise DataError(f"source: row {at} of {path.name} does not have as many ratings as it says; fetch it again")
    users, items = np.nonzero(rated)
    return pa.table({"user": users + first_user, "item": items + 1, "rating": cells[:, 1:][rated]})


def joke_text(page: str) -> str:
    """The text of a joke from its HTML page."""
    inside = re.search(r"<!--begin of joke\s*-->(.*?)<!--end of joke\s*-->", page, re.DOTALL | re.IGNORECASE)
    bare = re.sub(r"<[^>]*>", " ", inside.group(1) if inside else page)
    return " ".join(html.unescape(bare).split())


def lines(paths: Iterable[Path], what: str) -> Iterator[bytes]:
    """The text of files in pieces of whole lines, without the blank ones, which editors and copying leave behind."""
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


def blocks(paths: Iterable[Path], header: re.Pattern[bytes], what: str) -> Iterator[tuple[bytes, Any, Any]]:
    """Take apart text in which a header line comes before each block of lines.

    The header's first group is a number; a second one, if there is one, says how many lines are to follow.

    Yields:
        The lines without headers, and for these the headers' numbers and how many lines each has.
    """
    owner, missing = -1, 0
    for whole in lines(paths, what):
        heads = list(header.finditer(whole))
        ends = np.flatnonzero(np.frombuffer(whole, np.uint8) == ord("\n"))
        starts = [0, *(head.end() for head in heads)]
        stops = [*(head.start() for head in heads), len(whole)]
        counts = np.searchsorted(ends, stops) - np.searchsorted(ends, starts)
        owners = np.array([owner, *(int(head.group(1)) for head in heads)])
        if counts[0] and owner < 0:
            raise DataError(f"source: {what} begins without a header line; is it the original file?")
        if header.groups > 1:
            told = [missing, *(int(head.group(2)) for head in heads)]
            short = np.array(told) - counts
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


def netflix_batches(paths: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    """Blocks `film:` of lines `user,rating,date`."""
    kinds = {"user": pa.int64(), "rating": pa.float32(), "timestamp": pa.date32()}
    what = "the training set"
    for body, films, counts in blocks(paths, re.compile(rb"(?m)^(\d{1,18}):[ \t]*\r?\n"), what):
        table = _parsed(body, kinds, ",", what).append_column("item", pa.array(np.repeat(films, counts)))
        yield from table.select(["user", "item", "rating", "timestamp"]).to_batches()


def yahoo_batches(path: Path) -> Iterator[pa.RecordBatch]:
    r"""Blocks `user|n` of n lines `item\tscore\tday\thh:mm:ss` (KDD Cup 2011)."""
    kinds = {"item": pa.int64(), "rating": pa.float32(), "day": pa.int32(), "clock": pa.time32("s")}
    header = re.compile(rb"(?m)^(\d{1,18})\|(\d{1,18})[ \t]*\r?\n")
    for body, users, counts in blocks([path], header, path.name):
        table = _parsed(body, kinds, "\t", path.name).append_column("user", pa.array(np.repeat(users, counts)))
        days = table["day"].cast(pa.int64())
        seconds = pc.add(pc.multiply(days, 86_400), table["clock"].cast(pa.int32()).cast(pa.int64()))
        table = table.append_column("timestamp", seconds)
        yield from table.select(["user", "item", "rating", "timestamp"]).to_batches()


def _parsed(body: bytes, kinds: dict[str, Any], delimiter: str, what: str, only: list[str] | None = None) -> pa.Table:
    try:
        return arrow_csv.read_csv(
            BytesIO(body),
            read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: kind for name, kind in kinds.items() if kind is not None}, include_columns=only
            ),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"source: {what} is damaged ({error}); fetch it again") from None


def restaurant_places(path: Path) -> pa.Table:
    """The columns placeID, name, city and country of geoplaces2.csv (Latin-1)."""
    names = ("name", "city", "country")
    rows = list(_cells(path, "placeID", *names))
    columns = {"item": pa.array([_number(row[0], path) for row in rows], pa.int64())}
    for at, name in enumerate(names, 1):
        columns[name] = pa.array([row[at] for row in rows], pa.large_string())
    return pa.table(columns)


def netflix_titles(path: Path) -> pa.Table:
    """`film,year,title` in Latin-1; a title may have commas, a year may be NULL."""
    rows = [line.split(",", 2) for line in _lines(path)]
    if any(len(row) != 3 for row in rows):
        raise DataError(f"source: {path.name} has a line that is not 'film,year,title'")
    years = [int(year) if re.fullmatch(r"[0-9]{1,4}", year) else None for _, year, _ in rows]
    return pa.table({
        "item": pa.array([_number(film, path) for film, _, _ in rows], pa.int64()),
        "title": pa.array([title for _, _, title in rows], pa.large_string()),
        "year": pa.array(years, pa.int32()),
    })  # fmt: skip
