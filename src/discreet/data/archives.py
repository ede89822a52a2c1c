"""Find or download the files of a data set, and unpack archives."""

from __future__ import annotations

import logging
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from discreet.errors import DataError
from discreet.parallel import Bar

log = logging.getLogger("discreet")

ENVIRONMENT = "DISCREET_DATA"
_told: set[str] = set()  # data sets whose license this process has mentioned

NESTED = (".tar", ".zip")  # Netflix's training set is a tar in a tar, and the restaurants are a zip in a zip
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


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


def at_hand(*names: str) -> Path | None:
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

    A zip or tar in the archive is unpacked too. A folder is yielded as it is. Unpacked files are removed afterwards,
    even after an error.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise DataError(f"source: there is no file {str(path)!r}")
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        try:
            _unpack(path, Path(name), wanted)
        except DAMAGED as error:  # RuntimeError is how zipfile reports encryption
            reason = str(error).partition("\n")[0]
            raise DataError(
                f"source: {str(path)!r} cannot be unpacked ({reason}); fetch it again, or unpack it yourself and give "
                "the folder"
            ) from None
        yield Path(name)


def _unpack(path: Path, folder: Path, wanted: tuple[str, ...]) -> None:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _keep(member.filename, partial(archive.open, member), folder, wanted)
        return
    with tarfile.open(path) as tar:
        for one in tar:
            if one.isreg():
                _keep(one.name, partial(tar.extractfile, one), folder, wanted)


def _keep(name: str, member: Callable[[], Any], folder: Path, wanted: tuple[str, ...]) -> None:
    """Keep a member of an archive if it is wanted or, if it is an archive, what is wanted from it."""
    bare = name.replace("\\", "/").rsplit("/", 1)[-1]  # ".." or "/" cannot lead out of our folder
    if not bare.endswith(NESTED) and not any(fnmatchcase(bare, pattern) for pattern in wanted):
        return
    target = folder / bare
    with member() as inside, target.open("xb") as out:  # raises if there are two files of one name
        shutil.copyfileobj(inside, out)
    if bare.endswith(NESTED):
        _unpack(target, folder, wanted)
        target.unlink()
