"""The file formats in which the data sets of the papers were published."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from discreet.data.sources import Table
from discreet.errors import DataError, MissingExtra

PIECE = 1 << 24  # bytes of text parsed at a time
YEAR = re.compile(r"\((\d{4})\)\s*$")
NETFLIX = re.compile(rb"(?m)^(\d{1,18}):[ \t]*\r?\n")  # before the lines of a film
YAHOO = re.compile(rb"(?m)^(\d{1,18})\|\d+[ \t]*\r?\n")  # before the lines of a user, with their number
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
TEXT = pa.large_string()
RATING = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float32(), "timestamp": pa.int64()}


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Say which file is not what it should be."""
    try:
        yield
    except (pa.ArrowException, csv.Error, LookupError, ValueError, OverflowError) as error:
        raise DataError(f"source: {path.name} is damaged ({error}); fetch it again") from None


# Ratings


def movielens_ratings(path: Path) -> Table:
    """Lines of u.data (tabs), ratings.dat (`::`) or ratings.csv (commas, with a header in any order)."""
    if path.suffix == ".csv":
        return _with_header(path, dict(zip(("userId", "movieId", "rating", "timestamp"), RATING, strict=True)), RATING)
    delimiter, names = "\t", list(RATING)
    if path.suffix == ".dat":  # between the two colons of `::` is a column of nothing
        delimiter, names = ":", ["user", "", "item", " ", "rating", "  ", "timestamp"]
    options = {
        "read_options": arrow_csv.ReadOptions(column_names=names),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
    }
    return _streamed(path, RATING, options)


def restaurant_ratings(path: Path) -> Table:
    """Lines of rating_final.csv."""
    kinds = {"user": TEXT, "item": pa.int64(), "rating": pa.float32()}
    return _with_header(path, {"userID": "user", "placeID": "item", "rating": "rating"}, kinds)


