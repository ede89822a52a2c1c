"""What a ledger keeps: its log in a database and, for a fit that can be resumed, the released arrays on disk.

The log consists of append-only entries in a hash chain. Opening the log reads all entries and adds up their costs; each
later transaction reads the entries added since, and checks that the first entry, which has the budget, and the last
known one are unchanged. A row of another table has the length and the last digest; without it, a truncated log would
look complete.

Every transaction first takes the database's lock for ledgers, so that writers in other threads, processes and
machines wait for each other. It is on disk when it ends. A long wait is logged with the holder of the lock, and ends
with an error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
import re
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet.errors import LedgerUnavailable, MissingExtra, PrivacyError
from discreet.privacy.guarantee import Cost
from discreet.privacy.noise import Stream

if TYPE_CHECKING:  # serving people needs no ledger, and importing SQLAlchemy would take longer than serving one
    import sqlalchemy as sa

BEGIN = "give epsilon and delta to begin a ledger, or create=True for one without a budget"
SUFFIX = ".release"
PATIENCE = 2.0  # seconds until the first message about a lock; the time doubles for each next one

log = logging.getLogger("discreet.ledger")

_LOCK = 7143501  # PostgreSQL's advisory lock for ledgers
_SYNCHRONOUS = 3  # SQLite's "extra": a commit is on disk, and so is the removal of the journal's name
_LOCKS = range(0x40000000, 0x40000000 + 512)  # the bytes that SQLite locks
_UNKNOWN = "another process"
_NOTHING = "Nothing was spent"
_PERHAPS = "It may have been charged all the same, as `discreet ledger show` will tell; no noise was drawn"
_ADVICE = {
    r"disk is full|No space left|could not extend": "free some space on its disk",
    r"readonly|read-only": "make the file and its folder writable, or connect to a server that is not a standby",
    r"permission denied|authentication|role .* does not exist": "check whether this user may read and write there",
    r"connect|server closed|terminating|shutting down|starting up": "check whether the server runs and can be reached",
    r"not a database|malformed": "the file is damaged or no database of SQLite; restore a copy of it",
    r"unable to open|disk I/O": "check whether its folder exists, is writable and has room, and the disk is sound",
}
_TABLES = (
    "create table discreet_ledger (name varchar(200) not null primary key, seq integer not null, "
    "digest varchar(64) not null)",
    "create table discreet_ledger_entry (name varchar(200) not null, seq integer not null, kind varchar(20) not null, "
    "body text not null, digest varchar(64) not null, primary key (name, seq))",
)
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
        """The cost in its body; an empty cost if it has none."""
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

    def after(self, entry: Entry) -> State:
        """The state after an entry is appended."""
        cost, drawn, reservation = entry.cost, entry.kind in ("release", "charge"), entry.body.get("reservation")
        paid = Cost() if reservation else cost  # by its reservation, if it has one
        free = dict.fromkeys(("open", "saved"), Cost())
        changes = {**free, "reserve": cost, "release": paid, "charge": cost, "close": cost * -1}
        if entry.kind not in changes:
            raise PrivacyError(f"ledger: entry {entry.seq} is of an unknown kind {entry.kind!r}; its cost is not known")
        insecure = self.insecure or (drawn and entry.body.get("secure") is not True)
        reservations = self.reservations
        if reservation and (entry.kind == "reserve" or reservation in reservations):  # it is open
            reservations = {**reservations, reservation: (*reservations.get(reservation, ()), entry)}
            if entry.kind == "close":
                del reservations[reservation]
        return State(self.first or entry, entry, self.cost + changes[entry.kind], insecure, reservations)

    def following(self, entries: Iterable[Entry]) -> State:
        """The state after these entries are appended; raises if they are not what was recorded."""
        state = self
        for entry in entries:
            seq, digest = state.head
            try:
                sound = entry.seq == seq + 1 and entry.digest == entry.chained(digest)
            except (ValueError, TypeError, RecursionError):  # it cannot have had a digest
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


@cache  # parsing it again would take longer than running it
def _statement(text: str) -> sa.TextClause:
    import sqlalchemy as sa

    return sa.text(text)


def _run(connection: sa.Connection, statement: str, **values: Any) -> Any:
    return connection.execute(_statement(statement), values)


class Transaction:
    """A locked transaction: while it lasts, nobody else writes, and `state` has been checked."""

    def __init__(self, connection: sa.Connection, name: str, known: State) -> None:
        self._connection, self._name = connection, name
        seqs = {entry.seq: entry for entry in (known.first, known.last) if entry}
        since = {"first": min(seqs), "last": max(seqs)} if seqs else {}
        entries = self._read("and (seq = :first or seq >= :last)" if seqs else "", **since)
        for seq, entry in seqs.items():
            if entry not in entries:
                raise damaged(f"entry {seq} is missing or has been changed")
            entries.remove(entry)
        self.state = known.following(entries)
        row = _run(connection, "select seq, digest from discreet_ledger where name = :name", name=name).first()
        self._require(self.state, (0, "") if row is None else (row.seq, row.digest))

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry to the log; it is lost if the transaction does not commit."""
        dated = {**body, "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        seq, digest = self.state.head
        draft = Entry(seq + 1, kind, json.loads(canonical(dated)), "")
        entry = Entry(draft.seq, kind, draft.body, draft.chained(digest))
        change = "update discreet_ledger set seq = :seq, digest = :digest where name = :name"
        row = {"name": self._name, "seq": entry.seq, "digest": entry.digest}
        added = "insert into discreet_ledger_entry values (:name, :seq, :kind, :body, :digest)"
        _run(self._connection, added, **row, kind=kind, body=canonical(entry.body))
        _run(self._connection, change if seq else "insert into discreet_ledger values (:name, :seq, :digest)", **row)
        self.state = self.state.after(entry)
        return entry

    def entries(self, reservation: str | None = None) -> list[Entry]:
        """The log, in order and checked as a whole, or the entries of a reservation."""
        if reservation is not None and reservation in self.state.reservations:
            return list(self.state.reservations[reservation])
        entries = self._read()
        self._require(State().following(entries), self.state.head)
        return [entry for entry in entries if reservation in (None, entry.body.get("reservation"))]

    def _read(self, which: str = "", **seqs: int) -> list[Entry]:
        query = f"select * from discreet_ledger_entry where name = :name {which} order by seq"
        entries = []
        for row in _run(self._connection, query, name=self._name, **seqs):
            try:
                body = json.loads(row.body)
            except (ValueError, TypeError, RecursionError):
                raise damaged(f"entry {row.seq} cannot be read") from None
            entries.append(Entry(row.seq, row.kind, body, row.digest))
        return entries

    @staticmethod
    def _require(state: State, head: tuple[int, str]) -> None:
        if state.head != head:
            raise damaged(f"{head[0]} entries were recorded, but the log is another one or has {state.head[0]}")


class Store:
    """The log called `name` in a database; without a URL in memory, for this process only."""

    def __init__(self, url: str | None, name: str, create: bool, lock_timeout: float) -> None:
        self.name, self._lock_timeout = name, lock_timeout
        self._engine = _engine(url or "sqlite://", create, lock_timeout)
        memory = _in_memory(self._engine)
        self._process = os.getpid() if memory else None
        self._lock = threading.RLock() if memory else nullcontext()  # its one connection serves all threads
        weakref.finalize(self, self._engine.dispose)
        self._where = self._engine.url.set(query={}).render_as_string()  # without its password
        self.url = None if memory else self._engine.url.set(password=None).render_as_string()  # for display
        self._known = State()  # the state of the log as this object last saw it
        with self._connection() as connection:
            if not self._engine.dialect.has_table(connection, "discreet_ledger"):
                if not create:
                    raise PrivacyError(f"url: there is no ledger in this database; {BEGIN}")
                for table in _TABLES:
                    _run(connection, table)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Lock and check, and commit at the end; nothing is kept if there is an exception."""
        with self._connection() as connection:
            transaction = Transaction(connection, self.name, self._known)
            self._known = transaction.state
            yield transaction
        self._known = transaction.state

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        if self._process not in (None, os.getpid()):
            raise PrivacyError(
                "ledger: one kept in memory cannot be used in a forked process, where a copy would forget what the "
                "original spends; give it a URL, e.g. Ledger('sqlite:///ledger.db', ...)"
            )
        from sqlalchemy.exc import SQLAlchemyError

        known = _NOTHING
        try:
            with self._lock, self._engine.connect() as connection:
                self._acquire(connection)
                yield connection
                known = _PERHAPS
                connection.commit()
        except (SQLAlchemyError, OSError) as error:
            said = " ".join(str(getattr(error, "orig", None) or error).split())
            advice = next((f"; {x}" for cause, x in _ADVICE.items() if re.search(cause, said, re.IGNORECASE)), "")
            raise LedgerUnavailable(f"url: {self._where} cannot be used ({said}){advice}. {known}") from None

    def _acquire(self, connection: sa.Connection) -> None:
        """Begin a transaction with the lock; log who has it while waiting, and give up after the timeout."""
        take, holder = (_take_file, _file_holder) if self._engine.dialect.name == "sqlite" else (_take, _holder)
        started, patience = time.monotonic(), PATIENCE
        while not take(connection, min(patience, max(self._lock_timeout - (time.monotonic() - started), 0.001))):
            waited, text = time.monotonic() - started, f"{self._where} is locked by {holder(connection)}"
            if waited >= self._lock_timeout:
                raise LedgerUnavailable(
                    f"ledger: {text}; waited for {waited:.0f} s. {_NOTHING}. End that process or let it go on, and try "
                    "again, or give a longer lock_timeout"
                )
            log.warning("The ledger in %s; waited for %.0f s of at most %.0f", text, waited, self._lock_timeout)
            patience = min(patience * 2, 60)


def _take_file(connection: sa.Connection, seconds: float) -> bool:
    """Begin with all of SQLite's locks, so that nothing has to wait later; False if others keep them that long."""
    from sqlalchemy.exc import OperationalError

    run = connection.exec_driver_sql
    run(f"pragma busy_timeout = {math.ceil(seconds * 1000)}")
    try:
        run("pragma fullfsync = on")  # on macOS a plain fsync leaves data in the cache of the drive
        run(f"pragma synchronous = {_SYNCHRONOUS}")
        run("begin exclusive")
    except OperationalError as error:
        if "locked" not in str(error.orig):
            raise
        return False
    mode, synchronous = (run(f"pragma {setting}").scalar_one() for setting in ("journal_mode", "synchronous"))
    usual = "memory" if _in_memory(connection.engine) else "delete"
    if (mode, synchronous) != (usual, _SYNCHRONOUS):
        raise PrivacyError(
            f"url: this database has journal_mode {mode} and synchronous {synchronous}, but a ledger needs {usual} and "
            f"{_SYNCHRONOUS} (extra) to outlive a loss of power; see `pragma journal_mode` in SQLite's manual"
        )
    return True


def _file_holder(connection: sa.Connection) -> str:
    """Which processes have SQLite's locks on a file, if Linux tells. Opening the file would drop our own locks."""
    try:
        inode = os.stat(str(connection.engine.url.database)).st_ino
        # such as "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 1073741824 1073742335"
        locks = [line.split()[1:7] for line in Path("/proc/locks").read_text().splitlines()]
        found = {
            int(pid): access
            for kind, _, access, pid, file, start in locks
            if kind == "POSIX" and file.endswith(f":{inode}") and int(start) in _LOCKS
        }
    except (OSError, ValueError):
        found = {}
    writers = [pid for pid, access in found.items() if access == "WRITE"]
    own = {os.getpid(): "another thread of this process"}
    return ", ".join(own.get(pid, f"process {pid}") for pid in writers or found) or _UNKNOWN


def _take(connection: sa.Connection, seconds: float) -> bool:
    """Begin with PostgreSQL's advisory lock; False if others keep it that long."""
    from sqlalchemy.exc import OperationalError

    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{math.ceil(seconds * 1000)}ms",
        "application_name": f"discreet, process {os.getpid()} on {platform.node()}"[:63],  # shown to those who wait
    }
    try:
        for name, value in settings.items():
            _run(connection, "select set_config(:name, :value, true)", name=name, value=value)
        _run(connection, "select pg_advisory_xact_lock(:lock)", lock=_LOCK)
    except OperationalError as error:
        if getattr(error.orig, "sqlstate", None) != "55P03":
            raise
        connection.rollback()
        return False
    return True


