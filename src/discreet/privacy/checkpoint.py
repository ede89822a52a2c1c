"""Released arrays on the disk, for a fit that is interrupted to go on with them: docs/proofs/resuming.md.

An array is written under a key of its own, and the key goes to the ledger, with the entry that says that the array is
saved. A file that the ledger says nothing of can be read by nobody, wherever copies of it are: as if it had never been
drawn.
"""

import hashlib
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.privacy.keystream import Stream

SUFFIX = ".release"
_BLOCK = 1 << 20  # bytes; a multiple of the keystream's words


@dataclass(frozen=True)
class Checkpoint:
    """Where the releases of one reservation are kept.

    Attributes:
        folder: The folder, which exists.
        reservation: The id of the reservation.
    """

    folder: Path
    reservation: str

    def write(self, array: npt.NDArray[Any]) -> dict[str, str]:
        """Write an array, encrypted, and sync it; returns what it takes to read it again, for the ledger."""
        kind, key = array.dtype.newbyteorder("<"), os.urandom(32)
        content = np.ascontiguousarray(array, kind).reshape(-1).view(np.uint8)
        name = f"{secrets.token_hex(16)}{SUFFIX}"
        sha256 = put(self.folder / name, _ciphered(content, key))
        return {"file": name, "sha256": sha256, "key": key.hex(), "dtype": kind.str}

    def read(self, saved: Mapping[str, Any], shape: Iterable[int]) -> npt.NDArray[Any]:
        """The array that was written; raises unless it is the one that the ledger says was saved."""
        array = np.empty(tuple(shape), np.dtype(saved["dtype"]))
        path = self.folder / saved["file"]
        content = _content(path, array.nbytes)
        if content is None or hashlib.sha256(content.data).hexdigest() != saved["sha256"]:
            raise PrivacyError(
                f"checkpoint: {str(path)!r} is {'missing' if content is None else 'not what was saved'}; the ledger "
                "says that this array was released, so it cannot be drawn again. Put the whole folder back as it was; "
                f"or close the reservation {self.reservation}, which returns what was not released, and fit anew"
            )
        view = array.reshape(-1).view(np.uint8)
        at = 0
        for block in _ciphered(content, bytes.fromhex(saved["key"])):
            view[at : at + len(block)] = block
            at += len(block)
        return array


def _content(path: Path, size: int) -> npt.NDArray[np.uint8] | None:
    """The bytes of a file, if there is one of this size."""
    try:
        return np.fromfile(path, np.uint8) if path.stat().st_size == size else np.zeros(0, np.uint8)
    except FileNotFoundError:
        return None


def _ciphered(content: npt.NDArray[np.uint8], key: bytes) -> Iterable[npt.NDArray[np.uint8]]:
    """The content with the keystream of the key on it, which is its own inverse, a block at a time."""
    stream = Stream(key)
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK]
        yield block ^ stream.words(-(-len(block) // 8)).view(np.uint8)[: len(block)]


def put(path: Path, blocks: Iterable[Any]) -> str:
    """Write a file, whole and on the disk when it gets its name; returns its SHA-256."""
    temporary, sha256 = path.with_name(f"{secrets.token_hex(8)}.tmp"), hashlib.sha256()
    with open(temporary, "xb") as file:
        for block in blocks:
            sha256.update(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync(path.parent)
    return sha256.hexdigest()


def sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    if sys.platform != "win32":  # where folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
