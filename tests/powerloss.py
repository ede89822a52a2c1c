"""What a loss of power can leave on a disk, after a trace of what a process did to its files.

A shim (powerloss.c) writes down every change to the files of a folder and every sync. The disk has for sure what was
synced: the content of a file by a sync of the file, the names in a folder by a sync of the folder. Of all else it may
have any part, in any order, and of a write any sectors. `crashes` gives the folders that may be found: for every moment
before a sync or at a mark, all choices if they are few, else the telling ones and some by chance. That is all that
POSIX promises; file systems promise more.
"""

import itertools
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512  # bytes that are written as a whole or not at all
HEADER = struct.Struct("=QQQQQ")
ON_DISK = "all of this is on disk"  # a mark

State = dict[str, bytes | None]  # path -> content; None for a folder


class Unavailable(Exception):
    """Nothing can be traced here, and why."""


# -- in the process that is traced


def mark(text: str) -> None:
    """Note in the trace that something has happened."""
    handle = os.open(os.environ["POWERLOSS_TRACE"], os.O_WRONLY | os.O_APPEND)
    os.write(handle, HEADER.pack(ord("m"), 0, 0, len(text.encode()), 0) + text.encode())
    os.close(handle)


# -- outside


@dataclass(frozen=True)
class Event:
    """A record of the trace: a change, a sync or a mark."""

    kind: str
    inode: int
    offset: int
    first: bytes
    second: bytes


def worlds(events: list[Event]) -> dict[str, list[Event]]:
    """The events after each mark "world NAME", by that name."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.kind == "m" and event.first.startswith(b"world "):
            found[event.first[6:].decode()] = []
        else:
            found[next(reversed(found))].append(event)
    return found


def traced(folder: Path, code: str, *arguments: str) -> tuple[list[Event], str]:
    """Run Python code with the folder in a process of its own; what it did to the folder, and what it printed."""
    if sys.platform != "linux":
        raise Unavailable("it takes LD_PRELOAD and /proc, as on Linux")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise Unavailable("there is no C compiler")
    shim, trace = folder.with_suffix(".so"), folder.with_suffix(".trace")
    source = Path(__file__).with_suffix(".c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl", "-lpthread"], check=True)
    trace.touch()
    folder.mkdir()
    names = {"LD_PRELOAD": str(shim), "POWERLOSS_FOLDER": str(folder), "POWERLOSS_TRACE": str(trace)}
    places = os.pathsep.join([str(source.parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), *arguments],
        env={**os.environ, **names, "PYTHONPATH": places},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    events, rest = [], trace.read_bytes()
    while rest:
        kind, inode, offset, first, second = HEADER.unpack_from(rest)
        texts = rest[HEADER.size : HEADER.size + first + second]
        events.append(Event(chr(kind), inode, offset, texts[:first], texts[first:]))
        rest = rest[HEADER.size + first + second :]
    everything = Disk()
    for event in events:
        everything.add(event)
    if everything.state(everything.pending) != found(folder):
        raise AssertionError("the trace does not lead to what is in the folder: the shim has missed something")
    return events, done.stdout


def found(folder: Path) -> State:
    """What is in a folder."""
    return {str(path): None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def restore(state: State, root: Path, at: Path) -> None:
    """Make a folder hold what would be found in `root`."""
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir()
    for path, content in sorted(state.items()):
        if path != str(root):
            place = at / Path(path).relative_to(root)
            if content is None:
                place.mkdir()
            else:
                place.write_bytes(content)


@contextmanager
def ram() -> Iterator[Path]:
    """A folder whose syncs cost nothing, where there is one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@dataclass(eq=False)
class File:
    """A file that may have any number of names."""

    content: bytes = b""


@dataclass(eq=False)
class Change:
    """Something that is not on disk for sure: names, part of a file's content, or its size."""

    names: dict[str, File | None] = field(default_factory=dict)  # None: a folder
    gone: tuple[str, ...] = ()
    file: File | None = None
    offset: int = 0
    data: bytes | None = None  # None: cut off at the offset

    def sectors(self) -> "list[Change]":
        """A write in parts that are written as a whole or not at all."""
        if self.data is None:
            return [self]
        ends = range(self.offset - self.offset % SECTOR + SECTOR, self.offset + len(self.data), SECTOR)
        cuts = [self.offset, *ends, self.offset + len(self.data)]
        return [
            Change(file=self.file, offset=a, data=self.data[a - self.offset : b - self.offset])
            for a, b in itertools.pairwise(cuts)
        ]