def _with_header(path: Path, names: dict[str, str], kinds: dict[str, Any]) -> Table:
    """Some columns, renamed, of a file with commas and a header."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = [name.strip() for name in next(csv.reader(file), [])]
    if lost := [name for name in names if name not in header]:
        raise DataError(f"source: {path.name} has no column {lost[0]!r}, only {header[:9]}. Is it the original file?")
    options = {"read_options": arrow_csv.ReadOptions(skip_rows=1, column_names=[names.get(n, n) for n in header])}
    return _streamed(path, kinds, options)


def _streamed(path: Path, kinds: dict[str, Any], options: dict[str, Any]) -> Table:
    """Columns of a file as Arrow parses it."""

    def batches() -> Iterator[pa.RecordBatch]:
        converted = arrow_csv.ConvertOptions(column_types=kinds, include_columns=list(kinds))
        with whole(path):
            yield from arrow_csv.open_csv(path, convert_options=converted, **options)

    return _table(path.name, batches(), tuple(kinds))


def netflix_ratings(paths: Iterable[Path]) -> Table:
    """Blocks `film:` of lines `user,rating,date`."""
    kinds = {"user": pa.int64(), "rating": pa.float32(), "timestamp": pa.date32()}
    tables = (_headed(path, NETFLIX, "item", kinds, ",") for path in paths)
    return _table("Netflix prize", (batch for parts in tables for table in parts for batch in table.to_batches()))


def yahoo_ratings(path: Path) -> Table:
    r"""Blocks `user|n` of n lines `item\tscore\tday\thh:mm:ss` (KDD Cup 2011)."""
    kinds = {"item": pa.int64(), "rating": pa.float32(), "day": pa.int32(), "clock": pa.time32("s")}

    def batches() -> Iterator[pa.RecordBatch]:
        for table in _headed(path, YAHOO, "user", kinds, "\t"):
            clock = table["clock"].cast(pa.int32()).cast(pa.int64())
            time = pc.add(pc.multiply(table["day"].cast(pa.int64()), 86_400), clock)
            yield from table.append_column("timestamp", time).to_batches()

    return _table("Yahoo! Music", batches())


def _headed(
    path: Path, header: re.Pattern[bytes], name: str, kinds: dict[str, Any], delimiter: str
) -> Iterator[pa.Table]:
    """Tables of the lines of a file in which a header with a number comes before each block of them.

    The column `name` has the number of the last header before a line.
    """
    owner: int | None = None
    with whole(path), path.open("rb") as file:
        rest = b""
        while piece := file.read(PIECE) or (b"\n" if rest else b""):  # the last line may have no end
            lines, end, rest = (rest + piece).rpartition(b"\n")
            lines += end
            heads = list(header.finditer(lines))
            cuts = [0, *(edge for head in heads for edge in head.span()), len(lines)]
            counts = [lines.count(b"\n", *cuts[at : at + 2]) for at in range(0, len(cuts), 2)]
            if counts[0] and owner is None:
                raise DataError(f"source: {path.name} begins without a header line; is it the original file?")
            owners = [owner or 0, *(int(head[1]) for head in heads)]
            owner = owners[-1] if heads else owner
            body = header.sub(b"", lines)
            if body:
                table = arrow_csv.read_csv(
                    BytesIO(body),
                    read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
                    parse_options=arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
                    convert_options=arrow_csv.ConvertOptions(column_types=kinds),
                )
                yield table.append_column(name, pa.array(np.repeat(owners, counts)))


def _table(what: str, batches: Iterator[pa.RecordBatch], names: tuple[str, ...] = tuple(RATING)) -> Table:
    return Table(what, names, lambda wanted: (batch.select(wanted.names) for batch in batches))


def jester_sheet(path: Path, first_user: int) -> pa.Table:
    """The ratings of an .xls sheet: one row per user, with the number of ratings and 100 jokes; 99 means no rating."""
    try:
        import xlrd
    except ImportError:
        raise MissingExtra("reading Jester's .xls files", "excel") from None
    try:
        sheet = xlrd.open_workbook(str(path), on_demand=True).sheet_by_index(0)
        cells = np.array([sheet.row_values(row) for row in range(sheet.nrows)], dtype=np.float64)
        rated = cells[:, 1:] != 99
    except (xlrd.XLRDError, ValueError, IndexError) as error:
        raise DataError(f"source: {path.name} is not a whole .xls sheet of numbers ({error}); fetch it again") from None
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
    with whole(path):
        if path.suffix == ".csv":
            rows = [(row["movieId"], row["title"], row["genres"]) for row in csv.DictReader(_lines(path))]
        elif path.suffix == ".dat":  # a title may have `::`
            parted = [(line.partition("::"), line.rpartition("::")) for line in _lines(path)]
            rows = [(first[0], last[0].partition("::")[2], last[2]) for first, last in parted]
        else:
            rows = [_film_100k(line.split("|")) for line in _lines(path)]
        return _items(rows, "title", "genres")


def _film_100k(cells: list[str]) -> tuple[str, str, str]:
    genres = [name for name, flag in zip(GENRES_100K, cells[5:], strict=True) if flag == "1"]
    return cells[0], cells[1], "|".join(genres)


def with_years(films: pa.Table) -> pa.Table:
    """Add a column of the years that MovieLens titles end in."""
    years = [int(found[1]) if (found := YEAR.search(title or "")) else None for title in films["title"].to_pylist()]
    return films.append_column("year", pa.array(years, pa.int16()))


def restaurant_places(path: Path) -> pa.Table:
    """The columns placeID, name, city and country of geoplaces2.csv (Latin-1)."""
    names = ("name", "city", "country")
    with whole(path):
        return _items([(row["placeID"], *map(row.get, names)) for row in csv.DictReader(_lines(path))], *names)


def netflix_titles(path: Path) -> pa.Table:
    """`film,year,title` in Latin-1; a title may have commas, a year may be NULL."""
    with whole(path):
        rows = [line.split(",", 2) for line in _lines(path)]
        years = [int(year) if re.fullmatch(r"[0-9]{1,4}", year) else None for _, year, _ in rows]
        titles = _items([(film, title) for film, _, title in rows], "title")
        return titles.append_column("year", pa.array(years, pa.int32()))


def joke_text(page: str) -> str:
    """The text of a joke from its HTML page."""
    inside = re.search(r"<!--begin of joke\s*-->(.*?)<!--end of joke\s*-->", page, re.DOTALL | re.IGNORECASE)
    bare = re.sub(r"<[^>]*>", " ", inside.group(1) if inside else page)
    return " ".join(html.unescape(bare).split())


def _items(rows: list[Any], *names: str) -> pa.Table:
    """A table from rows of an item's number and its texts."""
    number, *texts = zip(*rows, strict=True)
    columns = {name: pa.array(column, TEXT) for name, column in zip(names, texts, strict=True)}
    return pa.table({"item": pa.array(list(map(int, number)), pa.int64()), **columns})


def _lines(path: Path) -> list[str]:
    """The lines of a small file, without the blank ones."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:  # the older files
        text = data.decode("latin-1")
    return [line for line in re.split(r"\r?\n", text) if line.strip()]
