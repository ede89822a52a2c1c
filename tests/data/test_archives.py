"""Archives that are damaged or packed in an odd way, and files that are not what their names say."""

import bz2
import gzip
import io
import lzma
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
from discreet.data import archives
from discreet.errors import DataError
from tests.data.test_datasets import (
    FILM_1,
    FILM_2,
    MOVIES_1M,
    MOVIES_CSV,
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


@pytest.mark.parametrize(("offset", "value"), [(6, 1), (8, 9), (8, 99)])  # encrypted, Deflate64, AES
def test_what_cannot_be_unpacked_here(tmp_path: Path, offset: int, value: int) -> None:
    path = flagged(zipped(tmp_path / "a.zip", **{"u.data": U_DATA}), offset, value)
    with pytest.raises(DataError, match=r"source: .*a\.zip' cannot be unpacked .*unpack it yourself"):
        names(path, "u.data")


@pytest.mark.parametrize("inner", ["zip", "tar"])
@pytest.mark.parametrize("outer", ["zip", "tar"])
def test_an_archive_in_an_archive(tmp_path: Path, inner: str, outer: str) -> None:
    def pack(kind: str, name: str, data: bytes) -> bytes:
        return tarred((name, data)) if kind == "tar" else zipped(tmp_path / "x", **{name: data}).read_bytes()

    once = pack(inner, "u.data", U_DATA.encode())
    assert names(saved(tmp_path / "a", pack(outer, f"a.{inner}", once)), "u.data") == ["u.data"]


def test_two_files_of_one_name(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", **{"a__ratings.dat": RATINGS_DAT, "b__ratings.dat": RATINGS_DAT})
    with pytest.raises(DataError, match=r"File exists: .*; fetch it again, or unpack it yourself"):
        names(path, "ratings.dat")
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
def test_links_and_devices_are_left_out(tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo("ml/u.data")
    info.type, info.linkname = kind, "/etc/passwd"
    assert names(saved(tmp_path / "a", tarred((info, b""))), "u.data") == []


def test_a_cut_is_never_taken_for_the_whole(tmp_path: Path) -> None:
    tar = tarred(("u.data", U_DATA.encode()), ("u.item", U_ITEM))
    stored = tmp_path / "stored.zip"
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("u.data", U_DATA)
    changed = stored.read_bytes().replace(b"881250949", b"881250940")
    for data in (gzip.compress(tar)[:-100], tar[:700], lzma.compress(tar)[:-100], changed):
        with pytest.raises(DataError, match=r"cannot be unpacked"):
            names(saved(tmp_path / "a", data), "u.data", "u.item")


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


HUGE = "9" * 30


@pytest.mark.parametrize(
    ("of", "files", "message"),
    [
        ("100k", {"u.item": b""}, r"u\.item is damaged"),
        ("100k", {"u.data": bytes(range(256))}, r"u\.data is damaged"),
        ("1m", {"ratings.dat": RATINGS_CSV}, r"ratings\.dat is damaged \(.*Expected 7 columns, got 1"),
        ("1m", {"movies.dat": f"{HUGE}::t::g\n"}, r"movies\.dat is damaged"),
        ("20m", {"ratings.csv": bytes(range(256))}, r"ratings\.csv has no column 'userId'"),
        ("20m", {"ratings.csv": "userId,movieId,rating\n1,2,3\n"}, r"ratings\.csv has no column 'timestamp', only"),
        ("20m", {"movies.csv": "a,b\n1,2\n"}, r"movies\.csv is damaged \('movieId'\)"),
        ("20m", {"movies.csv": "movieId,title,genres\nx,y,z\n"}, r"movies\.csv is damaged"),
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
