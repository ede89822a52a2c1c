"""The three files of a model in one folder, replaced all at once.

No portable call replaces a folder that is not empty, and moving the old one away first leaves a moment with neither. So
the folder stays where it is, and one file in it, model.json, decides:

1. The other files are written first and synced, next to the old ones, as `factors.safetensors.<its sha256>`.
2. Then model.json is replaced in one atomic step: from here on the model is the new one.
3. Then the other files are moved to their plain names, and leftovers of this or an earlier save are removed.

A reader takes the file with the right SHA-256, under its plain name or the longer one. So the folder always holds the
old model before the second step and the new one after it, even for a reader that cannot write. A process that dies in
the third step leaves longer names behind; the next save removes them. Savers take turns by a lock on the folder itself;
readers need none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from discreet.errors import ModelError
from discreet.privacy.store import put, sync

if sys.platform != "win32":
    import fcntl

FORMAT = "discreet-model"
HEAD, FACTORS, ITEMS = "model.json", "factors.safetensors", "items.parquet"
PARTS = (FACTORS, ITEMS)
UNFINISHED = "unfinished"  # a folder next to them: a fit whose model will replace this one
MAX_HEAD = 16 << 20  # bytes of model.json: tens of thousands of releases in its certificate

_DIGEST = re.compile(r"[0-9a-f]{64}")
_STRAY = re.compile(r"(factors\.safetensors|items\.parquet)\.[0-9a-f]{64}|[0-9a-f]{16}\.tmp")


def refused(path: Path, reason: str) -> ModelError:
    """The error for a file or folder that is refused."""
    return ModelError(f"{str(path)!r}: {reason}")


def digest(content: bytes) -> str:
    """The SHA-256 of a file's content, as model.json has it."""
    return hashlib.sha256(content).hexdigest()


# -- writing


def replace(folder: Path, head: bytes, parts: Mapping[str, bytes]) -> None:
    """Replace the model in the folder, if any, by a new one: model.json and the other files."""
    with held(folder):
        _require_ours(folder)
        try:
            for name, content in parts.items():  # `put` syncs: these are on the disk before model.json names them
                put(folder / f"{name}.{digest(content)}", [content])
            put(folder / HEAD, [head])
        except BaseException:
            with suppress(OSError):
                _settle(folder)
            raise
        _settle(folder)


def _settle(folder: Path) -> None:
    """Leave nothing but the model that model.json describes, under its plain names."""
    for name, sha256 in _wanted(folder).items():
        if os.path.lexists(folder / f"{name}.{sha256}"):
            os.replace(folder / f"{name}.{sha256}", folder / name)
    sync(folder)
    for name in os.listdir(folder):
        if _STRAY.fullmatch(name):
            os.unlink(folder / name)


def _wanted(folder: Path) -> dict[str, str]:
    """The digests in model.json; none if it is missing or broken, because there is no model then."""
    try:
        files = json.loads((folder / HEAD).read_bytes())["files"]
        wanted = {name: files[name]["sha256"] for name in PARTS}
    except (FileNotFoundError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return wanted if all(isinstance(d, str) and _DIGEST.fullmatch(d) for d in wanted.values()) else {}


@contextmanager
def held(folder: Path, busy: str = "") -> Iterator[None]:
    """Create a folder if needed, and hold it exclusively. After an error, folders created here are removed.

    If another process holds the folder, this waits; with a reason `busy`, it raises instead.
    """
    made, mine = list[Path](), False
    with ExitStack() as locks:
        try:
            while not mine:  # until no other process, whose save failed, has removed the folder in between
                made = [one for one in (folder, *folder.parents) if not one.exists()] or made
                _make(folder)
                with suppress(FileNotFoundError):
                    mine = os.path.samestat(locks.enter_context(locked(folder, busy)), os.stat(folder))
            yield
        except BaseException:
            for one in made:  # while the lock is held, so that nobody else relies on the folder
                with suppress(OSError):
                    one.rmdir()
            raise


def _make(folder: Path) -> None:
    if not folder.parent.exists():
        _make(folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise refused(folder, "it exists and is not a folder; give another") from None
    else:
        sync(folder.parent)


@contextmanager
def locked(folder: Path, busy: str = "") -> Iterator[os.stat_result]:
    """Hold the folder's lock; yields its identity, because another folder may have its name by now."""
    if sys.platform == "win32":
        yield os.stat(folder)
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError:
            raise refused(folder, busy) from None
        except OSError:  # some network file systems cannot lock folders
            pass
        yield os.fstat(handle)
    finally:
        os.close(handle)


def _require_ours(folder: Path) -> None:
    found = {name for name in os.listdir(folder) if name != UNFINISHED and not _STRAY.fullmatch(name)}
    ours = HEAD in found and FORMAT.encode() in read_file(folder / HEAD, MAX_HEAD)[:256]  # even if it is broken
    if found and not ours:
        raise refused(folder, "this folder is not empty and holds no model; give another, or empty it")
    for name in PARTS:
        if (folder / name).is_dir():
            raise refused(folder / name, "it is a folder, where a file of the model must go; remove it")


# -- reading


def read_file(path: Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes; nothing else is opened or followed."""
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")]
    if os.path.islink(path):
        raise refused(path, "it is a symbolic link, and those are not followed")
    try:
        with open(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise refused(path, "it is not a regular file")
            if about.st_size > most:
                raise refused(path, f"it has {about.st_size} bytes, where at most {most} were expected")
            return file.read(about.st_size)  # whatever size model.json claims
    except FileNotFoundError:
        raise refused(path, "it is missing") from None
    except OSError as error:
        raise refused(path, f"it cannot be read ({error.strerror})") from None


def read_part(folder: Path, name: str, *, sha256: str, size: int) -> bytes:
    """The file with this SHA-256 and size, under its plain name or the one it has during a save."""
    try:
        return _read_exactly(folder / name, sha256, size)
    except ModelError as error:
        if _DIGEST.fullmatch(sha256):  # else it could be a path
            with suppress(ModelError):
                return _read_exactly(folder / f"{name}.{sha256}", sha256, size)
        raise error from None


def _read_exactly(path: Path, sha256: str, size: int) -> bytes:
    content = read_file(path, size)
    if len(content) != size:
        raise refused(path, f"it has {len(content)} bytes, but {size} were saved; it was cut off or changed")
    if digest(content) != sha256:
        raise refused(path, f"its SHA-256 is not the one in {HEAD}; it was changed or is of another model")
    return content
