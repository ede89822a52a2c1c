"""The data sets of the papers, from their original files, and generated ones.

Nothing is downloaded or created until a loader is called. A loader uses, in this order: the file given as `source=`;
the original archive, or a parquet table of the same name, in the folder named by DISCREET_DATA or in the platform's
cache; a download.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from discreet.data import archives, formats
from discreet.data.archives import Download
from discreet.data.catalogue import Catalogue, observed_items_are_public
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.sources import Table
from discreet.data.splits import Parts
from discreet.data.synthetic import movielens_like, one_bit, rank_one, synthetic_low_rank
from discreet.errors import DataError

log = logging.getLogger("discreet")

__all__ = [
    "CATALOG", "DataSet", "find", "jester", "known", "load", "movielens", "movielens_folds", "movielens_like",
    "netflix", "one_bit", "rank_one", "restaurant", "synthetic_low_rank", "yahoo_music",
]  # fmt: skip

Path_ = str | os.PathLike[str] | None
FOLDS = ("u1", "u2", "u3", "u4", "u5", "ua", "ub")
JOKES = {str(joke) for joke in range(1, 101)}


MOVIELENS_LICENSE = (
    "MovieLens (Harper and Konstan 2015) is for research; it may not be redistributed, nor used for revenue "
    "without permission. See https://grouplens.org/datasets/movielens"
)


@dataclass(frozen=True)
class DataSet:
    """What is known about a data set without having it."""

    name: str
    title: str
    interactions: int
    users: int
    items: int
    value_range: tuple[float, float]
    license: str
    downloads: tuple[Download, ...] = ()  # empty: it may not be redistributed
    alias: str | None = None  # another name that its file or folder may have

    @property
    def files(self) -> tuple[str, ...]:
        """The names that its file or folder may have."""
        alias = () if self.alias is None else (self.alias,)
        return (f"{self.name}.parquet", *(source.file for source in self.downloads), *alias, self.name)

    def where(self) -> Path | None:
        """The file or folder of the data, if it was found."""
        return archives.available(*self.files)


def _movielens(
    size: str, md5: str | None, counts: tuple[int, int, int], low: float, alias: str | None = None
) -> DataSet:
    url = f"https://files.grouplens.org/datasets/movielens/ml-{size}.zip"
    downloads = (Download(url, None if md5 is None else f"md5:{md5}"),)
    return DataSet(f"ml-{size}", f"MovieLens {size}", *counts, (low, 5.0), MOVIELENS_LICENSE, downloads, alias)


_JESTER = "https://eigentaste.berkeley.edu/dataset/jester_dataset_1_"
CATALOG: dict[str, DataSet] = {
    data.name: data
    for data in (
        _movielens("100k", "0e33842e24a9c977be4e0107933c0723", (100_000, 943, 1_682), 1.0),
        _movielens("1m", "c4d9eecfca2ab87c1945afe126590906", (1_000_209, 6_040, 3_706), 1.0),
        _movielens("10m", "ce571fd55effeba0271552578f2648bd", (10_000_054, 69_878, 10_677), 0.5, "ml-10M100K"),
        _movielens("20m", "cd245b17a1ae2cc31bb14903e1204af3", (20_000_263, 138_493, 26_744), 0.5),
        _movielens("25m", "6b51fb2759a8657d3bfcbfc42b592ada", (25_000_095, 162_541, 59_047), 0.5),
        _movielens("32m", "d472be332d4daa821edc399621853b57", (32_000_204, 200_948, 84_432), 0.5),
        # Replaced by its publisher now and then, so it has neither checksum nor lasting counts.
        _movielens("latest-small", None, (100_836, 610, 9_724), 0.5),
        DataSet(
            "jester", "Jester 1", 4_136_360, 73_421, 100, (-10.0, 10.0),
            "Jester (Goldberg et al. 2001) is free for research with citation. See https://eigentaste.berkeley.edu",
            (
                Download(_JESTER + "1.zip", "sha256:cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615"),
                Download(_JESTER + "2.zip", "sha256:4d312fd824d8c8cb2c9c952a7b1fb7c00d1f5fd3ece370f7285aa701d371748b"),
                Download(_JESTER + "3.zip", "sha256:7f548d3762d3506cf7cd37d8cb9e3adb67984a7da7aa2d2096d5e0b1b884758d"),
            ),
            "jester-1.parquet",
        ),
        DataSet(
            "restaurant", "Restaurant & consumer data", 1_161, 138, 130, (0.0, 2.0),
            "Restaurant & consumer data (UCI, Vargas-Govea et al. 2011), CC BY 4.0",
            (Download("https://archive.ics.uci.edu/static/public/232/restaurant+consumer+data.zip", None),),
        ),
        DataSet(
            "netflix", "Netflix prize", 100_480_507, 480_189, 17_770, (1.0, 5.0),
            "The Netflix prize data were withdrawn; their terms allow research only and no redistribution",
            alias="nf_prize_dataset.tar.gz",
        ),
        DataSet(
            "yahoo-music", "Yahoo! Music (KDD Cup 2011, track 1)", 262_810_175, 1_000_990, 624_961, (0.0, 100.0),
            "Yahoo! Webscope data are for academic research under a signed agreement, and may not be passed on",
        ),
    )
}  # fmt: skip


def known(name: str) -> bool:
    """Whether there is a data set of this name, with or without the "ml-" of MovieLens."""
    return name in CATALOG or f"ml-{name}" in CATALOG


def find(name: str) -> DataSet:
    """A data set by its name, with or without the "ml-" of MovieLens."""
    if not known(name):
        raise DataError(f"name: there is no data set {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name if name in CATALOG else f"ml-{name}"]


def cannot_download(data: DataSet) -> DataError:
    """The error for data that may not be redistributed."""
    return DataError(
        f"{data.title} cannot be downloaded. If you have its original archive, pass its path as source=, or put it "
        f"into the folder named by {archives.ENVIRONMENT}"
    )


# Loaders


def load(name: str, source: Path_ = None) -> Interactions:
    """Load a data set by its name, with or without the "ml-" of MovieLens."""
    key = find(name).name
    if key.startswith("ml-"):
        return movielens(key, source=source)
    loaders = {"jester": jester, "restaurant": restaurant, "netflix": netflix, "yahoo-music": yahoo_music}
    return loaders[key](source=source)


def movielens(size: str = "1m", *, source: Path_ = None, items: str = "rated") -> Interactions:
    """MovieLens ratings, with titles, genres and years of the films as the catalog.

    Args:
        size: "100k", "1m", "10m", "20m", "25m", "32m" or "latest-small".
        source: The original archive or its folder; by default it is searched for.
        items: "rated" for the films with at least one rating, as the papers count them; "all" for all films
            in the archive.
    """
    name = f"ml-{str(size).removeprefix('ml-')}"
    if name not in CATALOG:
        sizes = ", ".join(key.removeprefix("ml-") for key in CATALOG if key.startswith("ml-"))
        raise DataError(f"size: one of {sizes} is needed, not {size!r}")
    if items not in ("rated", "all"):
        raise DataError(f"items: 'rated' or 'all' is needed, not {items!r}")
    data = CATALOG[name]
    path = _locate(data, source)
    if path.suffix == ".parquet":
        films = _parquet(path.with_name(f"{path.stem}-items.parquet"))
        return _read(_parquet(path), data, formats.with_years(films), items)
    files = ("u.data", "u.item", "ratings.dat", "movies.dat", "ratings.csv", "movies.csv")
    with archives.opened(path, *files) as folder:
        films = formats.movielens_films(archives.need(folder, "u.item", "movies.dat", "movies.csv"))
        ratings = archives.need(folder, "u.data", "ratings.dat", "ratings.csv")
        return _read(formats.movielens_ratings(ratings), data, formats.with_years(films), items)


def movielens_folds(name: str = "u1", *, source: Path_ = None) -> Parts:
    """The splits that come with MovieLens 100k, as `(train, valid, test)` with an empty `valid`.

    Args:
        name: "u1" to "u5", where each rating is in one of the five tests; "ua" or "ub", with 10 ratings of each user
            in the test.
        source: The original archive or its folder; by default it is searched for.
    """
    if name not in FOLDS:
        raise DataError(f"name: one of {', '.join(FOLDS)} is needed, not {name!r}")
    ratings = movielens("100k", source=source)
    path = _locate(CATALOG["ml-100k"], source)
    if path.suffix == ".parquet":
        table = _parquet(path)
        column = f"{name}_test" if f"{name}_test" in table.column_names else "fold"
        chosen = table[column].to_numpy() == (1 if column != "fold" else int(name[1]))
        test = _read(table.filter(chosen), CATALOG["ml-100k"], ratings.catalogue.to_arrow(), "all")
    else:
        with archives.opened(path, f"{name}.test") as folder:
            table = formats.movielens_ratings(archives.need(folder, f"{name}.test"))
            test = _read(table, CATALOG["ml-100k"], ratings.catalogue.to_arrow(), "all")
    owners = ratings.users.numbers(test.users.to_arrow())[test.user_numbers()]
    pairs = ratings.user_numbers().astype(np.int64) * ratings.n_items + ratings.indices
    tested = np.isin(pairs, owners * ratings.n_items + test.indices)
    return Parts(ratings.where(~tested), ratings.where(np.zeros_like(tested)), ratings.where(tested))


def jester(*, source: Path_ = None, parts: tuple[int, ...] | None = None) -> Interactions:
    """Jester 1: ratings of 100 jokes, from -10 to 10. `.rescale(0, 5)` gives the scale of Frank-Wolfe (2018).

    Args:
        source: A jester-data-*.xls file, its archive, or a folder of them.
        parts: Which of the three parts to take, for instance (1,), the first 24,983 users. By default those
            that are found; if there are none, all three are downloaded.
    """
    data = CATALOG["jester"]
    chosen = parts or (1, 2, 3)
    if not set(chosen) <= {1, 2, 3}:
        raise DataError(f"parts: some of (1, 2, 3) are needed, not {parts!r}")
    path = Path(source) if source is not None else archives.available("jester-1.parquet", "jester")
    archives.tell_license(data.name, data.license)
    if path is not None and path.suffix == ".parquet" and (parts is None or chosen == (1,)):
        _tell_parts(1 if parts is None and source is None else 3)
        jokes = path.with_name("jester-jokes.parquet")
        return _read(_parquet(path), data, _parquet(jokes) if jokes.exists() else None)
    found: list[Path] = [path] if path is not None else []
    if path is None or path.suffix == ".parquet":
        downloads = [data.downloads[part - 1] for part in chosen]
        local = [file for one in downloads if (file := archives.available(one.file)) is not None]
        found = local if local and parts is None else [archives.download(one) for one in downloads]
    return _jester_files(found, data, chosen, whole=parts is None and source is None)


def _tell_parts(n: int) -> None:
    if n < 3:
        count = f"{n} of its 3 parts"
        log.warning("jester: found and loaded only %s; pass parts=(1, 2, 3) to download all", count)


def _jester_files(paths: list[Path], data: DataSet, parts: tuple[int, ...], *, whole: bool) -> Interactions:
    tables: list[pa.Table] = []
    texts: dict[int, str] = {}
    first = 1
    for path in paths:
        is_sheet = path.suffix == ".xls"
        names = [path.name] if is_sheet else [f"jester-data-{part}.xls" for part in parts]
        with archives.opened(path.parent if is_sheet else path, "jester-data-*.xls", "init*.html") as folder:
            for sheet in filter(None, (archives.find(folder, name) for name in names)):
                tables.append(formats.jester_sheet(sheet, first))
                first = int(tables[-1]["user"][-1].as_py()) + 1
            for page in folder.rglob("init*.html"):
                if (joke := page.stem.removeprefix("init")) in JOKES:
                    texts[int(joke)] = formats.joke_text(page.read_text("latin-1"))
    if not tables:
        raise DataError("source: it contains no jester-data-1.xls, -2.xls or -3.xls; give the original archive")
    _tell_parts(len(tables) if whole else 3)
    jokes = pa.table({"item": list(range(1, 101))})
    if texts:
        jokes = jokes.append_column("text", pa.array([texts.get(joke) for joke in range(1, 101)], pa.large_string()))
    return _read(pa.concat_tables(tables), data, jokes)


def restaurant(*, source: Path_ = None) -> Interactions:
    """Restaurant & consumer data: 0, 1 or 2 stars for restaurants, with their names as the catalog.

    Args:
        source: The original archive, its folder, or rating_final.csv.
    """
    data = CATALOG["restaurant"]
    path = _locate(data, source)
    if path.suffix == ".parquet":
        return _read(_parquet(path), data)
    files = ("rating_final.csv", "geoplaces2.csv")
    with archives.opened(path.parent if path.suffix == ".csv" else path, *files) as folder:
        ratings = formats.restaurant_ratings(archives.need(folder, "rating_final.csv"))
        places = archives.find(folder, "geoplaces2.csv")
        return _read(ratings, data, None if places is None else formats.restaurant_places(places))


def netflix(*, source: Path_ = None) -> Interactions:
    """The Netflix prize: 1 to 5 stars, with titles and years of the films as the catalog.

    Args:
        source: nf_prize_dataset.tar.gz, or a folder or archive that contains `mv_*.txt` or `combined_data_*.txt`.
    """
    data = CATALOG["netflix"]
    path = _locate(data, source)
    titles_of = ("movie_titles.txt", "movie_titles.csv")
    with archives.opened(path, "mv_*.txt", "combined_data_*.txt", *titles_of) as folder:
        files = sorted(folder.rglob("combined_data_*.txt")) or sorted(folder.rglob("mv_*.txt"))
        if not files:
            raise DataError("source: neither mv_*.txt nor combined_data_*.txt is there; give the original archive")
        titles = archives.find(folder, *titles_of)
        films = None if titles is None else formats.netflix_titles(titles)
        return _read(formats.netflix_ratings(files), data, films)


def yahoo_music(*, source: Path_ = None) -> Interactions:
    """Yahoo! Music of the KDD Cup 2011: scores from 0 to 100. `.rescale(0, 5)` is what Frank-Wolfe (2018) used.

    Args:
        source: trainIdx1.txt, or a folder or archive that contains it.
    """
    data = CATALOG["yahoo-music"]
    path = _locate(data, source)
    name = path.name if path.suffix == ".txt" else "trainIdx1.txt"
    with archives.opened(path.parent if path.suffix == ".txt" else path, name) as folder:
        return _read(formats.yahoo_ratings(archives.need(folder, name)), data)


def _locate(data: DataSet, source: Path_) -> Path:
    """The file to load: given, found, or downloaded."""
    archives.tell_license(data.name, data.license)
    if source is not None:
        path = Path(source).expanduser()
        if not path.exists():
            raise DataError(f"source: there is no file or folder {str(path)!r}")
        return path
    if (found := data.where()) is not None:
        return found
    if not data.downloads:
        raise cannot_download(data)
    return archives.download(data.downloads[0])


def _read(
    source: Table | pa.Table, data: DataSet, catalogue: pa.Table | None = None, items: str = "rated"
) -> Interactions:
    """Read ratings over a table of items; by default keep only the items that are rated."""
    given: Any = observed_items_are_public
    if catalogue is not None:
        given = Catalogue.read(catalogue, item="item").of_origin("all those of the published data set")
    names = (source.names or ()) if isinstance(source, Table) else source.schema.names
    time = "timestamp" if "timestamp" in names else None
    bounds = data.value_range
    ratings = read(source, user="user", item="item", value="rating", time=time, items=given, value_range=bounds)
    if items == "rated":
        ratings = ratings.of_items(np.unique(ratings.indices))
        ratings = replace(ratings, catalogue=ratings.catalogue.of_origin("those rated in the published data set"))
    return replace(ratings, report=replace(ratings.report, source=data.title, library=None))


def _parquet(path: Path) -> pa.Table:
    """A parquet table; the note in its metadata gives the unit of its ratings."""
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
