"""Where the files of a data set are: given, at hand, or downloaded; and how to open an archive of them."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from discreet.data.progress import Bar
from discreet.data.unpacking import unpack
from discreet.errors import DataError

log = logging.getLogger("discreet")

ENVIRONMENT = "DISCREET_DATA"
_told: set[str] = set()  # data sets whose licence this process has mentioned


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
    """Where downloads go: DISCREET_DATA, else the platform's cache. The folder may not exist yet."""
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT])
    import platformdirs

    return Path(platformdirs.user_cache_dir("discreet")) / "datasets"


def folders() -> list[Path]:
    """Where files are looked for, first come first: as above, or `../shared/data` beside a checkout."""
    found = [cache_folder()]
    if not os.environ.get(ENVIRONMENT):
        checkout = Path(__file__).resolve().parents[3]
        if (checkout / "pyproject.toml").is_file():
            found.insert(0, checkout.parent / "shared" / "data")
    return [folder for folder in found if folder.is_dir()]


def at_hand(*names: str) -> Path | None:
    """The first of some files or folders that is in one of the folders."""
    return next((folder / name for folder in folders() for name in names if (folder / name).exists()), None)


def tell_licence(name: str, licence: str) -> None:
    """Mention the licence of a data set, once in a process."""
    if name not in _told:
        _told.add(name)
        log.warning("%s: %s", name, licence)


class _Progress(Bar):
    """Our bar, under the names that pooch calls."""

    update = Bar.advance

    def reset(self) -> None:
        pass


def download(source: Download) -> Path:
    """Fetch a file into the cache, unless it is there, and check its checksum."""
    import pooch

    pooch.get_logger().setLevel("ERROR")  # what goes wrong is raised; the rest is ours to say
    folder, bar = cache_folder(), _Progress(f"downloading {source.file}", unit="bytes")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        got = pooch.retrieve(
            source.url,
            known_hash=source.checksum,
            fname=source.file,
            path=folder,
            downloader=pooch.HTTPDownloader(progressbar=bar, timeout=30),
        )
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
    return Path(got)


@contextmanager
def opened(source: str | os.PathLike[str], *wanted: str) -> Iterator[Path]:
    """Give a folder with those files of a zip or tar archive whose last names match a pattern of `wanted`.

    A zip or tar in the archive is opened too, but none in that one. A folder is given as it is. What is unpacked is
    removed afterwards, even after an error.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        yield path
        return
    if not path.exists():
        raise DataError(f"source: there is no file {str(path)!r}")
    with tempfile.TemporaryDirectory(prefix="discreet-") as name:
        unpack(path, Path(name), wanted)
        yield Path(name)


def find(folder: Path, *names: str) -> Path | None:
    """The file of one of these names in a folder, or else the only one below it."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    found = [path for name in names for path in sorted(folder.rglob(name)) if path.is_file()]
    if len(found) > 1:
        both = " and ".join(repr(str(path.relative_to(folder))) for path in found[:2])
        raise DataError(f"source: {str(folder)!r} has both {both}; give the folder of the one that is meant")
    return found[0] if found else None


def need(folder: Path, *names: str) -> Path:
    """The same, or an error that says what is missing."""
    found = find(folder, *names)
    if found is None:
        raise DataError(f"source: {' or '.join(names)} is not there; give the original archive, or its folder")
    return found
