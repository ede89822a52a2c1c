"""No edit of a ledger's tables gives budget back: it is refused, or it changes nothing that is read or released.

Every column of every row of a small ledger is edited, and rows are removed, added, swapped and cut off, before it is
opened and while it is open.
"""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from discreet import Gaussian, Ledger, Plan
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import Cost, Reservation, SystemNoise
from tests import powerloss
from tests.privacy.ledgers import COUNTS, budget

PLAN = Plan.gaussian(0.08, {"a": (0.5, 2), "b": 0.5})
ENTRIES, HEADS = "discreet_ledger_entry", "discreet_ledger"
Edit = tuple[str, tuple[object, ...]]


@pytest.fixture
def ram() -> Iterator[Path]:
    with powerloss.ram() as folder:
        yield folder


def make(path: Path) -> tuple[bytes, str]:
    """A ledger with every kind of entry, most of its budget spent, and the id of a reservation that is open."""
    ledger = budget(f"sqlite:///{path}")
    ledger.release(COUNTS, 1, Gaussian(5.0), "first")
    with ledger.reserve(PLAN):
        pass
    with ledger.reserve(PLAN) as reserved:
        for _ in range(2):
            reserved.release(COUNTS, 1, PLAN.noise("a", sensitivity=1), "a")
        ledger.charge(Cost.of_mu(0.01), "elsewhere", source=SystemNoise())
        return path.read_bytes(), reserved.id


def outcomes(ledger: Ledger, reservation: str) -> list[object]:
    """What can be read and done, where each thing that is refused because of damage is None."""

    def release(std: float, reserved: Reservation | None = None, label: str = "x") -> object:
        try:
            (reserved or ledger).release(COUNTS, 1, Gaussian(std), label)
        except BudgetExceeded:
            return "too much"
        return "released"

    reserved = Reservation(ledger, PLAN, reservation)
    std = PLAN.noise("a", sensitivity=1).std

    def used_up() -> object:
        with pytest.raises(PrivacyError, match=r"used up|damaged") as caught:
            release(std, reserved, "a")
        return None if "damaged" in str(caught.value) else "used up"

    def close() -> object:
        ledger.close(reservation)
        return ledger.spent.cost.gaussian

    questions: list[Callable[[], object]] = [
        lambda: (ledger.epsilon, ledger.delta, ledger.unit, ledger.adjacency, ledger.notion, ledger.filter),
        lambda: ledger.spent,
        lambda: ledger.remaining,
        lambda: release(1.0),
        used_up,
        lambda: release(100.0),
        ledger.open_reservations,
        lambda: [(entry.seq, entry.kind, entry.label, entry.cost) for entry in ledger.entries],
        close,
        lambda: ledger.spent,
    ]
    found: list[object] = []
    for question in questions:
        try:
            found.append(question())
        except PrivacyError as error:
            found.append(None if "damaged" in str(error) and "Nothing was spent" in str(error) else error)
    return found


