"""What is known about the published data sets without having them: counts, licences, where they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.data import archives
from discreet.data.archives import Download
from discreet.errors import DataError

MOVIELENS_LICENCE = (
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
    licence: str
    downloads: tuple[Download, ...] = ()  # empty: it may not be redistributed

    @property
    def files(self) -> tuple[str, ...]:
        """The names that its file or folder may have."""
        own = _OTHER_NAMES.get(self.name, ())
        return (f"{self.name}.parquet", *(source.file for source in self.downloads), *own)

    def where(self) -> Path | None:
        """The file or folder at hand, if there is one."""
        return archives.at_hand(*self.files)


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


def cannot_download(data: DataSet) -> DataError:
    """The error for data that may not be redistributed."""
    return DataError(
        f"{data.title} cannot be downloaded. If you have its original archive, pass its path as source=, or put it "
        f"into the folder named by {archives.ENVIRONMENT}"
    )
