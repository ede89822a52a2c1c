"""The ledger's log in a database: append-only entries in a hash chain, checked before anything rests on them.

What counts is the log alone. Whoever opens it walks it from its first entry to its last and adds it up; each later
transaction reads what has been added since, and sees whether the first entry, which has the budget, and the last one
are still what they were. A row apart has the length and the last digest: without it a log that is cut off would be a
whole one.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost
from discreet.privacy.database import BEGIN, Database

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
    """What a log adds up to; `reservations` are those that are open, each with its entries."""

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
        """The state once an entry has been appended."""
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
        """The state once these entries have been appended, if they can be; else they are not what was recorded."""
        state = self
        for entry in entries:
            seq, digest = state.head
            try:
                sound = entry.seq == seq + 1 and entry.digest == entry.chained(digest)
            except (ValueError, TypeError, RecursionError):  # nothing that a digest was ever taken of
                sound = False
            if not sound:
                raise _damaged(f"entry {seq + 1} is missing or has been changed")
            state = state.after(entry)
        return state


class Transaction:
    """The lock is held: the state has been checked, and can be trusted until the transaction ends."""

    def __init__(self, connection: sa.Connection, name: str, known: State) -> None:
        self._connection, self._name = connection, name
        for entry in (known.first, known.last):
            if entry and self._read(_entries.c.seq == entry.seq) != [entry]:
                raise _damaged(f"entry {entry.seq} is missing or has been changed")
        self.state = known.following(self._read(_entries.c.seq > known.last.seq if known.last else sa.true()))
        row = connection.execute(sa.select(_heads.c.seq, _heads.c.digest).where(_heads.c.name == name)).first()
        self._require(self.state, (0, "") if row is None else (row.seq, row.digest))

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry to the log; it is lost if the transaction does not commit."""
        dated = {**body, "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds")}
        seq, digest = self.state.head
        draft = Entry(seq + 1, kind, json.loads(canonical(dated)), "")
        entry = Entry(draft.seq, kind, draft.body, draft.chained(digest))
        row = {"name": self._name, "seq": entry.seq, "digest": entry.digest}
        self._connection.execute(sa.insert(_entries).values({**row, "kind": kind, "body": canonical(entry.body)}))
        change = sa.update(_heads).where(_heads.c.name == self._name) if seq else sa.insert(_heads)
        self._connection.execute(change.values(row))
        self.state = self.state.after(entry)
        return entry

    def entries(self, reservation: str | None = None) -> list[Entry]:
        """The log, in order and checked as a whole, or what belongs to a reservation."""
        if reservation is not None and reservation in self.state.reservations:
            return list(self.state.reservations[reservation])
        entries = self._read(sa.true())
        self._require(State().following(entries), self.state.head)
        return [entry for entry in entries if reservation in (None, entry.body.get("reservation"))]

    def _read(self, which: sa.ColumnElement[bool]) -> list[Entry]:
        columns = (_entries.c.seq, _entries.c.kind, _entries.c.body, _entries.c.digest)
        query = sa.select(*columns).where(_entries.c.name == self._name, which).order_by(_entries.c.seq)
        entries = []
        for row in self._connection.execute(query):
            try:
                body = json.loads(row.body)
            except (ValueError, TypeError, RecursionError):
                raise _damaged(f"entry {row.seq} cannot be read") from None
            entries.append(Entry(row.seq, row.kind, body, row.digest))
        return entries

    @staticmethod
    def _require(state: State, head: tuple[int, str]) -> None:
        if state.head != head:
            raise _damaged(f"{head[0]} entries were recorded, but the log is another one or has {state.head[0]}")


class Store:
    """The log called `name` in a database; without a URL in memory, for this process only."""

    def __init__(self, url: str | None, name: str, create: bool, lock_timeout: float) -> None:
        self.name = name
        self._database = Database(url, create, lock_timeout)
        self.url = self._database.url
        self._known = State()  # what this object itself has found the log to add up to
        with self._database.transaction() as connection:
            if create:
                _metadata.create_all(connection)
            elif not sa.inspect(connection).has_table(_heads.name):
                raise PrivacyError(f"url: there is no ledger in this database; {BEGIN}")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Lock and check, and commit on the way out; nothing is kept if there is an exception."""
        with self._database.transaction() as connection:
            transaction = Transaction(connection, self.name, self._known)
            self._known = transaction.state
            yield transaction
        self._known = transaction.state


def _damaged(how: str) -> PrivacyError:
    return PrivacyError(
        f"ledger: it is damaged, or is not the one that was opened: {how}. Nothing was spent. `discreet ledger verify` "
        "checks it again; go on with a copy of it that has every release, and with no older one"
    )
