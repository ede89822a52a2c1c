"""The file formats in which the data sets of the papers were published."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import DataError, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = 1 << 24  # bytes of text parsed at a time
YEAR = re.compile(r"\((\d{4})\)\s*$")
GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip


def movielens_select(ratings: Path) -> str:
    """A SELECT for u.data (tabs), ratings.dat (`::`) or ratings.csv (commas, with a header in any order)."""
    kinds = {"user": "BIGINT", "item": "BIGINT", "rating": "FLOAT", "timestamp": "BIGINT"}
    if ratings.suffix == ".csv":
        names = {"userId": "user", "movieId": "item", "rating": "rating", "timestamp": "timestamp"}
        return _select(ratings, {name: kinds[names[name]] for name in _header(ratings, names)}, names, header=True)
    return _select(ratings, kinds, {name: name for name in kinds}, "::" if ratings.suffix == ".dat" else r"\t")


def restaurant_select(ratings: Path) -> str:
    """A SELECT for rating_final.csv."""
    names = {"userID": "user", "placeID": "item", "rating": "rating"}
    found = _header(ratings, names)
    kinds = {"placeID": "BIGINT", "rating": "FLOAT"}
    return _select(ratings, {name: kinds.get(name, "VARCHAR") for name in found}, names, header=True)


def _header(path: Path, needed: Iterable[str]) -> list[str]:
    """The columns of a CSV file, in its order."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        found = next(csv.reader(file), [])
    lost = [name for name in needed if name not in found]
    if lost:
        raise DataError(f"source: {path.name} has no column {lost[0]!r}; its columns are {found}")
    return found


def _select(path: Path, kinds: dict[str, str], names: dict[str, str], delim: str = ",", header: bool = False) -> str:
    """A SELECT that leaves nothing to be guessed."""
    file = str(path).replace("'", "''")
    columns = ", ".join(f"{name!r}: {kind!r}" for name, kind in kinds.items())
    asked = ", ".join(f'"{name}" AS {new}' for name, new in names.items())
    options = f"delim = '{delim}', header = {str(header).lower()}, quote = '', auto_detect = false"
    return f"SELECT {asked} FROM read_csv('{file}', columns = {{{columns}}}, {options})"


def movielens_films(path: Path) -> pa.Table:
    """The films of u.item (`|`, Latin-1), movies.dat (`::`, Latin-1 or UTF-8) or movies.csv."""
    import pyarrow as pa

    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            rows = [(int(row["movieId"]), row["title"], row["genres"]) for row in csv.DictReader(file)]
    elif path.suffix == ".dat":
        rows = [_film(line, path) for line in _lines(path)]
    else:
        rows = [_film_100k(line, path) for line in _lines(path)]
    items, titles, genres = zip(*rows, strict=True)
    text = pa.large_string()
    return pa.table({"item": items, "title": pa.array(titles, text), "genres": pa.array(genres, text)})


def with_years(films: pa.Table) -> pa.Table:
    """With a column of the years that titles of MovieLens end in."""
    import pyarrow as pa

    years = [int(found[1]) if (found := YEAR.search(title or "")) else None for title in films["title"].to_pylist()]
    return films.append_column("year", pa.array(years, pa.int16()))


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:  # the older files
        text = data.decode("latin-1")
    return [line for line in text.splitlines() if line.strip()]


def _film(line: str, path: Path) -> tuple[int, str, str]:
    number, _, rest = line.partition("::")
    title, separator, genres = rest.rpartition("::")
    if not separator or not number.isdigit():
        raise DataError(f"source: {path.name} has a line that is not 'id::title::genres': {line!r}")
    return int(number), title, genres


def _film_100k(line: str, path: Path) -> tuple[int, str, str]:
    cells = line.split("|")
    if len(cells) != 5 + len(GENRES_100K) or not cells[0].isdigit():
        raise DataError(f"source: {path.name} has a line without id, title and 19 genres: {line!r}")
    genres = [name for name, flag in zip(GENRES_100K, cells[5:], strict=True) if flag == "1"]
    return int(cells[0]), cells[1], "|".join(genres)


def jester_sheet(path: Path, first_user: int) -> pa.Table:
    """Ratings of an .xls sheet: a row for each user, the number of her ratings, then 100 jokes; 99: none."""
    import pyarrow as pa

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


def pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, a piece at a time."""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def blocks(text: Iterable[bytes], header: re.Pattern[bytes], what: str) -> Iterator[tuple[bytes, Any, Any]]:
    """Take apart text in which a header line comes before each block of lines.

    The header's first group is a number; a second one, if there is one, says how many lines are to follow.

    Yields:
        The lines without headers, and for these the headers' numbers and how many lines each has.
    """
    owner, rest, missing = -1, b"", 0
    for piece in chain(text, [None]):
        whole = rest + (piece or b"")
        cut = len(whole) if piece is None else whole.rfind(b"\n") + 1
        whole, rest = whole[:cut], whole[cut:]
        if piece is None and whole and not whole.endswith(b"\n"):
            whole += b"\n"
        if not whole:
            continue
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
                    f"source: {what} is damaged: for {owners[at]} it tells of {abs(int(short[at]))} lines "
                    f"{'more' if short[at] > 0 else 'fewer'} than there are; fetch it again"
                )
        owner = int(owners[-1])
        yield header.sub(b"", whole), owners, counts
    if missing:
        raise DataError(f"source: {what} ends {missing} lines too early; fetch it again")


def netflix_batches(text: Iterable[bytes], what: str) -> Iterator[pa.RecordBatch]:
    """Blocks `film:` of lines `user,rating,date`."""
    import pyarrow as pa

    kinds = {"user": pa.int64(), "rating": pa.float32(), "timestamp": pa.date32()}
    for body, films, counts in blocks(text, re.compile(rb"(?m)^(\d+):[ \t]*\r?\n"), what):
        table = _parsed(body, kinds, ",", what)
        if table is not None:
            table = table.append_column("item", pa.array(np.repeat(films, counts)))
            yield from table.select(["user", "item", "rating", "timestamp"]).to_batches()


def yahoo_batches(text: Iterable[bytes], what: str) -> Iterator[pa.RecordBatch]:
    r"""Blocks `user|n` of n lines `item\tscore\tday\thh:mm:ss` (KDD Cup 2011)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = {"item": pa.int64(), "rating": pa.float32(), "day": pa.int64(), "clock": pa.time32("s")}
    for body, users, counts in blocks(text, re.compile(rb"(?m)^(\d+)\|(\d+)\r?\n"), what):
        table = _parsed(body, kinds, "\t", what)
        if table is not None:
            seconds = pc.add(pc.multiply(table["day"], 86_400), table["clock"].cast(pa.int32()).cast(pa.int64()))
            table = table.append_column("user", pa.array(np.repeat(users, counts)))
            table = table.append_column("timestamp", seconds)
            yield from table.select(["user", "item", "rating", "timestamp"]).to_batches()


def _parsed(body: bytes, kinds: dict[str, Any], delimiter: str, what: str) -> pa.Table | None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    if not body.strip():
        return None
    try:
        return arrow_csv.read_csv(
            BytesIO(body),
            read_options=arrow_csv.ReadOptions(column_names=list(kinds)),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
            convert_options=arrow_csv.ConvertOptions(column_types=kinds),
        )
    except pa.ArrowInvalid as error:
        raise DataError(f"source: {what} is damaged ({error}); fetch it again") from None


def restaurant_places(path: Path) -> pa.Table:
    """The columns placeID, name, city and country of geoplaces2.csv (Latin-1)."""
    import pyarrow as pa

    rows = list(csv.DictReader(_lines(path)))
    columns = {"item": pa.array([int(row["placeID"]) for row in rows])}
    for name in ("name", "city", "country"):
        columns[name] = pa.array([row.get(name) for row in rows], pa.large_string())
    return pa.table(columns)


def netflix_titles(path: Path) -> pa.Table:
    """`film,year,title` in Latin-1; a title may have commas, a year may be NULL."""
    import pyarrow as pa

    rows = [line.split(",", 2) for line in _lines(path)]
    if any(len(row) != 3 or not row[0].isdigit() for row in rows):
        raise DataError(f"source: {path.name} has a line that is not 'film,year,title'")
    years = [int(year) if year.isdigit() else None for _, year, _ in rows]
    return pa.table({
        "item": [int(film) for film, _, _ in rows],
        "title": pa.array([title for _, _, title in rows], pa.large_string()),
        "year": pa.array(years, pa.int32()),
    })  # fmt: skip
