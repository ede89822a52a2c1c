"""Find or download the files of a data set, and unpack archives, which are not trusted."""

from __future__ import annotations

import bz2
import gzip
import logging
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOSPC
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Any

from discreet.errors import DataError
from discreet.parallel import Bar

log = logging.getLogger("discreet")

ENVIRONMENT = "DISCREET_DATA"
_told: set[str] = set()  # data sets whose license this process has mentioned

# What an archive may unpack to. A larger one can still be unpacked by hand.
UNPACKED = 16 << 30  # bytes: Yahoo! Music, the largest data set, has 263 million lines of about 24 bytes
RATIO = 50  # unpacked to packed bytes: ratings are nearly random digits, which pack to between a third and a tenth
ANYWAY = 16 << 20  # bytes, whatever the ratio: small files of few different lines pack well and do no harm
MEMBERS = 100_000  # Netflix has a file for each of 17,770 films
DEPTH = 1  # Netflix's training set is a tar in a tar, and the restaurants are a zip in a zip; nothing is deeper
NESTED = (".tar", ".zip")

DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError)
AGAIN = "fetch it again"
YOURSELF = "unpack it yourself and give the folder"


@dataclass(frozen=True)
class Download:
    """A file on its publisher's server. A checksum of None means that none is known."""

    url: str
    checksum: str | None  # "md5:..." or "sha256:..."

    @property
    def file(self) -> str:
        """The name of the file."""
        return self.url.rsplit("/", 1)[-1]


def cache_folder() -> Path:
    """Where downloads go: DISCREET_DATA, or the platform's cache. The folder may not exist yet."""
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    import platformdirs

    return Path(platformdirs.user_cache_dir("discreet")) / "datasets"


def folders() -> list[Path]:
    """The folders that are searched, in this order: `../shared/data` next to a checkout, and the cache."""
    found = [cache_folder()]
    checkout = Path(__file__).resolve().parents[3]
    if not os.environ.get(ENVIRONMENT) and (checkout / "pyproject.toml").is_file():
        found.insert(0, checkout.parent / "shared" / "data")
    return [folder for folder in found if folder.is_dir()]


def available(*names: str) -> Path | None:
    """The first of some files or folders that is in one of the folders."""
    return next((folder / name for folder in folders() for name in names if (folder / name).exists()), None)


def tell_license(name: str, license: str) -> None:
    """Mention the license of a data set, once in a process."""
    if name not in _told:
        _told.add(name)
        log.warning("%s: %s", name, license)


class _Progress(Bar):
    """A progress bar with the methods that pooch calls."""

    update = Bar.advance

    def reset(self) -> None:
        pass


def download(source: Download) -> Path:
    """Fetch a file into the cache, unless it is there, and check its checksum."""
    import pooch

    pooch.get_logger().setLevel("ERROR")  # what goes wrong is raised
    folder, bar = cache_folder(), _Progress(f"downloading {source.file}", unit="bytes")
    downloader = pooch.HTTPDownloader(progressbar=bar, timeout=30)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Path(pooch.retrieve(source.url, source.checksum, source.file, folder, downloader=downloader))
    except ValueError as error:  # how pooch reports a checksum that does not match
        raise DataError(
            f"download: {source.url} is not the file it should be, and was not kept: {error}. Try again, or "
            "fetch it by other means and pass source="
        ) from None
    except OSError as error:
        raise DataError(
            f"download: {source.url} could not be fetched into {str(folder)!r} ({type(error).__name__}). If you "
            f"have {source.file}, pass its path as source=, or put it into the folder named by {ENVIRONMENT}"
        ) from None


def find(folder: Path, *names: str) -> Path | None:
    """The file of one of these names in a folder, or else the only one below it."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    found = [path for name in names for path in sorted(folder.rglob(name)) if path.is_file()]
    if len(found) > 1:
        both = " and ".join(repr(str(path.relative_to(folder))) for path in found[:2])
        raise DataError(f"source: {str(folder)!r} has both {both}; give the folder of the one you mean")
    return found[0] if found else None


def need(folder: Path, *names: str) -> Path:
    """Like `find`, but raises if there is no such file."""
    found = find(folder, *names)
    if found is None:
        raise DataError(f"source: {' or '.join(names)} is not there; give the original archive, or its folder")
    return found


@contextmanager
def opened(source: str | os.PathLike[str], *wanted: str) -> Iterator[Path]:
    """Yield a folder with the files of a zip or tar archive whose names match a pattern of `wanted`.

    A zip or tar in the archive is unpacked too, but none inside that one. A folder is yielded as it is. Unpacked files
    are removed afterwards, even after an error.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise DataError(f"source: there is no file {str(path)!r}")
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        _Archive(path, Path(name), wanted).unpack()
        yield Path(name)


