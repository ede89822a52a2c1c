"""A database for ledgers: transactions under one lock that are on disk when they end, and errors in plain words.

Every transaction first takes the database's one lock for ledgers, so that writers in other threads, processes and
machines wait for each other. Who waits for long is told for whom, and not without end.
"""

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
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from discreet.errors import LedgerUnavailable, MissingExtra, PrivacyError

BEGIN = "give epsilon and delta to begin a ledger, or create=True for one without a budget"
PATIENCE = 2.0  # seconds until the first message about a lock; each next one comes after twice the time

log = logging.getLogger("discreet.ledger")

_LOCK = 7143501  # PostgreSQL's advisory lock for ledgers
_SYNCHRONOUS = 3  # SQLite's "extra": what is committed is on disk, and so is the name of the journal being gone
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


class Database:
    """Where ledgers are kept; without a URL in memory, for this process only."""

    def __init__(self, url: str | None, create: bool, lock_timeout: float) -> None:
        self._engine = _engine(url or "sqlite://", create, lock_timeout)
        self._lock_timeout = lock_timeout
        memory = isinstance(self._engine.pool, StaticPool)
        self._process = os.getpid() if memory else None
        self._lock = threading.RLock() if memory else nullcontext()  # its one connection serves all threads
        weakref.finalize(self, self._engine.dispose)
        self._where = self._engine.url.set(query={}).render_as_string()  # without its password
        self.url = None if memory else self._engine.url.set(password=None).render_as_string()  # for others to see

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """Lock, and commit on the way out; nothing is kept if there is an exception."""
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
        """Begin a transaction that has the lock; say whom we wait for, and give up in the end."""
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
    """Begin with all of SQLite's locks, so that nothing has to wait later on; False if they are taken for so long."""
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
    """Which processes have SQLite's locks on a file, if Linux says so. Opening the file would drop our own."""
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
    return ", ".join(_process(pid) for pid in writers or found) or _UNKNOWN


def _process(pid: int) -> str:
    """A process of this machine for people: its id, its name and what it is doing."""
    if pid == os.getpid():
        return "another thread of this process"
    try:
        about = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    except (OSError, ValueError):
        return f"process {pid}"
    state = about["State"].partition(" ")[2].strip("()")
    return f"process {pid} ({about['Name']}, {state})"


def _take(connection: sa.Connection, seconds: float) -> bool:
    """Begin with PostgreSQL's advisory lock; False if it is taken for so long."""
    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{math.ceil(seconds * 1000)}ms",
        "application_name": f"discreet, process {os.getpid()} on {platform.node()}"[:63],  # for those who wait
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
    """Who has PostgreSQL's advisory lock, as far as the server tells us."""
    query = """
        select pid, application_name as name, coalesce(host(client_addr), 'the same machine') as host, state,
               extract(epoch from clock_timestamp() - xact_start) as seconds
        from pg_locks join pg_stat_activity using (pid)
        where locktype = 'advisory' and classid = 0 and objid = :lock and granted
          and database = (select oid from pg_database where datname = current_database())
    """
    row = connection.execute(sa.text(query), {"lock": _LOCK}).first()
    connection.rollback()
    if row is None or row.seconds is None:
        return _UNKNOWN if row is None else f"the server's process {row.pid}"
    return f"{row.name!r} from {row.host} (the server's process {row.pid}, {row.state}, for {row.seconds:.0f} s)"


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