class Disk:
    """What is on disk for sure, and the changes that are not, in their order."""

    def __init__(self) -> None:
        self.names: dict[str, File | None] = {}
        self.pending: list[Change] = []
        self._now: dict[str, File | None] = {}  # the names as the process sees them
        self._files: dict[int, File] = {}

    def add(self, event: Event) -> None:
        """Go on by an event."""
        first, second = event.first.decode(errors="replace"), event.second.decode(errors="replace")
        if event.kind == "c":
            self._files[event.inode] = File()  # an inode that is free may be used again
            self._rename(Change(names={first: self._files[event.inode]}))
        elif event.kind == "d":
            self._rename(Change(names={first: None}))
        elif event.kind == "u":
            self._rename(Change(gone=(first,)))
        elif event.kind == "r":
            self._rename(Change(names={second: self._now[first]}, gone=(first,)))
        elif event.kind == "w":
            self.pending.append(Change(file=self._files[event.inode], offset=event.offset, data=event.first))
        elif event.kind == "t":
            self.pending.append(Change(file=self._files[event.inode], offset=event.offset))
        elif event.kind == "s":
            self._sync([change for change in self.pending if change.file is self._files[event.inode]])
        elif event.kind == "S":
            self._sync([c for c in self.pending if any(os.path.dirname(x) == first for x in (*c.names, *c.gone))])
        elif event.kind == "m" and first == ON_DISK:
            self._sync(list(self.pending))

    def _rename(self, change: Change) -> None:
        self.pending.append(change)
        _apply_names(self._now, change)

    def _sync(self, changes: list[Change]) -> None:
        for change in changes:
            if change.file is None:
                _apply_names(self.names, change)
            else:
                change.file.content = _written(change.file.content, change, b"\0")
            self.pending.remove(change)

    def state(self, chosen: list[Change], garbage: random.Random | None = None) -> State:
        """What is found if, of the changes that are not on disk for sure, these are."""
        names, contents = dict(self.names), dict[File, bytes]()
        for change in chosen:
            if change.file is None:
                _apply_names(names, change)
            else:
                fill = garbage.randbytes(1) if garbage else b"\0"
                contents[change.file] = _written(contents.get(change.file, change.file.content), change, fill)
        state: State = {}
        for path, file in sorted(names.items()):
            if os.path.dirname(path) in state or os.path.dirname(path) not in self._now:
                state[path] = None if file is None else contents.get(file, file.content)
        return state


def _apply_names(names: dict[str, File | None], change: Change) -> None:
    for name in change.gone:
        names.pop(name, None)
    names.update(change.names)


def _written(content: bytes, change: Change, fill: bytes) -> bytes:
    """The content of a file after a change; what was never written before it is filled up."""
    before = content[: change.offset].ljust(change.offset, fill)
    return before if change.data is None else before + change.data + content[change.offset + len(change.data) :]


def choices(pending: list[Change], rng: random.Random, many: int) -> Iterator[list[Change]]:
    """What may be on the disk: all parts if they are at most `many`, else the telling ones, and some by chance."""
    if 2 ** len(pending) <= many:
        for size in range(len(pending) + 1):
            yield from map(list, itertools.combinations(pending, size))
    else:
        for place, change in enumerate(pending):
            yield pending[:place]
            yield [change]
            yield [other for other in pending if other is not change]
        yield pending
        for _ in range(many):
            yield [change for change in pending if rng.random() < 0.5]
    torn = [change for change in pending if len(change.sectors()) > 1]
    for change in torn if many >= 64 else torn[-1:]:
        for others in ([], [other for other in pending if other is not change]):
            for keep in (slice(None, None, 2), slice(1, None, 2), slice(len(change.sectors()) // 2)):
                yield sorted([*others, *change.sectors()[keep]], key=lambda one: _order(pending, change, one))
    for _ in range(many // 8 if torn else 0):
        yield [part for change in pending for part in change.sectors() if rng.random() < 0.5]


def _order(pending: list[Change], torn: Change, one: Change) -> int:
    return next(place for place, change in enumerate(pending) if change is (one if one in pending else torn))


def crashes(events: list[Event], many: int = 16, seed: int = 0) -> Iterator[tuple[State, list[str]]]:
    """Every folder that may be found, with the marks that had been made by then; each pair once."""
    disk, rng, marks, seen = Disk(), random.Random(seed), list[str](), set[int]()
    for event in [*events, Event("m", 0, 0, b"", b"")]:
        if event.kind in ("s", "S", "m"):
            for number, chosen in enumerate(choices(list(disk.pending), rng, many)):
                state = disk.state(chosen, rng if number % 2 else None)
                key = hash((frozenset(state.items()), tuple(marks)))
                if key not in seen:
                    seen.add(key)
                    yield state, list(marks)
        disk.add(event)
        if event.kind == "m":
            marks.append(event.first.decode())