class _Archive:
    """One archive, with how much it may still unpack, including what is nested in it."""

    def __init__(self, path: Path, folder: Path, wanted: tuple[str, ...]) -> None:
        self.path, self.folder, self.wanted = path, folder, wanted
        self.bytes = min(UNPACKED, max(ANYWAY, RATIO * path.stat().st_size))
        self.members = MEMBERS
        self.kept: dict[str, str] = {}  # by name in lower case: some file systems ignore case

    def refusal(self, what: str, do: str) -> DataError:
        return DataError(f"source: {str(self.path)!r} {what}; {do}")

    def unpack(self) -> None:
        """Unpack what is wanted, within limits, or nothing."""
        try:
            self.open()
        except DataError:
            raise
        except NotImplementedError as error:  # an unknown compression or encryption
            raise self.refusal(f"is packed in a way that cannot be read here ({error})", YOURSELF) from None
        except DAMAGED as error:
            raise self.refusal(f"is damaged ({error})", AGAIN) from None
        except OSError as error:
            if error.errno is None:  # how gzip reports a wrong checksum
                raise self.refusal(f"is damaged ({error})", AGAIN) from None
            what = f"could not be unpacked into {tempfile.gettempdir()!r} ({error.strerror}), and nothing was kept"
            room = "make room there, or set TMPDIR to a folder with more"
            raise self.refusal(what, room if error.errno == ENOSPC else "fix that, and try again") from None

    def open(self) -> None:
        with self.path.open("rb") as file:
            magic = file.read(6)
            if magic.startswith(b"PK") and zipfile.is_zipfile(file):
                self.unzip(file)
                return
            file.seek(0)
            unpackers: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
            unpacker = next((unpacker for start, unpacker in unpackers.items() if magic.startswith(start)), None)
            stream = _Counted(self, file if unpacker is None else unpacker(file))
            try:
                self.untar(stream)
            except tarfile.ReadError:
                if self.members < MEMBERS:  # it begins like a tar
                    raise
                raise self.refusal("is not a whole zip or tar archive", AGAIN) from None
            while stream.read(1 << 20):  # the checksum, and the zeros of a complete tar, are at the end
                pass
            if stream.tail.strip(b"\0"):
                raise self.refusal("is damaged (it ends too early)", AGAIN)

    def afford(self, size: int) -> int:
        """Return this number of bytes, if they may still be unpacked."""
        if size > self.bytes:
            what = "unpacks to more than any published data set of its size does"
            raise self.refusal(what, f"if you trust it, {YOURSELF}")
        return size

    def takes(self, name: str) -> bool:
        """Count a member, and return whether it is wanted."""
        self.members -= 1
        if self.members < 0:
            what = f"has more than {MEMBERS:,} members, which no published data set has"
            raise self.refusal(what, f"if you trust it, {YOURSELF}")
        return name.endswith(NESTED) or any(fnmatchcase(_last(name), pattern) for pattern in self.wanted)

    def unzip(self, file: IO[bytes], depth: int = 0) -> None:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not self.takes(member.filename) or member.is_dir():
                    continue
                if member.flag_bits & 0x1:
                    raise self.refusal("is encrypted", YOURSELF)
                if stat.S_ISLNK(member.external_attr >> 16):
                    raise self.refusal(f"has a link, {member.filename!r}, in place of a file", AGAIN)
                self.bytes -= self.afford(member.file_size)  # zipfile reads no more than this
                with archive.open(member) as inside:
                    self.take(inside, member.filename, depth)

    def untar(self, stream: Any, depth: int = 0) -> None:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not self.takes(member.name) or member.isdir():
                    continue
                if not member.isreg() or member.issparse():
                    what = f"has a link, a device or a file with holes, {member.name!r}, in place of a plain file"
                    raise self.refusal(what, AGAIN)
                self.afford(member.size)  # refuses a bomb before it is read; the stream counts what is read
                self.take(archive.extractfile(member), member.name, depth)

    def take(self, inside: Any, name: str, depth: int) -> None:
        """Keep a member or, if it is an archive, what is wanted from it."""
        if not name.endswith(NESTED):
            last = _last(name)  # without folders: ".." or "/" cannot lead out of ours
            if last.lower() in self.kept:
                what = f"has two files of one name, {self.kept[last.lower()]!r} and {name!r}"
                raise self.refusal(what, "unpack the one you mean, and give its folder")
            self.kept[last.lower()] = name
            with (self.folder / last).open("wb", buffering=0) as out:
                shutil.copyfileobj(inside, out)
        elif depth == DEPTH:
            raise self.refusal(f"has {name!r}, an archive in an archive in an archive", YOURSELF)
        elif name.endswith(".tar"):
            self.untar(inside, depth + 1)
        else:
            with tempfile.TemporaryFile(dir=self.folder) as copy:  # a zip lists its members at its end
                shutil.copyfileobj(inside, copy)
                self.unzip(copy, depth + 1)


class _Counted:
    """Counts the bytes of a tar as they are unpacked, including those that are skipped."""

    def __init__(self, archive: _Archive, stream: Any) -> None:
        self._archive, self._stream, self.tail = archive, stream, b""

    def read(self, size: int) -> bytes:
        piece: bytes = self._stream.read(size)
        self._archive.bytes -= self._archive.afford(len(piece))
        self.tail = piece[-tarfile.BLOCKSIZE :] or self.tail
        return piece


def _last(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]
