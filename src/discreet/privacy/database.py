"""The log of a ledger in a database.

Opening it reads it from the first entry to the last and adds it up; each later transaction reads the entries added
since, and checks that the first entry, which has the budget, and the last known one are unchanged. A row of another
table has the length and the last digest: without it a truncated log would look complete.

Every transaction first takes the database's one lock for ledgers, so that writers in other threads, processes and
machines wait for each other, and is on disk when it ends. A long wait is logged, with who has the lock, and ends with
an error.
"""

import json
import logging
import math
import os
import platform
import re
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from discreet.errors import LedgerUnavailable, MissingExtra, PrivacyError
from discreet.privacy.store import BEGIN, Entry, State, canonical, damaged

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
    r"permission denied|authentication|role .* does not exist": "see whether this user may read and write there",
    r"connect|server closed|terminating|shutting down|starting up": "see whether the server runs and can be reached",
    r"not a database|malformed": "the file is damaged or no database of SQLite; restore a copy of it",
    r"unable to open|disk I/O": "see whether its folder exists, can be written to and has room, and the disk is sound",
}
_metadata = sa.MetaData()
_heads = sa.Table(
    "discreet_ledger",
    _metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
_entries = sa.Table(
    "discreet_ledger_entry",
    _metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)


# Put together once: that would take longer than to run them.
_COLUMNS = (_entries.c.seq, _entries.c.kind, _entries.c.body, _entries.c.digest)
_WHOLE = sa.select(*_COLUMNS).where(_entries.c.name == sa.bindparam("log")).order_by(_entries.c.seq)
_SINCE = _WHOLE.where((_entries.c.seq == sa.bindparam("first")) | (_entries.c.seq >= sa.bindparam("last")))
_HEAD = sa.select(_heads.c.seq, _heads.c.digest).where(_heads.c.name == sa.bindparam("log"))
_ADVANCE = sa.update(_heads).where(_heads.c.name == sa.bindparam("log"))


class Transaction:
    """While it lasts, the lock is held and the state, which has been checked, can be trusted."""

    def __init__(self, connection: sa.Connection, name: str, known: State) -> None:
        self._connection, self._name = connection, name
        if known.first is None or known.last is None:
            entries = self._read(_WHOLE)
        else:
            entries = self._read(_SINCE, first=known.first.seq, last=known.last.seq)
            for entry in {known.first.seq: known.first, known.last.seq: known.last}.values():
                if entry not in entries:
                    raise damaged(f"entry {entry.seq} is missing or has been changed")
                entries.remove(entry)
        self.state = known.following(entries)
        row = connection.execute(_HEAD, {"log": name}).first()
        self._require(self.state, (0, "") if row is None else (row.seq, row.digest))

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry to the log; it is lost if the transaction does not commit."""
        dated = {**body, "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        seq, digest = self.state.head
        draft = Entry(seq + 1, kind, json.loads(canonical(dated)), "")
        entry = Entry(draft.seq, kind, draft.body, draft.chained(digest))
        head = {"seq": entry.seq, "digest": entry.digest}
        row = {**head, "name": self._name, "kind": kind, "body": canonical(entry.body)}
        self._connection.execute(sa.insert(_entries), row)
        if seq:
            self._connection.execute(_ADVANCE, {**head, "log": self._name})
        else:
            self._connection.execute(sa.insert(_heads), {**head, "name": self._name})
        self.state = self.state.after(entry)
        return entry

    def entries(self, reservation: str | None = None) -> list[Entry]:
        """The log, in order and checked as a whole, or the entries of a reservation."""
        if reservation is not None and reservation in self.state.reservations:
            return list(self.state.reservations[reservation])
        entries = self._read(_WHOLE)
        self._require(State().following(entries), self.state.head)
        return [entry for entry in entries if reservation in (None, entry.body.get("reservation"))]

    def _read(self, query: sa.Select[Any], **seqs: int) -> list[Entry]:
        entries = []
        for row in self._connection.execute(query, {"log": self._name, **seqs}):
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
        memory = isinstance(self._engine.pool, StaticPool)
        self._process = os.getpid() if memory else None
        self._lock = threading.RLock() if memory else nullcontext()  # its one connection serves all threads
        weakref.finalize(self, self._engine.dispose)
        self._where = self._engine.url.set(query={}).render_as_string()  # without its password
        self.url = None if memory else self._engine.url.set(password=None).render_as_string()  # for others to see
        self._known = State()  # the state of the log as this object last saw it
        with self._connection() as connection:
            if create:
                _metadata.create_all(connection)
            elif not sa.inspect(connection).has_table(_heads.name):
                raise PrivacyError(f"url: there is no ledger in this database; {BEGIN}")

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
        known = _NOTHING
        try:
            with self._lock, self._engine.connect() as connection:
                self._acquire(connection)
                yield connection
                known = _PERHAPS
                connection.commit()
        except (sa.exc.SQLAlchemyError, OSError) as error:
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
    run = connection.exec_driver_sql
    run(f"pragma busy_timeout = {math.ceil(seconds * 1000)}")
    try:
        run("pragma fullfsync = on")  # on macOS a plain fsync leaves data in the cache of the drive
        run(f"pragma synchronous = {_SYNCHRONOUS}")
        run("begin exclusive")
    except sa.exc.OperationalError as error:
        if "locked" not in str(error.orig):
            raise
        return False
    mode, synchronous = (run(f"pragma {setting}").scalar_one() for setting in ("journal_mode", "synchronous"))
    usual = "memory" if isinstance(connection.engine.pool, StaticPool) else "delete"
    if (mode, synchronous) != (usual, _SYNCHRONOUS):
        raise PrivacyError(
            f"url: this database has journal_mode {mode} and synchronous {synchronous}, but a ledger needs {usual} and "
            f"{_SYNCHRONOUS} (extra) to outlive a loss of power; see `pragma journal_mode` in SQLite's manual"
        )
    return True


def _file_holder(connection: sa.Connection) -> str:
    """Which processes have SQLite's locks on a file, if Linux tells. Opening the file would drop our own."""
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
    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{math.ceil(seconds * 1000)}ms",
        "application_name": f"discreet, process {os.getpid()} on {platform.node()}"[:63],  # shown to those who wait
    }
    try:
        connection.execute(sa.select(*(sa.func.set_config(key, value, True) for key, value in settings.items())))
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    except sa.exc.OperationalError as error:
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
    name: str | None = connection.execute(sa.text(query), {"lock": _LOCK}).scalar()
    connection.rollback()
    return name or _UNKNOWN


def _engine(url: str, create: bool, lock_timeout: float) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise PrivacyError("url: this is not a database URL; for a file use sqlite:///ledger.db") from None
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        limit = {} if "connect_timeout" in parsed.query else {"connect_timeout": math.ceil(min(lock_timeout, 60))}
        try:
            return sa.create_engine(parsed, poolclass=NullPool, isolation_level="READ COMMITTED", connect_args=limit)
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
    return sa.create_engine(parsed, connect_args=options, poolclass=StaticPool if memory else NullPool)
