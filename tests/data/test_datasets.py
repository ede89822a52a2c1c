"""Loaders of the published data sets, on small files in exactly the published formats, and on the real data."""

import gzip
import http.server
import io
import logging
import os
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import xlwt

import discreet
from discreet.data import archives, formats
from discreet.data.archives import Download
from discreet.data.datasets import CATALOG
from discreet.errors import DataError, MissingExtra

REAL = Path(os.environ.get("DISCREET_DATA") or Path(__file__).parents[3] / "shared" / "data")


def real(name: str) -> Path:
    if not (REAL / name).exists():
        pytest.skip(f"the real data {name} is not at hand: set DISCREET_DATA to a folder that has it")
    return REAL / name


@pytest.fixture(autouse=True)
def _no_data_at_hand(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests find only what they make, unless they ask for the real data."""
    if "on_real_data" not in request.node.name:
        monkeypatch.setenv("DISCREET_DATA", str(tmp_path / "home"))
    else:
        monkeypatch.setenv("DISCREET_DATA", str(REAL))
    monkeypatch.setattr(archives, "_told", set())


def zipped(path: Path, **files: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return path


# MovieLens

U_DATA = "196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t242\t1\t878887116\n"
FLAGS = "|".join("1" if at in (5, 14) else "0" for at in range(19))
U_ITEM = (
    f"242|Kolya (1996)|24-Jan-1997||http://us.imdb.com/M/title-exact?Kolya%20(1996)|{FLAGS}\n"
    f"302|L.A. Confidential (1997)|01-Jan-1997||http://us.imdb.com/x|{'|'.join(['0'] * 18 + ['1'])}\n"
    f"1|Les Misérables (1995)|||http://us.imdb.com/y|{'|'.join(['1'] + ['0'] * 18)}\n"
).encode("latin-1")
RATINGS_DAT = "1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n"
MOVIES_1M = (
    "661::James and the Giant Peach (1996)::Animation|Children's|Musical\n1193::Misérables, Les (1995)::Drama\n"
).encode("latin-1")
RATINGS_10M = "1::122::5::838985046\n1::185::4.5::838983525\n3::122::0.5::1136075500\n"
MOVIES_10M = (
    "122::Boomerang (1992)::Comedy|Romance\n185::Mission: Impossible :: Café (1996)::Action\n"
    "9::Unrated::(no genres listed)\n"
)
RATINGS_CSV = "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,0.5,1112484676\n7,2,5.0,1112484819\n"
MOVIES_CSV = (
    'movieId,title,genres\n2,Jumanji (1995),Adventure|Children\n29,"City of Lost Children, The (Cité) (1995)",Drama\n'
)


def ml_100k(path: Path) -> Path:
    return zipped(path, **{"ml-100k__u.data": U_DATA, "ml-100k__u.item": U_ITEM, "ml-100k__u1.base": "junk"})


def test_movielens_100k(tmp_path: Path) -> None:
    ratings = discreet.datasets.movielens("100k", source=ml_100k(tmp_path / "ml-100k.zip"))
    assert ratings.users.to_list() == [22, 186, 196]
    assert ratings.history(196) == {242: 3.0}
    assert ratings.items.to_list() == [242, 302]  # the rated ones
    assert ratings.catalogue.column("title") == ["Kolya (1996)", "L.A. Confidential (1997)"]
    assert ratings.catalogue.column("genres") == ["Comedy|Romance", "Western"]
    assert ratings.catalogue.column("year") == [1996, 1997]
    assert ratings.times is not None
    assert ratings.times.tolist() == [878887116, 891717742, 881250949]
    ratings.require_public()
    every = discreet.datasets.movielens("100k", source=tmp_path / "ml-100k.zip", items="all")
    assert every.catalogue.column("title")[2] == "Les Misérables (1995)"  # Latin-1
    assert every.n_items == 3


def test_movielens_folds(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"u.data": U_DATA, "u.item": U_ITEM, "u1.test": U_DATA.splitlines(keepends=True)[1]}
    archive = zipped(tmp_path / "ml-100k.zip", **files)
    train, valid, test = discreet.datasets.movielens_folds("u1", source=archive)
    assert (len(train), len(valid), len(test)) == (2, 0, 1)
    assert test.history(186) == {302: 3.0}
    with pytest.raises(DataError, match=r"u2\.test is not there"):
        discreet.datasets.movielens_folds("u2", source=archive)
    with pytest.raises(DataError, match="one of u1"):
        discreet.datasets.movielens_folds("u9")


def test_movielens_1m(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", **{"ml-1m__ratings.dat": RATINGS_DAT, "ml-1m__movies.dat": MOVIES_1M})
    ratings = discreet.datasets.movielens("1m", source=archive)
    assert ratings.history(1) == {661: 3.0, 1193: 5.0}
    assert ratings.catalogue.column("title") == ["James and the Giant Peach (1996)", "Misérables, Les (1995)"]
    assert ratings.value_range == (1.0, 5.0)


def test_movielens_10m(tmp_path: Path) -> None:
    folder = tmp_path / "ml-10M100K"
    folder.mkdir()
    (folder / "ratings.dat").write_text(RATINGS_10M)
    (folder / "movies.dat").write_text(MOVIES_10M, encoding="utf-8")
    ratings = discreet.datasets.movielens("10m", source=folder)
    assert ratings.history(1) == {122: 5.0, 185: 4.5}
    assert ratings.history(3) == {122: 0.5}
    assert ratings.catalogue.column("title") == ["Boomerang (1992)", "Mission: Impossible :: Café (1996)"]


@pytest.mark.parametrize("size", ["20m", "25m", "32m", "latest-small"])
def test_movielens_csv(size: str, tmp_path: Path) -> None:
    files = {f"ml-{size}__ratings.csv": RATINGS_CSV, f"ml-{size}__movies.csv": MOVIES_CSV}
    ratings = discreet.datasets.movielens(size, source=zipped(tmp_path / "a.zip", **files))
    assert ratings.history(1) == {2: 3.5, 29: 0.5}
    assert ratings.catalogue.column("title")[1] == "City of Lost Children, The (Cité) (1995)"
    assert ratings.value_range == (0.5, 5.0)


def test_a_rating_out_of_range_is_an_error(tmp_path: Path) -> None:
    files = {"ratings.dat": RATINGS_DAT + "9::661::7::978300760\n", "movies.dat": MOVIES_1M}
    with pytest.raises(DataError, match=r"row 4 \(user 9, item 661\) has the value 7, which is outside value_range"):
        discreet.datasets.movielens("1m", source=zipped(tmp_path / "a.zip", **files))


def test_damaged_movielens_files(tmp_path: Path) -> None:
    good = ml_100k(tmp_path / "good.zip")
    (tmp_path / "cut.zip").write_bytes(good.read_bytes()[:200])
    with pytest.raises(DataError, match=r"not a whole zip.*fetch it again"):
        discreet.datasets.movielens("100k", source=tmp_path / "cut.zip")
    data = bytearray(good.read_bytes())
    data[60:75] = bytes(15)
    (tmp_path / "flipped.zip").write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        discreet.datasets.movielens("100k", source=tmp_path / "flipped.zip")
    with pytest.raises(DataError, match=r"u.data or ratings.dat or ratings.csv is not there"):
        discreet.datasets.movielens("100k", source=zipped(tmp_path / "no.zip", **{"u.item": U_ITEM}))
    for name, files in {
        "line.zip": {"ratings.dat": "1::2::3\n", "movies.dat": MOVIES_1M},
        "film.zip": {"ratings.dat": RATINGS_DAT, "movies.dat": "rubbish\n"},
        "item.zip": {"u.data": U_DATA, "u.item": "1|two\n"},
        "unknown.zip": {"ratings.dat": "1::999::3::4\n", "movies.dat": MOVIES_1M},
    }.items():
        with pytest.raises(DataError, match=r"source|items"):
            discreet.datasets.movielens("1m", source=zipped(tmp_path / name, **files))
    with pytest.raises(DataError, match="there is no file"):
        discreet.datasets.movielens("1m", source=tmp_path / "nothing.zip")
    for wrong in ({"size": "2m"}, {"items": "some"}):
        with pytest.raises(DataError, match="is needed"):
            discreet.datasets.movielens(**wrong)


def test_an_archive_cannot_write_outside(tmp_path: Path) -> None:
    files = {"..__..__ratings.dat": RATINGS_DAT, "__etc__movies.dat": MOVIES_1M}
    with archives.opened(zipped(tmp_path / "a.zip", **files), "*.dat") as folder:
        assert sorted(path.name for path in folder.iterdir()) == ["movies.dat", "ratings.dat"]
    assert not folder.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


# Jester


def jester_xls(path: Path, rows: list[list[float]]) -> Path:
    book = xlwt.Workbook()
    sheet = book.add_sheet("jester-data-1-new")
    for at, cells in enumerate(rows):
        for column, cell in enumerate(cells):
            sheet.write(at, column, cell)
    book.save(str(path))
    return path


def jester_row(ratings: dict[int, float]) -> list[float]:
    return [len(ratings), *(ratings.get(joke, 99) for joke in range(1, 101))]


def test_jester(tmp_path: Path) -> None:
    sheet = jester_xls(tmp_path / "jester-data-1.xls", [jester_row({1: -7.82, 100: 10.0}), jester_row({2: 8.79})])
    page = "<html><!--begin of joke -->\nA <b>man</b> &amp; a\ndoctor<P>\n<!--end of joke --></html>"
    assert formats.joke_text(page) == "A man & a doctor"
    for source in (sheet, zipped(tmp_path / "jester_dataset_1_1.zip", **{"jester-data-1.xls": sheet.read_bytes()})):
        ratings = discreet.datasets.jester(source=source)
        assert ratings.history(1) == pytest.approx({1: -7.82, 100: 10.0})
        assert ratings.history(2) == pytest.approx({2: 8.79})
        assert ratings.value_range == (-10.0, 10.0)
        assert ratings.rescale(0, 5).history(1) == pytest.approx({1: (10 - 7.82) / 4, 100: 5.0})


def test_jester_parts_follow_one_another(tmp_path: Path) -> None:
    home = tmp_path / "home" / "jester"
    home.mkdir(parents=True)
    jester_xls(home / "jester-data-1.xls", [jester_row({1: 1.0}), jester_row({2: 2.0})])
    jester_xls(home / "jester-data-2.xls", [jester_row({3: 3.0})])
    (home / "init3.html").write_text("<!--begin of joke -->Ha<!--end of joke -->")
    ratings = discreet.datasets.jester()
    assert ratings.users.to_list() == [1, 2, 3]
    assert ratings.history(3) == {3: 3.0}
    assert ratings.catalogue.column("text") == [None, None, "Ha"]
    assert discreet.datasets.jester(parts=(2,)).users.to_list() == [1]


def test_damaged_jester_files(tmp_path: Path) -> None:
    wrong = [jester_row({1: 1.0}), [5, *jester_row({2: 2.0})[1:]]]
    with pytest.raises(DataError, match=r"row 2 of jester-data-1.xls does not have as many ratings as it says"):
        discreet.datasets.jester(source=jester_xls(tmp_path / "jester-data-1.xls", wrong))
    (tmp_path / "jester-data-2.xls").write_bytes(b"not a sheet")
    with pytest.raises(DataError, match=r"not a whole \.xls"):
        discreet.datasets.jester(source=tmp_path / "jester-data-2.xls")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no jester-data-1\.xls"):
        discreet.datasets.jester(source=tmp_path / "empty")


def test_jester_needs_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xlrd", None)
    with pytest.raises(MissingExtra, match=r"discreet\[excel\]"):
        discreet.datasets.jester(source=jester_xls(tmp_path / "jester-data-1.xls", [jester_row({1: 1.0})]))


# Restaurant

RATING_FINAL = (
    "userID,placeID,rating,food_rating,service_rating\nU1077,135085,2,2,2\nU1077,135038,0,2,1\nU1068,135085,1,0,1\n"
)
PLACES = (
    "placeID,latitude,longitude,the_geom_meter,name,address,city,state,country\n"
    "135085,22.1,-100.9,01,Tortas Locas,?,s.l.p.,?,mexico\n"
    '135038,22.2,-101,02,"Café, El",?,?,?,?\n'
).encode("latin-1")


@pytest.mark.parametrize("nested", [False, True])
def test_restaurant(tmp_path: Path, nested: bool) -> None:
    inner = zipped(tmp_path / "RCdata.zip", **{"rating_final.csv": RATING_FINAL, "geoplaces2.csv": PLACES})
    source = zipped(tmp_path / "uci.zip", **{"RCdata.zip": inner.read_bytes()}) if nested else inner
    ratings = discreet.datasets.restaurant(source=source)
    assert ratings.users.to_list() == ["U1068", "U1077"]
    assert ratings.history("U1077") == {135085: 2.0, 135038: 0.0}
    assert dict(zip(ratings.items, ratings.catalogue.column("name"), strict=True)) == {
        135085: "Tortas Locas", 135038: "Café, El",
    }  # fmt: skip
    (tmp_path / "rating_final.csv").write_text(RATING_FINAL)
    assert len(discreet.datasets.restaurant(source=tmp_path / "rating_final.csv")) == 3


# Netflix

FILM_1 = "1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n"
FILM_2 = "2:\n1488844,4,2005-09-07\n885013,1,2005-10-19"
TITLES = "1,2003,Dinosaur Planet\n2,NULL,Héros, Le: A Film, with Commas\n3,1997,Unrated\n".encode("latin-1")


def check_netflix(ratings: discreet.Interactions) -> None:
    assert ratings.users.to_list() == [822109, 885013, 1488844]
    assert ratings.history(1488844) == {1: 3.0, 2: 4.0}
    assert ratings.catalogue.column("title") == ["Dinosaur Planet", "Héros, Le: A Film, with Commas"]
    assert ratings.catalogue.column("year") == [2003, None]
    assert str(ratings.to_arrow()["timestamp"][0]) == "2005-05-13"


def test_netflix_files_of_each_film(tmp_path: Path) -> None:
    (tmp_path / "training_set").mkdir()
    (tmp_path / "training_set" / "mv_0000001.txt").write_text(FILM_1)
    (tmp_path / "training_set" / "mv_0000002.txt").write_text(FILM_2.replace("\n", "\r\n"))
    (tmp_path / "movie_titles.txt").write_bytes(TITLES)
    check_netflix(discreet.datasets.netflix(source=tmp_path))


def test_netflix_combined_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "combined_data_1.txt").write_text(FILM_1 + FILM_2)
    (tmp_path / "movie_titles.csv").write_bytes(TITLES)
    check_netflix(discreet.datasets.netflix(source=tmp_path))
    for size in (1, 5, 13, 40):  # blocks and lines across pieces
        monkeypatch.setattr(formats, "PIECE", size)
        check_netflix(discreet.datasets.netflix(source=tmp_path))


def test_netflix_original_archive(tmp_path: Path) -> None:
    def tar(files: dict[str, bytes]) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, data in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return out.getvalue()

    inner = tar({"training_set/mv_0000001.txt": FILM_1.encode(), "training_set/mv_0000002.txt": FILM_2.encode()})
    whole = tar({"download/training_set.tar": inner, "download/movie_titles.txt": TITLES})
    home = tmp_path / "home"
    home.mkdir()
    (home / "nf_prize_dataset.tar.gz").write_bytes(gzip.compress(whole))
    check_netflix(discreet.datasets.netflix())  # found where it is looked for
    (home / "nf_prize_dataset.tar.gz").write_bytes(gzip.compress(whole)[:-300])
    with pytest.raises(DataError, match="fetch it again"):
        discreet.datasets.netflix()


def test_damaged_netflix_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mv_\*\.txt"):
        discreet.datasets.netflix(source=tmp_path)
    (tmp_path / "combined_data_1.txt").write_text("1488844,3,2005-09-06\n")
    with pytest.raises(DataError, match="begins without a header line"):
        discreet.datasets.netflix(source=tmp_path)
    (tmp_path / "combined_data_1.txt").write_text("1:\n1488844,three,2005-09-06\n")
    with pytest.raises(DataError, match="damaged"):
        discreet.datasets.netflix(source=tmp_path)
    (tmp_path / "combined_data_1.txt").write_text(FILM_1)
    (tmp_path / "movie_titles.txt").write_text("rubbish\n")
    with pytest.raises(DataError, match="film,year,title"):
        discreet.datasets.netflix(source=tmp_path)


# Yahoo! Music

YAHOO = (
    "0|3\n507696\t90\t2341\t18:16:00\n137915\t90\t2341\t18:15:00\n81059\t0\t2341\t23:19:00\n"
    "1|1\n507696\t50\t5\t00:00:01\n"
)


def test_yahoo_music(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trainIdx1.txt").write_text(YAHOO)
    for source in (tmp_path, tmp_path / "trainIdx1.txt"):
        ratings = discreet.datasets.yahoo_music(source=source)
        assert ratings.history(0) == {81059: 0.0, 137915: 90.0, 507696: 90.0}
        assert ratings.history(1) == {507696: 50.0}
        assert ratings.times is not None
        assert ratings.times[-1] == 5 * 86_400 + 1
        assert ratings.rescale(0, 5).history(1) == {507696: 2.5}
    monkeypatch.setattr(formats, "PIECE", 9)
    assert discreet.datasets.yahoo_music(source=tmp_path) == ratings


def test_damaged_yahoo_files(tmp_path: Path) -> None:
    (tmp_path / "trainIdx1.txt").write_text(YAHOO.replace("0|3", "0|4"))
    with pytest.raises(DataError, match="for 0 it announces 1 lines more than there are"):
        discreet.datasets.yahoo_music(source=tmp_path)
    lines = YAHOO.splitlines(keepends=True)
    (tmp_path / "trainIdx1.txt").write_text("".join(lines[:2]))
    with pytest.raises(DataError, match="ends 2 lines too early"):
        discreet.datasets.yahoo_music(source=tmp_path)
    (tmp_path / "trainIdx1.txt").write_text("".join(lines[:3]) + lines[3][:8])
    with pytest.raises(DataError, match="damaged"):
        discreet.datasets.yahoo_music(source=tmp_path)


# Where files come from


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    folder = tmp_path / "server"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{httpd.server_port}", folder
        finally:
            httpd.shutdown()
            thread.join()


def test_download_with_a_checksum(server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, folder = server
    archive = ml_100k(folder / "ml-100k.zip")
    digest = sha256(archive.read_bytes()).hexdigest()
    right = replace(CATALOG["ml-100k"], downloads=(Download(f"{url}/ml-100k.zip", f"sha256:{digest}"),))
    wrong = replace(right, downloads=(Download(f"{url}/ml-100k.zip", f"sha256:{'0' * 64}"),))
    gone = replace(right, downloads=(Download(f"{url}/none.zip", None),))
    for data, message in ((wrong, "not the file it should be"), (gone, r"could not be fetched.*none\.zip.*source=")):
        monkeypatch.setitem(CATALOG, "ml-100k", data)
        with pytest.raises(DataError, match=message):
            discreet.datasets.movielens("100k")
        assert not list((tmp_path / "home").glob("*.zip"))
    monkeypatch.setitem(CATALOG, "ml-100k", right)
    ratings = discreet.datasets.movielens("100k")
    assert (tmp_path / "home" / "ml-100k.zip").exists()
    archive.unlink()
    assert discreet.datasets.movielens("100k") == ratings  # not fetched twice


def test_every_download_has_a_checksum_but_two() -> None:
    without = [data.name for data in CATALOG.values() for source in data.downloads if source.checksum is None]
    assert without == ["ml-latest-small", "restaurant"]  # none is published for these
    sums = [source.checksum for data in CATALOG.values() for source in data.downloads if source.checksum]
    assert all(len(text) == {"md5": 36, "sha256": 71}[text.split(":")[0]] for text in sums)
    assert len(set(sums)) == len(sums)


def test_data_that_nobody_may_hand_out() -> None:
    for load in (discreet.datasets.netflix, discreet.datasets.yahoo_music):
        with pytest.raises(DataError, match=r"cannot be downloaded.*source=.*DISCREET_DATA"):
            load()


def test_the_license_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive = ml_100k(tmp_path / "a.zip")
    with caplog.at_level(logging.WARNING, "discreet"):
        discreet.datasets.movielens("100k", source=archive)
        discreet.datasets.movielens("100k", source=archive)
    assert sum("may not be redistributed" in record.getMessage() for record in caplog.records) == 1


def test_data_sets_by_name() -> None:
    for name in ("ml-1m", "1m"):
        assert discreet.datasets.find(name).interactions == 1_000_209
    with pytest.raises(DataError, match="there is no data set 'lastfm'; there are ml-100k, ml-1m"):
        discreet.datasets.load("lastfm")


def test_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert archives.cache_folder() == tmp_path / "home"
    assert archives.folders() == []  # and none is made by looking
    monkeypatch.delenv("DISCREET_DATA")
    assert "discreet" in str(archives.cache_folder())


# The real data


@pytest.mark.parametrize(
    ("name", "counts"),
    [("ml-100k", (100_000, 943, 1_682)), ("ml-1m", (1_000_209, 6_040, 3_706)), ("restaurant", (1_161, 138, 130))],
)
def test_counts_on_real_data(name: str, counts: tuple[int, int, int]) -> None:
    real(f"{name}.parquet")
    ratings = discreet.datasets.load(name)
    assert (len(ratings), ratings.n_users, ratings.n_items) == counts
    assert counts == (CATALOG[name].interactions, CATALOG[name].users, CATALOG[name].items)
    ratings.require_public()


def test_jester_on_real_data() -> None:
    real("jester-1.parquet")
    ratings = discreet.datasets.jester()
    assert (len(ratings), ratings.n_users, ratings.n_items) == (1_810_455, 24_983, 100)
    assert ratings.history(1)[1] == pytest.approx(-7.82)
    assert ratings.catalogue.column("text")[0].startswith("A man visits the doctor")
    assert float(ratings.values.min()) == pytest.approx(-9.95)


def test_movielens_titles_on_real_data() -> None:
    real("ml-1m.parquet")
    ratings = discreet.datasets.movielens("1m")
    assert ratings.catalogue.column("title")[0] == "Toy Story (1995)"
    assert discreet.datasets.movielens("1m", items="all").n_items == 3_883


@pytest.mark.parametrize(("name", "size"), [("u1", 20_000), ("u5", 20_000), ("ua", 9_430), ("ub", 9_430)])
def test_folds_on_real_data(name: str, size: int) -> None:
    table = pq.read_table(real("ml-100k.parquet"))
    train, valid, test = discreet.datasets.movielens_folds(name)
    assert (len(train), len(valid), len(test)) == (100_000 - size, 0, size)
    marked = table["fold"].to_numpy() == int(name[1]) if name[1].isdigit() else table[f"{name}_test"].to_numpy() == 1
    cells = table["user"].to_numpy().astype(int) * 2000 + table["item"].to_numpy()
    found = test.to_arrow()
    assert set(found["user"].to_numpy() * 2000 + found["item"].to_numpy().astype(int)) == set(cells[marked])


def test_the_format_of_movielens_10m_on_real_data(tmp_path: Path) -> None:
    """A true prefix of MovieLens 10M, written as the original files are, comes back the same."""
    table = pq.read_table(real("ml-10m-first1000users.parquet"))
    films = pq.read_table(real("ml-10m-movies.parquet"))
    columns = [table[name].to_numpy() for name in ("user", "item", "rating", "timestamp")]
    with (tmp_path / "ratings.dat").open("w") as file:
        for user, item, half, time in zip(*columns, strict=True):
            file.write(f"{user}::{item}::{half / 2:g}::{time}\n")
    with (tmp_path / "movies.dat").open("w", encoding="utf-8") as file:
        for row in films.to_pylist():
            file.write(f"{row['item']}::{row['title']}::{row['genres']}\n")
    ratings = discreet.datasets.movielens("10m", source=tmp_path)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (132_830, 1_000, 6_736)
    assert np.array_equal(ratings.values, columns[2] / 2)  # the file is sorted as we sort
    assert np.array_equal(ratings.times, columns[3])  # type: ignore[arg-type]
    titles = dict(zip(films["item"].to_pylist(), films["title"].to_pylist(), strict=True))
    assert ratings.catalogue.column("title") == [titles[item] for item in ratings.items]


@pytest.mark.parametrize("size", [1, None, "", "2m", ("1m",)])
def test_a_size_that_there_is_not(size: Any) -> None:
    with pytest.raises(DataError, match="size: one of 100k"):
        discreet.datasets.movielens(size)


def test_parts_of_jester_that_are_not_at_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "home" / "jester"
    home.mkdir(parents=True)
    sheet = jester_xls(home / "jester-data-1.xls", [jester_row({1: 1.0})])
    discreet.datasets.jester()
    assert "found and loaded only 1 of its 3 parts" in caplog.text
    caplog.clear()
    discreet.datasets.jester(source=sheet)  # the caller's choice
    discreet.datasets.jester(parts=(1,))
    assert "parts" not in caplog.text
    with pytest.raises(DataError, match=r"parts: some of \(1, 2, 3\)"):
        discreet.datasets.jester(parts=(4,))