def _holder(connection: sa.Connection) -> str:
    """Who has PostgreSQL's advisory lock, by the name that `_take` gives to a connection."""
    query = """
        select application_name from pg_locks join pg_stat_activity using (pid)
        where locktype = 'advisory' and classid = 0 and objid = :lock and granted
          and database = (select oid from pg_database where datname = current_database())
    """
    name: str | None = _run(connection, query, lock=_LOCK).scalar()
    connection.rollback()
    return name or _UNKNOWN


def _in_memory(engine: sa.Engine) -> bool:
    return engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:")


def _engine(url: str, create: bool, lock_timeout: float) -> sa.Engine:
    import sqlalchemy as sa

    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise PrivacyError("url: this is not a database URL; for a file use sqlite:///ledger.db") from None
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        limit = {} if "connect_timeout" in parsed.query else {"connect_timeout": math.ceil(min(lock_timeout, 60))}
        try:
            return sa.create_engine(parsed, poolclass=sa.NullPool, isolation_level="READ COMMITTED", connect_args=limit)
        except ImportError:
            raise MissingExtra("a ledger in PostgreSQL", "postgres") from None
    if kind != "sqlite":
        raise PrivacyError(f"url: ledgers are kept in sqlite:/// or postgresql://, not {kind}")
    path = parsed.database or ":memory:"
    if parsed != sa.URL.create(parsed.drivername, database=parsed.database) or path.startswith("file:"):
        raise PrivacyError(
            "url: for a ledger in SQLite it is sqlite:///FILE and no more; options such as nolock, immutable or vfs "
            "could turn off the locks or the syncs that keep its budget"
        )
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise PrivacyError(f"url: ledgers use the sqlite3 of Python, not {parsed.drivername}; use sqlite:///FILE")
    memory = path == ":memory:"
    if not create and not memory and not Path(path).is_file():
        raise PrivacyError(f"url: there is no file {path!r}; {BEGIN}")
    # A connection per transaction, so that none is shared with a forked process; in memory, one for all threads. The
    # driver must not begin transactions on its own.
    options = {"check_same_thread": False, "isolation_level": None}
    return sa.create_engine(parsed, connect_args=options, poolclass=sa.StaticPool if memory else sa.NullPool)


# -- released arrays on disk, with which an interrupted fit can be resumed: docs/proofs/resuming.md. Each array is
# encrypted with its own key, which goes to the ledger with the entry that says that the array is saved. Nobody can read
# a file that the ledger does not mention, or any copy of it: it is as if the array had never been drawn.


@dataclass(frozen=True)
class Checkpoint:
    """Where the releases of one reservation are kept."""

    folder: Path  # an existing folder
    reservation: str  # the id of the reservation

    def write(self, array: npt.NDArray[Any]) -> dict[str, str]:
        """Write an array, encrypted, and sync it; returns an entry for the ledger with which it can be read again."""
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
    """The bytes of a file: an empty array if its size is not the expected one, None if it is missing."""
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
    """Write a file atomically: it gets its name once it is complete and on disk. Returns its SHA-256."""
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
    """Sync a folder, so that the names of its files are on disk."""
    if sys.platform != "win32":  # where folders cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