def edits(path: Path) -> list[Edit]:
    """Statements with their values."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(f"select seq, kind, body from {ENTRIES} order by seq").fetchall()
        (digest,) = connection.execute(f"select digest from {HEADS}").fetchone()
    connection.close()
    found: list[Edit] = []
    for seq, kind, body in rows:
        bodies = [body.replace(old, new) for old, new in REPLACED if old in body]
        values: dict[str, list[object]] = {
            "name": ["other"],
            "seq": [-seq, 0, seq + 0.5, len(rows) + 1, len(rows) + 2, "x"],
            "kind": [x for x in ("open", "reserve", "release", "charge", "close", "gift", b"close") if x != kind],
            "body": [*bodies, "{}", "null", "[]", "not JSON", "[1e999]", "[" * 100_000, b"\xff", f" {body}"],
            "digest": ["0" * 64, digest if seq != len(rows) else "", digest.upper()],
        }
        for column, new in values.items():
            found += [(f"update {ENTRIES} set {column} = ? where seq = ?", (value, seq)) for value in new]
        found += [(f"delete from {ENTRIES} where seq = ?", (seq,)), (f"delete from {ENTRIES} where seq >= ?", (seq,))]
        copied = f"insert into {ENTRIES} select name, ?, kind, body, digest from {ENTRIES} where seq = ?"
        found += [(copied, (to, seq)) for to in (0, -1, len(rows) + 1, len(rows) + 2)]
    for seq in range(1, len(rows)):
        found.append((f"update {ENTRIES} set seq = ? - seq where seq in (?, ?)", (-2 * seq - 1, seq, seq + 1)))
        found.append((f"update {ENTRIES} set seq = seq - 1 where seq > ?", (seq,)))
    for column, value in (("name", "other"), ("seq", 0), ("seq", 3), ("seq", "x"), ("digest", "0" * 64)):
        found.append((f"update {HEADS} set {column} = ?", (value,)))
    return [*found, (f"delete from {HEADS}", ()), (f"insert into {HEADS} select 'other', seq, digest from {HEADS}", ())]


REPLACED = [
    ('"epsilon":1.0', '"epsilon":100.0'),
    ('"delta":1e-06', '"delta":0.5'),
    ('"gaussian":"', '"gaussian":"-'),
    ('"gaussian":"', '"gaussian":"1'),
    ('"count":2', '"count":20'),
    ('"firm":false', '"firm":true'),
    ('"label":"a"', '"label":"b"'),
    ('"reservation":"', '"reservation":"0'),
    ('"secure":true', '"secure":false'),
]


def apply(path: Path, edit: Edit) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(*edit)
    connection.close()


@pytest.mark.parametrize("opened_before", [False, True])
def test_no_edit_gives_budget_back(opened_before: bool, ram: Path) -> None:
    path, refused = ram / "ledger.db", 0
    content, reservation = make(path)
    path.write_bytes(content)
    every, sound = edits(path), outcomes(Ledger(f"sqlite:///{path}"), reservation)
    assert sound[3:6] == ["too much", "used up", "released"]
    for edit in every:
        path.write_bytes(content)
        ledger = Ledger(f"sqlite:///{path}") if opened_before else None
        try:
            apply(path, edit)
        except sqlite3.IntegrityError:
            continue  # the table itself does not take it
        try:
            found = outcomes(ledger or Ledger(f"sqlite:///{path}"), reservation)
        except PrivacyError as error:
            found = [None if "damaged" in str(error) else error] * len(sound)
        assert all(new in (None, old) for new, old in zip(found, sound, strict=True)), (edit, found)
        refused += None in found
    assert refused > len(every) * 0.7


def test_an_older_copy_in_the_place_of_an_open_ledger_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = budget(f"sqlite:///{path}")
    ledger.release(COUNTS, 1, Gaussian(8.0), "one")
    older = path.read_bytes()
    ledger.release(COUNTS, 1, Gaussian(8.0), "two")
    path.write_bytes(older)
    with pytest.raises(PrivacyError, match="entry 3 is missing"):
        ledger.release(COUNTS, 1, Gaussian(8.0), "three")
    assert len(Ledger(f"sqlite:///{path}").events) == 1  # it is whole, and nobody else can know


def test_an_object_sees_what_others_add(url: str | None) -> None:
    ledger = budget(url)
    other = ledger if url is None else Ledger(url)
    with other.reserve(PLAN) as reserved:
        assert ledger.open_reservations() == [reserved.id]
        Reservation(ledger, PLAN, reserved.id).release(COUNTS, 1, PLAN.noise("b", sensitivity=1), "b")
        with pytest.raises(PrivacyError, match="used up"):
            reserved.release(COUNTS, 1, PLAN.noise("b", sensitivity=1), "b")
        ledger.close(reserved.id)
        with pytest.raises(PrivacyError, match="closed"):
            reserved.release(COUNTS, 1, PLAN.noise("a", sensitivity=1), "a")
    assert other.spent == ledger.spent
    assert len(other.entries) == 4
