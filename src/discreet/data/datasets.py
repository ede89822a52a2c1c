"""The data sets of the papers, from their original files, and generated ones.

Nothing is downloaded or created until a loader is called. A loader takes, in this order: the file given as
`source=`; what is in the folder named by DISCREET_DATA (or in the platform's cache, or in ../shared/data beside
a checkout), either the original archive or a parquet table of the same name; a download.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data import archives, formats
from discreet.data.archives import Download
from discreet.data.catalogue import Catalogue, observed_items_are_public
from discreet.data.interactions import Interactions
from discreet.data.movielens_like import movielens_like
from discreet.data.readers import read
from discreet.data.sources import Table
from discreet.data.synthetic import one_bit, rank_one, synthetic_low_rank
from discreet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CATALOG",
    "DataSet",
    "jester",
    "load",
    "movielens",
    "movielens_like",
    "netflix",
    "one_bit",
    "rank_one",
    "restaurant",
    "synthetic_low_rank",
    "yahoo_music",
]

Path_ = str | os.PathLike[str] | None
MOVIELENS_LICENCE = (
    "MovieLens (Harper and Konstan 2015) is for research; it may not be redistributed, nor used for revenue "
    "without permission. See https://grouplens.org/datasets/movielens"
)
PUBLISHED = "those rated in the published data set"


@dataclass(frozen=True)
class DataSet:
    """What is known about a data set without having it."""

    name: str
    title: str
    interactions: int
    users: int
    items: int
    value_range: tuple[float, float]
    licence: str
    downloads: tuple[Download, ...] = ()  # empty: nobody may hand it out, bring your own file

    def where(self) -> Path | None:
        """The file or folder at hand, if there is one."""
        files = [f"{self.name}.parquet", *(source.file for source in self.downloads), *_OTHER_NAMES.get(self.name, ())]
        return archives.at_hand(*files)


def _movielens(name: str, md5: str | None, counts: tuple[int, int, int], low: float) -> DataSet:
    url = f"https://files.grouplens.org/datasets/movielens/{name}.zip"
    checksum = None if md5 is None else f"md5:{md5}"
    title = f"MovieLens {name.removeprefix('ml-')}"
    return DataSet(name, title, *counts, (low, 5.0), MOVIELENS_LICENCE, (Download(url, checksum),))


_JESTER = "https://eigentaste.berkeley.edu/dataset/jester_dataset_1_"
_OTHER_NAMES = {
    "ml-10m": ("ml-10M100K",),
    **{f"ml-{size}": (f"ml-{size}",) for size in ("100k", "1m", "20m", "25m", "32m", "latest-small")},
    "jester": ("jester-1.parquet", "jester"),
    "restaurant": ("restaurant",),
    "netflix": ("nf_prize_dataset.tar.gz", "netflix"),
    "yahoo-music": ("yahoo-music",),
}
CATALOG: dict[str, DataSet] = {
    data.name: data
    for data in (
        _movielens("ml-100k", "0e33842e24a9c977be4e0107933c0723", (100_000, 943, 1_682), 1.0),
        _movielens("ml-1m", "c4d9eecfca2ab87c1945afe126590906", (1_000_209, 6_040, 3_706), 1.0),
        _movielens("ml-10m", "ce571fd55effeba0271552578f2648bd", (10_000_054, 69_878, 10_677), 0.5),
        _movielens("ml-20m", "cd245b17a1ae2cc31bb14903e1204af3", (20_000_263, 138_493, 26_744), 0.5),
        _movielens("ml-25m", "6b51fb2759a8657d3bfcbfc42b592ada", (25_000_095, 162_541, 59_047), 0.5),
        _movielens("ml-32m", "d472be332d4daa821edc399621853b57", (32_000_204, 200_948, 84_432), 0.5),
        # Replaced by its publisher now and then, so it has neither checksum nor lasting counts.
        _movielens("ml-latest-small", None, (100_836, 610, 9_724), 0.5),
        DataSet(
            "jester", "Jester 1", 4_136_360, 73_421, 100, (-10.0, 10.0),
            "Jester (Goldberg et al. 2001) is free for research with citation. See https://eigentaste.berkeley.edu",
            (
                Download(_JESTER + "1.zip", "sha256:cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615"),
                Download(_JESTER + "2.zip", "sha256:4d312fd824d8c8cb2c9c952a7b1fb7c00d1f5fd3ece370f7285aa701d371748b"),
                Download(_JESTER + "3.zip", "sha256:7f548d3762d3506cf7cd37d8cb9e3adb67984a7da7aa2d2096d5e0b1b884758d"),
            ),
        ),
        DataSet(
            "restaurant", "Restaurant & consumer data", 1_161, 138, 130, (0.0, 2.0),
            "Restaurant & consumer data (UCI, Vargas-Govea et al. 2011), CC BY 4.0",
            (Download("https://archive.ics.uci.edu/static/public/232/restaurant+consumer+data.zip", None),),
        ),
        DataSet(
            "netflix", "Netflix prize", 100_480_507, 480_189, 17_770, (1.0, 5.0),
            "The Netflix prize data were withdrawn; their terms allow research only and no redistribution",
        ),
        DataSet(
            "yahoo-music", "Yahoo! Music (KDD Cup 2011, track 1)", 262_810_175, 1_000_990, 624_961, (0.0, 100.0),
            "Yahoo! Webscope data are for academic research under a signed agreement, and may not be passed on",
        ),
    )
}  # fmt: skip


def known(name: str) -> bool:
    """Whether a name is that of a data set, with or without the "ml-" of MovieLens."""
    return name in CATALOG or f"ml-{name}" in CATALOG


def find(name: str) -> DataSet:
    """A data set by its name, with or without the "ml-" of MovieLens."""
    if not known(name):
        raise DataError(f"name: there is no data set {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name if name in CATALOG else f"ml-{name}"]


def load(name: str, source: Path_ = None) -> Interactions:
    """Load a data set by its name, with or without the "ml-" of MovieLens."""
    key = find(name).name
    if key.startswith("ml-"):
        return movielens(key, source=source)
    loaders = {"jester": jester, "restaurant": restaurant, "netflix": netflix, "yahoo-music": yahoo_music}
    return loaders[key](source=source)


def movielens(size: str = "1m", *, source: Path_ = None, items: str = "rated") -> Interactions:
    """MovieLens ratings, with titles and genres of the films as the catalogue.

    Args:
        size: "100k", "1m", "10m", "20m", "25m", "32m" or "latest-small".
        source: The original archive or its folder, if it is not where it is looked for.
        items: "rated" for the films with at least one rating, as the papers count them; "all" for all films
            in the archive.
    """
    name = size if size.startswith("ml-") else f"ml-{size}"
    if name not in CATALOG:
        sizes = ", ".join(key.removeprefix("ml-") for key in CATALOG if key.startswith("ml-"))
        raise DataError(f"size: one of {sizes} is needed, not {size!r}")
    if items not in ("rated", "all"):
        raise DataError(f"items: 'rated' or 'all' is needed, not {items!r}")
    data = CATALOG[name]
    path = _locate(data, source)
    if path.suffix == ".parquet":
        films = _parquet(path.with_name(f"{path.stem}-items.parquet"))
        return _read(_parquet(path), data, films, items)
    files = ("u.data", "u.item", "ratings.dat", "movies.dat", "ratings.csv", "movies.csv")
    with archives.opened(path, *files) as folder:
        films = formats.movielens_films(archives.need(folder, "u.item", "movies.dat", "movies.csv"))
        ratings = archives.need(folder, "u.data", "ratings.dat", "ratings.csv")
        return _read(formats.movielens_select(ratings), data, films, items)


def jester(*, source: Path_ = None, parts: tuple[int, ...] | None = None) -> Interactions:
    """Jester 1: ratings of 100 jokes, from -10 to 10. `.rescale(0, 5)` gives the scale of Frank-Wolfe (2018).

    Args:
        source: A jester-data-*.xls file, its archive, or a folder of them.
        parts: Which of the three parts to take, for instance (1,), the first 24,983 users. By default those
            that are at hand; if none is, all three are downloaded.
    """
    data = CATALOG["jester"]
    chosen = parts or (1, 2, 3)
    path = Path(source) if source is not None else archives.at_hand("jester-1.parquet", "jester")
    archives.tell_licence(data.name, data.licence)
    if path is not None and path.suffix == ".parquet" and chosen in ((1,), (1, 2, 3)):
        jokes = path.with_name("jester-jokes.parquet")
        return _read(_parquet(path), data, _parquet(jokes) if jokes.exists() else None)
    found: list[Path] = [path] if path is not None else []
    if path is None or path.suffix == ".parquet":
        local = [archives.at_hand(data.downloads[part - 1].file) for part in chosen]
        some = [file for file in local if file is not None]
        found = some if some and parts is None else [archives.download(data.downloads[part - 1]) for part in chosen]
    return _jester_files(found, data, chosen)


def _jester_files(paths: list[Path], data: DataSet, parts: tuple[int, ...]) -> Interactions:
    import pyarrow as pa

    tables: list[pa.Table] = []
    texts: dict[int, str] = {}
    first = 1
    for path in paths:
        with archives.opened(path.parent if path.suffix == ".xls" else path, ".xls", ".html") as folder:
            names = [path.name] if path.suffix == ".xls" else [f"jester-data-{part}.xls" for part in parts]
            for sheet in filter(None, (archives.find(folder, name) for name in names)):
                tables.append(formats.jester_sheet(sheet, first))
                first = int(tables[-1]["user"][-1].as_py()) + 1
            for page in folder.rglob("init*.html"):
                texts[int(page.stem.removeprefix("init"))] = formats.joke_text(page.read_text("latin-1"))
    if not tables:
        raise DataError("source: there is no jester-data-1.xls, -2.xls or -3.xls in it; give the original archive")
    jokes = pa.table({"item": list(range(1, 101))})
    if texts:
        jokes = jokes.append_column("text", pa.array([texts.get(joke) for joke in range(1, 101)], pa.large_string()))
    return _read(pa.concat_tables(tables), data, jokes)


def restaurant(*, source: Path_ = None) -> Interactions:
    """Restaurant & consumer data: 0, 1 or 2 stars for restaurants, with their names as the catalogue.

    Args:
        source: The original archive, its folder, or rating_final.csv.
    """
    data = CATALOG["restaurant"]
    path = _locate(data, source)
    if path.suffix == ".parquet":
        return _read(_parquet(path), data, None)
    with archives.opened(path.parent if path.suffix == ".csv" else path, ".csv", ".zip") as folder:
        inner = archives.find(folder, "*.zip") if archives.find(folder, "rating_final.csv") is None else None
        if inner is not None:  # the archive of the archive
            return restaurant(source=inner)
        ratings = archives.need(folder, "rating_final.csv")
        places = archives.find(folder, "geoplaces2.csv")
        names = None if places is None else formats.restaurant_places(places)
        query = f'SELECT "userID" AS user, "placeID" AS item, rating FROM read_csv(\'{_sql(ratings)}\', header = true)'
        return _read(query, data, names)


def netflix(*, source: Path_ = None) -> Interactions:
    """The Netflix prize: 1 to 5 stars, with titles and years of the films as the catalogue.

    Args:
        source: nf_prize_dataset.tar.gz, or a folder or archive with mv_*.txt or combined_data_*.txt in it.
    """
    data = CATALOG["netflix"]
    path = _locate(data, source)
    with archives.opened(path, ".txt", "movie_titles.csv") as folder:
        files = sorted(folder.rglob("combined_data_*.txt")) or sorted(folder.rglob("mv_*.txt"))
        if not files:
            raise DataError("source: neither mv_*.txt nor combined_data_*.txt is there; give the original archive")
        titles = archives.find(folder, "movie_titles.txt", "movie_titles.csv")
        films = None if titles is None else formats.netflix_titles(titles)
        batches = formats.netflix_batches(_texts(files), "the training set")
        return _read(_table(batches, data.title), data, films)


def yahoo_music(*, source: Path_ = None) -> Interactions:
    """Yahoo! Music of the KDD Cup 2011: scores from 0 to 100. `.rescale(0, 5)` is what Frank-Wolfe (2018) used.

    Args:
        source: trainIdx1.txt, or a folder or archive with it in it.
    """
    data = CATALOG["yahoo-music"]
    path = _locate(data, source)
    with archives.opened(path.parent if path.suffix == ".txt" else path, ".txt") as folder:
        name = path.name if path.suffix == ".txt" else "trainIdx*.txt"
        files = [archives.need(folder, name)]
        return _read(_table(formats.yahoo_batches(_texts(files), files[0].name), data.title), data, None)


def _locate(data: DataSet, source: Path_) -> Path:
    """The file to load: given, at hand, or downloaded."""
    archives.tell_licence(data.name, data.licence)
    if source is not None:
        path = Path(source).expanduser()
        if not path.exists():
            raise DataError(f"source: there is no file or folder {str(path)!r}")
        return path
    found = data.where()
    if found is not None:
        return found
    if not data.downloads:
        raise cannot_download(data)
    return archives.download(data.downloads[0])


def cannot_download(data: DataSet) -> DataError:
    """The error for data that nobody may hand out."""
    return DataError(
        f"{data.title} cannot be downloaded. If you have its original archive, pass its path as source=, or put it "
        f"into the folder named by {archives.ENVIRONMENT}"
    )


def _read(source: Any, data: DataSet, catalogue: pa.Table | None, items: str = "rated") -> Interactions:
    """Read ratings over a table of items; keep those that are rated."""
    given: Any = observed_items_are_public
    if catalogue is not None:
        whole = Catalogue.read(catalogue, item="item")
        given = Catalogue(whole.ids, whole.columns, origin="all those of the published data set")
    timed = {"time": "timestamp"} if "timestamp" in _names(source) else {"time": None}
    ratings = read(source, user="user", item="item", value="rating", items=given, value_range=data.value_range, **timed)
    if items == "rated":
        ratings = ratings.of_items(np.unique(ratings.indices))
        rated = Catalogue(ratings.items, ratings.catalogue.columns, origin=PUBLISHED)
        ratings = replace(ratings, catalogue=rated)
    report = replace(ratings.report, source=data.title, library=None)
    return replace(ratings, report=report)


def _names(source: Any) -> list[str]:
    if isinstance(source, str):
        return ["timestamp"] if "timestamp" in source else []
    return list(source.names if isinstance(source, Table) else source.schema.names)


def _parquet(path: Path) -> pa.Table:
    """A table in the folder of parquet files; its note says in which unit its ratings are."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"source: {str(path)!r} is not a whole parquet file ({error})") from None
    note = (table.schema.metadata or {}).get(b"note", b"")
    unit = 2 if b"half-stars" in note else 100 if b"hundredths" in note else 1
    if unit > 1:
        at = table.schema.get_field_index("rating")
        table = table.set_column(at, "rating", pc.divide(table["rating"].cast(pa.float64()), float(unit)))
    return table.replace_schema_metadata(None)


def _texts(files: list[Path]) -> Iterator[bytes]:
    for file in files:
        last = b"\n"
        for piece in formats.pieces(file):
            last = piece
            yield piece
        if not last.endswith(b"\n"):
            yield b"\n"  # the next file's header must start a line


def _table(batches: Iterator[pa.RecordBatch], what: str) -> Table:
    names = ["user", "item", "rating", "timestamp"]
    return Table(what, names, lambda wanted: (batch.select(wanted) for batch in batches))


def _sql(path: Path) -> str:
    return str(path).replace("'", "''")
