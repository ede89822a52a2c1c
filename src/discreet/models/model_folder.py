"""The three files of a model in one folder, replaced all at once.

No portable call replaces a folder that is not empty, and moving the old one away first leaves a moment with neither.
So the folder stays where it is, and one file in it, model.json, decides. It holds the SHA-256 of the others, and

1. the others are written first, whole and synced, beside the old ones: as `factors.safetensors.<its sha256>`;
2. then model.json is replaced, which is one atomic step: from here on the model is the new one;
3. then the others are moved to their plain names, and whatever is left of this or of an earlier save is removed.

A reader takes the file with the right SHA-256, under its plain name or under the longer one. So the folder holds the
old model at every moment before the second step and the new one at every moment after it, also for a reader that
changes nothing, and on a medium that cannot be written. A process that dies in the third step leaves longer names
behind; the next save tidies up. Savers take turns by a lock on the folder itself; readers need none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from discreet.errors import ModelError
from discreet.privacy.store import sync

if sys.platform != "win32":
    import fcntl

FORMAT = "discreet-model"
HEAD = "model.json"
PARTS = ("factors.safetensors", "items.parquet")
UNFINISHED = "unfinished"  # a folder beside them: a fit whose model will take their place
MAX_HEAD = 16 << 20  # bytes of model.json: ten thousands of releases in its certificate

_DIGEST = re.compile(r"[0-9a-f]{64}")
_STRAY = re.compile(r"(factors\.safetensors|items\.parquet)\.[0-9a-f]{64}|model\.json\.[0-9a-f]{16}\.tmp")
_TRIES = 100  # of a reader, while others save; each try that fails has met another save


def digest(content: bytes) -> str:
    """The SHA-256 of a file's content, as model.json has it."""
    return hashlib.sha256(content).hexdigest()


# -- writing


def replace(folder: Path, head: bytes, parts: Mapping[str, bytes]) -> None:
    """Put a new model in the place of the one in the folder, if any.

    Args:
        folder: Where; made if there is none.
        head: The content of model.json, in which `files` says the SHA-256 of the other files.
        parts: The content of the other files.
    """
    with _held(folder):
        try:
            for name, content in parts.items():
                _put(folder, f"{name}.{digest(content)}", content)
            sync(folder)  # what model.json speaks of is on the disk before it is
            _put(folder, HEAD, head)
            sync(folder)  # and it is before the old files go
        except BaseException:
            with contextlib.suppress(OSError):
                _settle(folder)
            raise
        _settle(folder)


def _put(folder: Path, name: str, content: bytes) -> None:
    """Write a file under a name of its own, and give it its name when it is whole and on the disk."""
    temporary = folder / f"{HEAD}.{secrets.token_hex(8)}.tmp"
    with open(temporary, "xb") as file:  # with the permissions that the umask leaves
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / name)


def _settle(folder: Path) -> None:
    """Leave nothing but the model that model.json speaks of, under its plain names."""
    for name, sha256 in _wanted(folder).items():
        if os.path.lexists(folder / f"{name}.{sha256}"):
            os.replace(folder / f"{name}.{sha256}", folder / name)
    sync(folder)
    for name in os.listdir(folder):
        if _STRAY.fullmatch(name):
            os.unlink(folder / name)


def _wanted(folder: Path) -> dict[str, str]:
    """The digests that model.json demands; none if it is missing or broken, since there is no model then."""
    try:
        files = json.loads((folder / HEAD).read_bytes())["files"]
        wanted = {name: files[name]["sha256"] for name in PARTS}
    except (FileNotFoundError, ValueError, LookupError, TypeError, RecursionError):
        return {}
    return wanted if all(isinstance(d, str) and _DIGEST.fullmatch(d) for d in wanted.values()) else {}


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Make the folder if there is none, wait for other savers, and refuse to touch what is not a model of ours."""
    made = False
    with contextlib.ExitStack() as locks:
        try:
            held = False
            while not held:  # else another save had made the folder, failed, and has removed it
                made = _make(folder) or made
                with contextlib.suppress(FileNotFoundError):
                    held = os.path.samestat(locks.enter_context(_locked(folder)), os.stat(folder))
            if made:
                sync(folder.parent)
            _require_ours(folder)
            yield
        except BaseException:
            if made:  # while the lock is held, so that nobody else believes to have the folder
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


def _make(folder: Path) -> bool:
    if not folder.parent.exists():
        _make(folder.parent)
        sync(folder.parent.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise ModelError(f"{str(folder)!r}: it exists and is not a folder; give another") from None
        return False
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[os.stat_result]:
    """Hold the folder's lock; yields which folder it is, for another may have its name by now."""
    if sys.platform == "win32":
        yield os.stat(folder)
        return
    with _opened(folder) as handle:
        with contextlib.suppress(OSError):  # some network file systems lock no folders: then savers are on their own
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield os.fstat(handle)


def _require_ours(folder: Path) -> None:
    found = {name for name in os.listdir(folder) if name != UNFINISHED and not _STRAY.fullmatch(name)}
    ours = HEAD in found and FORMAT.encode() in read_file(folder / HEAD, MAX_HEAD)[:256]  # also if it is broken
    if found and not ours:
        raise ModelError(f"{str(folder)!r}: this folder is not empty and holds no model; give another, or empty it")
    for name in PARTS:
        if (folder / name).is_dir():
            raise ModelError(f"{str(folder / name)!r}: it is a folder, where a file of the model must go; remove it")


# -- reading


def read_file(path: Path, most: int) -> bytes:
    """The content of a regular file of at most so many bytes; nothing else is opened or followed."""
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")]
    if os.path.islink(path):
        raise ModelError(f"{str(path)!r}: it is a symbolic link, and those are not followed")
    try:
        with open(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ModelError(f"{str(path)!r}: it is not a regular file")
            if about.st_size > most:
                raise ModelError(f"{str(path)!r}: it has {about.st_size} bytes, where at most {most} were expected")
            return file.read(about.st_size)  # whatever size model.json claims
    except FileNotFoundError:
        raise ModelError(f"{str(path)!r}: it is missing") from None
    except OSError as error:
        raise ModelError(f"{str(path)!r}: it cannot be read ({error.strerror})") from None


def read_part(folder: Path, name: str, *, sha256: str, size: int) -> bytes:
    """The file with this SHA-256 and size, under its plain name or the one that it has while a save is under way."""
    try:
        return _read_exactly(folder / name, sha256, size)
    except ModelError as error:
        if _DIGEST.fullmatch(sha256):  # else it could be a path
            with contextlib.suppress(ModelError):
                return _read_exactly(folder / f"{name}.{sha256}", sha256, size)
        raise error from None


def _read_exactly(path: Path, sha256: str, size: int) -> bytes:
    content = read_file(path, size)
    if len(content) != size:
        raise ModelError(
            f"{str(path)!r}: it has {len(content)} bytes, but {size} were saved; it was cut off or changed"
        )
    if digest(content) != sha256:
        raise ModelError(f"{str(path)!r}: its SHA-256 is not the one in {HEAD}; it was changed or is of another model")
    return content


def tries(folder: Path) -> Iterator[tuple[bytes, bool]]:
    """The content of model.json for a reader that may meet a save.

    Yields:
        The content, and whether it is worth while to try again if the other files do not fit it: not if it is still
        the same as at the last try, since then no save is to blame.
    """
    before = None
    for attempt in range(_TRIES):
        content = read_file(folder / HEAD, MAX_HEAD)
        yield content, content != before and attempt < _TRIES - 1
        before = content
