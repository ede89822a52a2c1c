"""Archives that are hostile, damaged or packed in an odd way, and files that are not what their names say."""

import bz2
import errno
import gzip
import io
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import discreet
from discreet.data import archives, formats
from discreet.errors import DataError
from tests.data.test_datasets import (
    FILM_1,
    FILM_2,
    MOVIES_1M,
    MOVIES_CSV,
    PLACES,
    RATING_FINAL,
    RATINGS_CSV,
    RATINGS_DAT,
    U_DATA,
    U_ITEM,
    YAHOO,
    check_netflix,
    jester_row,
    jester_xls,
    zipped,
)


@pytest.fixture(autouse=True)
def _temporary_files_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whatever happens, nothing is left where archives are unpacked."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield
    assert list(place.iterdir()) == []


def names(path: Path, *wanted: str) -> list[str]:
    with archives.opened(path, *wanted) as folder:
        return sorted(file.name for file in folder.iterdir())


def tarred(*members: tuple[str | tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", errors="surrogateescape") as archive:
        for member, data in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def flagged(path: Path, offset: int, value: int) -> Path:
    """Change a byte in the header of a zip's only member, and in the list at the end, where it is 2 further on."""
    data = bytearray(path.read_bytes())
    data[offset] = data[data.index(b"PK\1\2") + offset + 2] = value
    return saved(path, bytes(data))


def test_an_encrypted_zip(tmp_path: Path) -> None:
    path = flagged(zipped(tmp_path / "a.zip", **{"u.data": U_DATA}), 6, 1)
    with pytest.raises(DataError, match=r"source: .*a\.zip' is encrypted; unpack it yourself and give the folder"):
        names(path, "u.data")


@pytest.mark.parametrize("method", [9, 99])  # Deflate64, AES
def test_a_method_that_is_not_known(tmp_path: Path, method: int) -> None:
    path = flagged(zipped(tmp_path / "a.zip", **{"u.data": U_DATA}), 8, method)
    with pytest.raises(DataError, match=r"packed in a way that cannot be read here .*; unpack it yourself"):
        names(path, "u.data")


def bomb(kind: str, size: int = 20 << 20) -> bytes:
    """Zeros, which pack to nearly nothing: more than an archive of this size may unpack to."""
    if kind == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("u.data", bytes(size))
        return out.getvalue()
    inner = tarred(("skipped" if kind == "skipped" else "u.data", bytes(size)))
    if kind == "nested":
        inner = tarred(("inner.tar", inner))
    pack: dict[str, Callable[[bytes], bytes]] = {"bz2": bz2.compress, "xz": lzma.compress}
    return pack.get(kind, gzip.compress)(inner)


@pytest.mark.parametrize("kind", ["zip", "gz", "bz2", "xz", "nested", "skipped"])
def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a", bomb(kind))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(shutil, "copyfileobj", lambda *_: pytest.fail("it was written"))
    with pytest.raises(DataError, match="unpacks to more than any published data set of its size does; if you trust"):
        names(path, "u.data")


def test_a_bomb_in_the_header_of_a_tar(tmp_path: Path) -> None:
    """The name of a member, which is read whole, may be long too."""
    info = tarfile.TarInfo("long")
    info.type = tarfile.GNUTYPE_LONGNAME
    with pytest.raises(DataError, match="unpacks to more than"):
        names(saved(tmp_path / "a", gzip.compress(tarred((info, b"x" * (20 << 20))))), "u.data")


def test_what_the_published_data_sets_need_is_allowed(tmp_path: Path) -> None:
    largest = max(discreet.datasets.CATALOG.values(), key=lambda data: data.interactions)
    assert 2 * 24 * largest.interactions < archives.UNPACKED
    assert 5 * discreet.datasets.CATALOG["netflix"].items < archives.MEMBERS
    assert names(saved(tmp_path / "a", bomb("gz", 15 << 20)), "u.data") == ["u.data"]  # little, whatever the ratio


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(archives, "MEMBERS", 5)
    for n in (5, 6):
        files = {f"u{at}.data": b"x" for at in range(n)}
        path = tmp_path / "a"
        path = zipped(path, **files) if kind == "zip" else saved(path, tarred(*files.items()))
        if n == 5:
            assert len(names(path, "*.data")) == 5
        else:
            with pytest.raises(DataError, match="has more than 5 members, which no published data set has"):
                names(path, "*.data")


@pytest.mark.parametrize("inner", ["zip", "tar"])
@pytest.mark.parametrize("outer", ["zip", "tar"])
def test_an_archive_in_an_archive_and_no_deeper(tmp_path: Path, inner: str, outer: str) -> None:
    def pack(kind: str, name: str, data: bytes) -> bytes:
        return tarred((name, data)) if kind == "tar" else zipped(tmp_path / "x", **{name: data}).read_bytes()

    once = pack(inner, "u.data", U_DATA.encode())
    twice = pack(outer, f"a.{inner}", once)
    assert names(saved(tmp_path / "a", twice), "u.data") == ["u.data"]
    with pytest.raises(DataError, match="an archive in an archive in an archive; unpack it yourself"):
        names(saved(tmp_path / "a", pack("zip", f"b.{outer}", twice)), "u.data")


@pytest.mark.parametrize("second", ["b/ratings.dat", "a/ratings.dat", "b\\ratings.dat", "a/Ratings.dat"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name(tmp_path: Path, second: str) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/ratings.dat", RATINGS_DAT)
        archive.writestr(second, RATINGS_DAT)
    other = saved(tmp_path / "a.tar", tarred(("a/ratings.dat", b"1"), (second, b"2")))
    for source in (path, other):
        with pytest.raises(
            DataError, match=r"has two files of one name, 'a/ratings\.dat' and .*; unpack the one you mean"
        ):
            names(source, "?atings.dat")


def test_two_files_of_one_name_in_a_folder(tmp_path: Path) -> None:
    for at in ("a", "b"):
        (tmp_path / "data" / at).mkdir(parents=True)
        (tmp_path / "data" / at / "movies.dat").write_bytes(MOVIES_1M)
        (tmp_path / "data" / at / "ratings.dat").write_text(RATINGS_DAT)
    with pytest.raises(DataError, match=r"has both 'a/movies\.dat' and 'b/movies\.dat'; give the folder of the one"):
        discreet.datasets.movielens("1m", source=tmp_path / "data")
    (tmp_path / "data" / "movies.dat").write_bytes(MOVIES_1M)
    (tmp_path / "data" / "ratings.dat").write_text(RATINGS_DAT.splitlines()[0])
    assert len(discreet.datasets.movielens("1m", source=tmp_path / "data")) == 1  # the one that is nearest


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("ml/u.data")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(
        DataError, match=r"has a link, a device or a file with holes, 'ml/u\.data', in place of a plain"
    ):
        names(saved(tmp_path / "a", tarred((info, b""))), "u.data")


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("u.data")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match=r"has a link, 'u\.data', in place of a file"):
        names(tmp_path / "a", "u.data")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    strange = b"\xff\xfe/\xe9".decode("utf-8", "surrogateescape")
    path = saved(tmp_path / "a", tarred((strange, b"x"), (f"{strange}/u.data", U_DATA.encode())))
    assert names(path, "u.data") == ["u.data"]


def test_a_wrong_checksum_or_a_cut_is_never_taken_for_the_whole(tmp_path: Path) -> None:
    tar = tarred(("u.data", U_DATA.encode()), ("u.item", U_ITEM))
    packed = gzip.compress(tar)
    wrong = bytearray(packed)
    wrong[-8] ^= 1  # the checksum at the end, behind all members
    stored = tmp_path / "stored.zip"
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("u.data", U_DATA)
    changed = stored.read_bytes().replace(b"881250949", b"881250940")
    for data in (bytes(wrong), packed[:-9], tar[:1024], tar[:700], lzma.compress(tar)[:-30], changed):
        with pytest.raises(DataError, match=r"damaged|not a whole"):
            names(saved(tmp_path / "a", data), "u.data", "u.item")


def test_a_full_disk_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(
        DataError, match=r"could not be unpacked into .* \(No space left on device\), and nothing was kept; make room"
    ):
        names(zipped(tmp_path / "a.zip", **{"u.data": U_DATA}), "u.data")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, 2000),
    new=st.binary(min_size=1, max_size=8),
    kind=st.sampled_from(["zip", "tar", "gz", "bz2", "xz"]),
)
def test_any_damage_is_an_error_or_none(tmp_path: Path, at: int, new: bytes, kind: str) -> None:
    members = (("ml/u.data", U_DATA.encode()), ("ml/u.item", U_ITEM))
    pack: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    tar = pack.get(kind, bytes)(tarred(*members))
    data = zipped(tmp_path / "x", **dict(members)).read_bytes() if kind == "zip" else tar
    at %= len(data)
    path = saved(tmp_path / "a", data[:at] + new + data[at + len(new) :])
    with suppress(DataError):
        assert set(names(path, "u.data", "u.item")) <= {"u.data", "u.item"}


# Lines


@pytest.mark.parametrize("blank", ["\n", "\r\n", " \t\n"])
def test_blank_lines_anywhere(tmp_path: Path, blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spread(text: str | bytes) -> bytes:
        lines = (text.encode() if isinstance(text, str) else text).splitlines(keepends=True)
        return b"".join(blank.encode() + line for line in lines) + b"\n" + blank.encode()

    for size in (1 << 20, 7, 1):  # also across pieces
        monkeypatch.setattr(formats, "PIECE", size)
        for of, files in {
            "100k": {"u.data": U_DATA, "u.item": U_ITEM},
            "1m": {"ratings.dat": RATINGS_DAT, "movies.dat": MOVIES_1M},
            "20m": {"ratings.csv": RATINGS_CSV, "movies.csv": MOVIES_CSV},
        }.items():
            plain = discreet.datasets.movielens(of, source=zipped(tmp_path / "a.zip", **files))
            loose = {name: spread(text) for name, text in files.items()}
            assert discreet.datasets.movielens(of, source=zipped(tmp_path / "b.zip", **loose)) == plain
        places = {"rating_final.csv": spread(RATING_FINAL), "geoplaces2.csv": spread(PLACES)}
        assert len(discreet.datasets.restaurant(source=zipped(tmp_path / "a.zip", **places))) == 3
        films = {"combined_data_1.txt": spread(FILM_1 + FILM_2)}
        ratings = discreet.datasets.netflix(source=zipped(tmp_path / "a.zip", **films))
        assert ratings.history(1488844) == {1: 3.0, 2: 4.0}
        assert ratings.history(885013) == {2: 1.0}
        ratings = discreet.datasets.yahoo_music(source=zipped(tmp_path / "a.zip", **{"trainIdx1.txt": spread(YAHOO)}))
        assert ratings.history(0) == {81059: 0.0, 137915: 90.0, 507696: 90.0}


HUGE = "9" * 30


@pytest.mark.parametrize(
    ("of", "files", "message"),
    [
        ("100k", {"u.item": b""}, r"u\.item has no films"),
        ("100k", {"u.data": bytes(range(256))}, r"u\.data is damaged"),
        ("100k", {"u.data": b"x" * (2 << 20)}, r"u\.data has a line of more than 1,048,576 bytes"),
        ("1m", {"ratings.dat": RATINGS_CSV}, r"ratings\.dat is damaged \(.*Expected 7 columns, got 1"),
        ("1m", {"ratings.dat": "1:x:2::3::4\n"}, r"ratings\.dat is damaged"),
        ("1m", {"movies.dat": f"{HUGE}::t::g\n"}, r"movies\.dat has '9+' where the number of an item should be"),
        ("1m", {"movies.dat": "²::t::g\n".encode()}, r"movies\.dat has '²' where the number"),
        ("20m", {"ratings.csv": bytes(range(256))}, r"ratings\.csv has no column 'userId'; its first line is"),
        ("20m", {"ratings.csv": RATINGS_CSV.replace("timestamp", "rating")}, r"more than one column 'rating'"),
        ("20m", {"movies.csv": "a,b\n1,2\n"}, r"line 2 of movies\.csv has no movieId"),
        ("20m", {"movies.csv": "movieId,title,genres\n2\n"}, r"line 2 of movies\.csv has no title"),
        ("20m", {"movies.csv": "movieId,title,genres\nx,y,z\n"}, r"movies\.csv has 'x' where the number"),
        (
            "20m",
            {"movies.csv": f"movieId,title,genres\n2,{'a' * 200_000},b\n"},
            r"movies\.csv is damaged \(field larger",
        ),
    ],
)
def test_files_that_are_something_else(tmp_path: Path, of: str, files: dict[str, Any], message: str) -> None:
    good: dict[str, dict[str, str | bytes]] = {
        "100k": {"u.data": U_DATA, "u.item": U_ITEM},
        "1m": {"ratings.dat": RATINGS_DAT, "movies.dat": MOVIES_1M},
        "20m": {"ratings.csv": RATINGS_CSV, "movies.csv": MOVIES_CSV},
    }
    with pytest.raises(DataError, match=f"^source: .*{message}"):
        discreet.datasets.movielens(of, source=zipped(tmp_path / "a.zip", **{**good[of], **files}))


@pytest.mark.parametrize(
    ("load", "files"),
    [
        ("restaurant", {"rating_final.csv": bytes(range(256))}),
        ("restaurant", {"rating_final.csv": RATING_FINAL, "geoplaces2.csv": "x,y\n1,2\n"}),
        ("netflix", {"mv_1.txt": f"{HUGE}:\n1,2,2005-01-01\n"}),
        ("netflix", {"mv_1.txt": FILM_1, "movie_titles.txt": f"{HUGE},1999,x\n"}),
        ("yahoo_music", {"trainIdx1.txt": f"{HUGE}|1\n1\t2\t3\t00:00:00\n"}),
        ("yahoo_music", {"trainIdx1.txt": "1|1\n1\t2\t999999999999999999\t00:00:00\n"}),
    ],
)
def test_other_files_that_are_something_else(tmp_path: Path, load: str, files: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"^source: "):
        getattr(discreet.datasets, load)(source=zipped(tmp_path / "a.zip", **files))


def test_what_is_odd_and_does_no_harm(tmp_path: Path) -> None:
    films = {"ratings.csv": RATINGS_CSV, "movies.csv": "\ufeff" + MOVIES_CSV}
    assert len(discreet.datasets.movielens("20m", source=zipped(tmp_path / "a.zip", **films))) == 3
    films = {"combined_data_1.txt": FILM_1 + FILM_2, "movie_titles.txt": "1,2003,Dinosaur Planet\n2,NULL,a\x85b\n"}
    assert len(discreet.datasets.netflix(source=zipped(tmp_path / "a.zip", **films))) == 4
    jester_xls(tmp_path / "jester-data-1.xls", [jester_row({1: 1.0})])
    (tmp_path / "initial.html").write_text("no joke")
    assert len(discreet.datasets.jester(source=tmp_path / "jester-data-1.xls")) == 1
    other = {"trainIdx1.firstLines.txt": "0|3\n1\t90\t2341\t18:16:00\n", "trainIdx1.txt": YAHOO}
    assert len(discreet.datasets.yahoo_music(source=zipped(tmp_path / "a.zip", **other))) == 4


def test_netflix_in_a_tar_that_is_packed_otherwise(tmp_path: Path) -> None:
    titles = "1,2003,Dinosaur Planet\n2,NULL,Héros, Le: A Film, with Commas\n".encode("latin-1")
    inner = tarred(("mv_0000001.txt", FILM_1.encode()), ("mv_0000002.txt", FILM_2.encode()))
    whole = tarred(("training_set.tar", inner), ("movie_titles.txt", titles))
    for pack in (bz2.compress, lzma.compress, bytes):
        check_netflix(discreet.datasets.netflix(source=saved(tmp_path / "a", pack(whole))))
