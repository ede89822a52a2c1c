"""The ledger's log on a database: append-only entries in a hash chain, under one lock.

Every change happens in a transaction that first takes the database's one lock for ledgers, so that writers in
other threads, processes and machines wait for each other, and that is on disk before it returns.
"""

import hashlib
import json
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool, StaticPool

from discreet.errors import MissingExtra, PrivacyError
from discreet.privacy.accounting import Cost

BEGIN = "give epsilon and delta to begin a ledger, or create=True for one without a budget"

_metadata = sa.MetaData()
_state = sa.Table(
    "discreet_ledger",
    _metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
)
_entries = sa.Table(
    "discreet_ledger_entry",
    _metadata,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("reservation", sa.String(40)),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)


def canonical(data: Any) -> str:
    """JSON in the one form that digests are taken of."""
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
        """What was released."""
        return str(self.body.get("label", ""))

    @property
    def cost(self) -> Cost:
        """What it costs."""
        return Cost.from_json(self.body["cost"]) if "cost" in self.body else Cost()

    def chained(self, previous: str) -> str:
        """The digest this entry must have after one with the digest `previous`."""
        content = canonical([previous, self.seq, self.kind, self.body])
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class State:
    """What the log adds up to: its length and last digest, the total cost, and whether noise was insecure."""

    seq: int = 0
    digest: str = ""
    cost: Cost = field(default_factory=Cost)
    insecure: bool = False

    def after(self, entry: Entry) -> "State":
        """The state once an entry has been appended."""
        cost, drawn = entry.cost, entry.kind in ("release", "charge")
        paid = Cost() if entry.body.get("reservation") else cost  # by the reservation, if there is one
        changes = {
            "open": Cost(),
            "reserve": cost,
            "release": paid,
            "saved": Cost(),
            "charge": cost,
            "close": cost * -1,
        }
        if entry.kind not in changes:
            raise PrivacyError(f"ledger: entry {entry.seq} is of an unknown kind {entry.kind!r}; its cost is not known")
        insecure = self.insecure or (drawn and entry.body.get("secure") is not True)
        return State(entry.seq, entry.digest, self.cost + changes[entry.kind], insecure)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "cost": self.cost.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "State":
        """The inverse of `to_json`."""
        return cls(data["seq"], data["digest"], Cost.from_json(data["cost"]), data["insecure"])


class Transaction:
    """The lock is held: the state can be trusted until the transaction ends."""

    def __init__(self, connection: sa.Connection, name: str) -> None:
        self._connection, self._name = connection, name
        row = connection.execute(sa.select(_state.c.state).where(_state.c.name == name)).scalar()
        self.state = State.from_json(json.loads(row)) if row else State()
        if not row:
            values = {"name": name, "state": canonical(self.state.to_json())}
            connection.execute(sa.insert(_state).values(values))

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry to the log; it is lost if the transaction does not commit."""
        dated = {**body, "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        draft = Entry(self.state.seq + 1, kind, json.loads(canonical(dated)), "")
        entry = Entry(draft.seq, kind, draft.body, draft.chained(self.state.digest))
        row = {"name": self._name, "seq": entry.seq, "kind": kind, "reservation": body.get("reservation")}
        self._connection.execute(
            sa.insert(_entries).values({**row, "body": canonical(entry.body), "digest": entry.digest})
        )
        self.state = self.state.after(entry)
        update = sa.update(_state).where(_state.c.name == self._name)
        self._connection.execute(update.values(state=canonical(self.state.to_json())))
        return entry

    def entries(self, reservation: str | None = None, first: bool = False) -> list[Entry]:
        """The log, in order: all of it, what belongs to a reservation, or its first entry."""
        columns = (_entries.c.seq, _entries.c.kind, _entries.c.body, _entries.c.digest)
        query = sa.select(*columns).where(_entries.c.name == self._name).order_by(_entries.c.seq)
        query = query.where(_entries.c.reservation == reservation) if reservation else query
        rows = self._connection.execute(query.limit(1) if first else query).all()
        return [Entry(row.seq, row.kind, json.loads(row.body), row.digest) for row in rows]


class Store:
    """The log called `name` in a database; without a URL in memory, for this process only."""

    def __init__(self, url: str | None, name: str, create: bool) -> None:
        self.name = name
        self._engine = _engine(url or "sqlite://", create)
        memory = isinstance(self._engine.pool, StaticPool)
        self._process = os.getpid() if memory else None
        self.url = None if memory else self._engine.url.set(password=None).render_as_string()  # for others to see
        self._lock = threading.RLock() if memory else nullcontext()  # its one connection serves all threads
        weakref.finalize(self, self._engine.dispose)
        try:
            with self._begin() as connection:
                if create:
                    _metadata.create_all(connection)
                elif not sa.inspect(connection).has_table(_state.name):
                    raise PrivacyError(f"url: there is no ledger in this database; {BEGIN}")
        except sa.exc.DBAPIError as error:
            raise PrivacyError(f"url: the database cannot be opened ({error.orig})") from None

    @contextmanager
    def _begin(self) -> Iterator[sa.Connection]:
        with self._lock, self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":
                connection.execute(sa.text("set local synchronous_commit = on"))
                connection.execute(sa.text("select pg_advisory_xact_lock(7143501)"))
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Lock, and commit on the way out; nothing is kept if there is an exception."""
        if self._process not in (None, os.getpid()):
            raise PrivacyError(
                "ledger: one kept in memory cannot be used in a forked process, where a copy would forget what the "
                "original spends; give it a URL, e.g. Ledger('sqlite:///ledger.db', ...)"
            )
        with self._begin() as connection:
            yield Transaction(connection, self.name)


def _engine(url: str, create: bool) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        raise PrivacyError(f"url: {url!r} is not a database URL; for a file use sqlite:///ledger.db") from None
    kind = parsed.get_backend_name()
    if kind == "postgresql":
        try:
            return sa.create_engine(
                parsed.set(drivername="postgresql+psycopg"), poolclass=NullPool, isolation_level="READ COMMITTED"
            )
        except ImportError:
            raise MissingExtra("a ledger in PostgreSQL", "postgres") from None
    if kind != "sqlite":
        raise PrivacyError(f"url: ledgers are kept in sqlite:/// or postgresql://, not {kind}")
    # A connection per transaction, so that none is shared with a forked process; in memory, one for all threads.
    memory = not parsed.database or ":memory:" in parsed.database or "mode=memory" in url
    pool = StaticPool if memory else NullPool
    if not create and not memory and not Path(str(parsed.database).removeprefix("file:").partition("?")[0]).is_file():
        raise PrivacyError(f"url: there is no file {parsed.database!r}; {BEGIN}")
    engine = sa.create_engine(parsed, connect_args={"timeout": 600, "check_same_thread": False}, poolclass=pool)

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions on its own
        connection.execute("pragma synchronous = extra")  # also the folder that holds the journal is on disk

    @sa.event.listens_for(engine, "begin")
    def begun(connection: sa.Connection) -> None:
        connection.exec_driver_sql("begin immediate")  # one writer at a time, from before the first read

    return engine
