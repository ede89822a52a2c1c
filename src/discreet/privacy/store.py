"""What a ledger keeps: the entries of its log and, for a fit that can be resumed, the released arrays on disk.

The log consists of append-only entries in a hash chain, checked before anything relies on them. Only the log counts.
`database` has it; importing that takes longer than serving a person, who needs no ledger.
"""

import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.privacy.guarantee import Cost
from discreet.privacy.noise import Stream

BEGIN = "give epsilon and delta to begin a ledger, or create=True for one without a budget"
SUFFIX = ".release"
_BLOCK = 1 << 20  # bytes; a multiple of the keystream's words


def canonical(data: Any) -> str:
    """JSON in the canonical form for digests."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


@dataclass(frozen=True)
class Entry:
    """One line of the log: kind is "open", "reserve", "release", "saved", "charge" or "close"."""

    seq: int
    kind: str
    body: dict[str, Any]
    digest: str

    @property
    def label(self) -> str:
        """The label of a release or charge."""
        return str(self.body.get("label", ""))

    @property
    def cost(self) -> Cost:
        """The cost in its body; none if it has no cost."""
        return Cost.from_json(self.body["cost"]) if "cost" in self.body else Cost()

    def chained(self, previous: str) -> str:
        """The digest this entry must have after one with the digest `previous`."""
        content = canonical([previous, self.seq, self.kind, self.body])
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class State:
    """The total of a log; `reservations` has the entries of each open reservation."""

    first: Entry | None = None
    last: Entry | None = None
    cost: Cost = field(default_factory=Cost)
    insecure: bool = False
    reservations: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)

    @property
    def head(self) -> tuple[int, str]:
        """How many entries there are, and the digest of the last."""
        return (self.last.seq, self.last.digest) if self.last else (0, "")

    def after(self, entry: Entry) -> "State":
        """The state after an entry is appended."""
        cost, drawn, reservation = entry.cost, entry.kind in ("release", "charge"), entry.body.get("reservation")
        paid = Cost() if reservation else cost  # by the reservation, if there is one
        free = dict.fromkeys(("open", "saved"), Cost())
        changes = {**free, "reserve": cost, "release": paid, "charge": cost, "close": cost * -1}
        if entry.kind not in changes:
            raise PrivacyError(f"ledger: entry {entry.seq} is of an unknown kind {entry.kind!r}; its cost is not known")
        insecure = self.insecure or (drawn and entry.body.get("secure") is not True)
        reservations = self.reservations
        if reservation:
            reservations = {**reservations, reservation: (*reservations.get(reservation, ()), entry)}
            if entry.kind == "close":
                del reservations[reservation]
        return State(self.first or entry, entry, self.cost + changes[entry.kind], insecure, reservations)

    def following(self, entries: Iterable[Entry]) -> "State":
        """The state after these entries are appended; raises if they are not what was recorded."""
        state = self
        for entry in entries:
            seq, digest = state.head
            try:
                sound = entry.seq == seq + 1 and entry.digest == entry.chained(digest)
            except (ValueError, TypeError, RecursionError):  # not something that was ever digested
                sound = False
            if not sound:
                raise damaged(f"entry {seq + 1} is missing or has been changed")
            state = state.after(entry)
        return state


def damaged(how: str) -> PrivacyError:
    """The error for a log that cannot be trusted."""
    return PrivacyError(
        f"ledger: it is damaged, or is not the one that was opened: {how}. Nothing was spent. `discreet ledger verify` "
        "checks it again; go on with a copy of it that has every release, and with no older one"
    )


# -- released arrays on disk, with which an interrupted fit can be resumed: docs/proofs/resuming.md. Each array is
# encrypted with its own key, which goes to the ledger with the entry that says that the array is saved. Nobody can read
# a file that the ledger does not mention, or any copy of it: it is as if the array had never been drawn.


@dataclass(frozen=True)
class Checkpoint:
    """Where the releases of one reservation are kept."""

    folder: Path  # which exists
    reservation: str  # its id

    def write(self, array: npt.NDArray[Any]) -> dict[str, str]:
        """Write an array, encrypted, and sync it; returns what is needed to read it again, for the ledger."""
        kind, key = array.dtype.newbyteorder("<"), os.urandom(32)
        content = np.ascontiguousarray(array, kind).reshape(-1).view(np.uint8)
        name = f"{secrets.token_hex(16)}{SUFFIX}"
        sha256 = put(self.folder / name, _ciphered(content, key))
        return {"file": name, "sha256": sha256, "key": key.hex(), "dtype": kind.str}

    def read(self, saved: Mapping[str, Any], shape: Iterable[int]) -> npt.NDArray[Any]:
        """The array that was written; raises unless it is the one in the ledger."""
        array = np.empty(tuple(shape), np.dtype(saved["dtype"]))
        path = self.folder / saved["file"]
        content = _content(path, array.nbytes)
        if content is None or hashlib.sha256(content.data).hexdigest() != saved["sha256"]:
            raise PrivacyError(
                f"checkpoint: {str(path)!r} is {'missing' if content is None else 'not what was saved'}; the ledger "
                "says that this array was released, so it cannot be drawn again. Put the whole folder back as it was; "
                f"or close the reservation {self.reservation}, which returns what was not released, and fit again"
            )
        view = array.reshape(-1).view(np.uint8)
        at = 0
        for block in _ciphered(content, bytes.fromhex(saved["key"])):
            view[at : at + len(block)] = block
            at += len(block)
        return array


def _content(path: Path, size: int) -> npt.NDArray[np.uint8] | None:
    """The bytes of a file: none if it has another size, None if it is missing."""
    try:
        return np.fromfile(path, np.uint8) if path.stat().st_size == size else np.zeros(0, np.uint8)
    except FileNotFoundError:
        return None


def _ciphered(content: npt.NDArray[np.uint8], key: bytes) -> Iterable[npt.NDArray[np.uint8]]:
    """The content XOR the keystream of the key, which is its own inverse, a block at a time."""
    stream = Stream(key)
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK]
        yield block ^ stream.words(-(-len(block) // 8)).view(np.uint8)[: len(block)]


def put(path: Path, blocks: Iterable[Any]) -> str:
    """Write a file that is complete and on disk when it gets its name; returns its SHA-256."""
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
    """Write the names in a folder to disk."""
    if sys.platform != "win32":  # where folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
