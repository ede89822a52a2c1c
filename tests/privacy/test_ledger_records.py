"""Plans and reservations; records that survive, open again and cannot be edited."""

import json
import math
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from discreet import Gaussian, Laplace, Ledger, Plan, Statement, account
from discreet.errors import BudgetExceeded, MissingExtra, PrivacyError
from discreet.privacy import Cost, Planned, PureEvent
from discreet.privacy.store import Entry, State
from discreet.testing import InsecureSeededNoise
from tests.privacy.ledgers import COUNTS, budget, plan_of

# -- plans and reservations


def test_preview_costs_nothing() -> None:
    ledger = budget()
    preview = ledger.preview(plan_of())
    assert preview.fits
    assert preview.cost.mu == pytest.approx(0.2)
    assert "75.0%" in str(preview)
    assert "DOES NOT FIT" not in str(preview)
    assert not ledger.preview(plan_of(2.0)).fits
    assert "DOES NOT FIT" in str(ledger.preview(plan_of(2.0)))
    assert ledger.spent.epsilon == 0
    assert "ledger" not in str(preview)  # nothing was spent before: the cost is the total
    ledger.release(COUNTS, 1, Gaussian(10.0), "before")
    after = ledger.preview(plan_of())
    assert after.after.epsilon > after.cost.epsilon
    assert "; the ledger will then have spent epsilon = " in str(after)
    assert "-" in str(ledger.preview(Plan((Planned("bits", Cost.of(PureEvent(0.1))),))))


def test_no_label_is_cut() -> None:
    long, ledger = "clicks per item and week, by the country of the shop", budget()
    heading, row = str(ledger.preview(Plan((Planned(long, Cost.of_mu(0.1)),)))).splitlines()[:2]
    assert long in row
    assert len(heading) == len(row)
    ledger.release(COUNTS, 1, Gaussian(10.0), long)
    heading, row = str(ledger).splitlines()[:2]
    assert long in row
    assert len(heading) == len(row)


def test_a_plan_is_set_aside_before_data_is_touched(url: str | None) -> None:
    ledger = budget(url)
    with pytest.raises(BudgetExceeded, match="the plan"), ledger.reserve(plan_of(2.0)):
        pytest.fail("data would be touched here")
    plan = plan_of()
    with ledger.reserve(plan) as reserved:
        assert ledger.spent.mu == pytest.approx(0.2)
        assert ledger.open_reservations() == [reserved.id]
        reserved.release(COUNTS, 1, plan.noise("counts", sensitivity=1), "counts")
        reserved.release(COUNTS, 1, plan.noise("steps", sensitivity=1), "steps")
        assert ledger.spent.mu == pytest.approx(0.2)
    assert ledger.open_reservations() == []
    assert ledger.spent.mu == pytest.approx(0.2 * math.sqrt(0.5))  # two steps were returned
    assert [event.label for event in ledger.events] == ["counts", "steps"]
    ledger.release(COUNTS, 1, Gaussian(10.0), "another")
    assert [event.label for event in reserved.events] == ["counts", "steps"]
    ledger.verify()


def test_what_a_plan_did_not_declare_is_refused() -> None:
    ledger, plan = budget(), plan_of()
    with ledger.reserve(plan) as reserved:
        with pytest.raises(PrivacyError, match="not in the plan"):
            reserved.release(COUNTS, 1, Gaussian(100.0), "surprise")
        with pytest.raises(PrivacyError, match="set aside"):
            reserved.release(COUNTS, 1, Gaussian(1.0), "counts")
        with pytest.raises(PrivacyError, match="set aside"):
            reserved.release(COUNTS, 1, Laplace(1000.0), "counts")
        reserved.release(COUNTS, 1, plan.noise("counts", sensitivity=1), "counts")
        with pytest.raises(PrivacyError, match="used up"):
            reserved.release(COUNTS, 1, Gaussian(100.0), "counts")
        assert len(ledger.events) == 1
    with pytest.raises(PrivacyError, match="closed"):
        reserved.release(COUNTS, 1, Gaussian(100.0), "steps")


def test_gaussian_releases_may_be_made_in_parts_of_their_cost() -> None:
    """Of any size, until what the line sets aside is used up to the last unit of its cost."""
    ledger, plan = budget(), Plan((Planned("steps", Cost(1000 << 60, 1), 3),))
    with ledger.reserve(plan) as reserved:

        def released(cost: Cost) -> int:
            noise = Gaussian.for_cost(cost, sensitivity=1.0)
            reserved.release(COUNTS, 1, noise, "steps")
            return noise.cost(1.0).gaussian

        used = released(Cost(1000 << 60, 1))
        for _ in range(7):
            used += released(Cost((1000 << 60) // 4, 1))
        assert plan.left(ledger.events) == {"steps": 0}  # what is left is not a whole release
        rest = (3000 << 60) - used
        with pytest.raises(PrivacyError, match="used up"):
            released(Cost(2 * rest, 1))
        used += released(Cost(rest, 1))
        assert used <= 3000 << 60
        with pytest.raises(PrivacyError, match="used up"):
            released(Cost(1 << 60, 1))
    assert sum((event.cost for event in ledger.events), Cost()).within(plan.cost)
    assert ledger.spent.mu == plan.cost.mu


def test_parts_that_were_not_released_are_returned_as_whole_releases() -> None:
    ledger, plan = budget(), Plan.gaussian(0.2, {"steps": (1.0, 4)})
    with ledger.reserve(plan) as reserved:
        for _ in range(3):
            reserved.release(COUNTS, 1, plan.noise("steps", sensitivity=1, parts=2), "steps")
        assert plan.left(ledger.events) == {"steps": 2}
    assert ledger.spent.mu == pytest.approx(0.2 * math.sqrt(2 / 4))


def test_a_line_that_its_record_could_not_be_found_by_is_refused() -> None:
    """In JSON a tuple is a list: the reservation could not be closed."""
    for label in (("item", "step"), None, ""):
        with pytest.raises(PrivacyError, match="label: say in a few words"):
            Planned(label, Cost.of_mu(0.1))  # type: ignore[arg-type]
    for parts in (0, -1, 0.5):
        with pytest.raises(PrivacyError, match="parts must be a whole number >= 1"):
            plan_of().noise("steps", sensitivity=1.0, parts=parts)  # type: ignore[arg-type]


SIZES = st.integers(1 << 50, 1 << 90).map(lambda size: Cost(size, 1))
PURE = st.sampled_from([0.1, 0.2]).map(lambda epsilon: Cost.of(PureEvent(epsilon)))
LINES = st.lists(
    st.tuples(SIZES | PURE | st.builds(Cost.__add__, SIZES, PURE), st.integers(1, 4)), min_size=1, max_size=3
)


@hypothesis.settings(max_examples=60, deadline=None)
@given(LINES, st.data(), st.sampled_from(["gaussian", "renyi"]))
def test_no_releases_and_no_closing_exceed_a_plan(given_lines: Any, data: Any, filter: str) -> None:
    """Of any sizes and kinds, in any order: what a line's releases cost and what is returned of it is what it has."""
    plan = Plan(tuple(Planned(f"line {at}", cost, count) for at, (cost, count) in enumerate(given_lines)))
    ledger, made = budget(epsilon=100, filter=filter), {line.label: Cost() for line in plan.lines}
    with ledger.reserve(plan) as reserved:
        for _ in range(data.draw(st.integers(0, 10))):
            line = data.draw(st.sampled_from(plan.lines))
            size = (line.cost.gaussian or 1 << 80) // data.draw(st.integers(1, 9)) + data.draw(st.integers(-2, 2))
            part = Gaussian.for_cost(Cost(size, 1), sensitivity=1.0)
            noise = data.draw(st.sampled_from([part, Laplace(5.0), Laplace(10.0)]))
            with suppress(PrivacyError):
                reserved.release(COUNTS, 1, noise, line.label)
                made[line.label] += noise.cost(1)
            assert all(made[each.label].within(each.total) for each in plan.lines)
    (close,) = (entry for entry in ledger.entries if entry.kind == "close")
    assert (sum(made.values(), Cost()) + close.cost).within(plan.cost)
    assert ledger.spent.cost == plan.cost + close.cost * -1
    ledger.close(reserved.id)
    assert ledger.spent.cost == plan.cost + close.cost * -1
    Statement.parse(ledger.statement().json())


@pytest.mark.parametrize("cost", [Cost.of(PureEvent(0.2)), Cost.of(PureEvent(0.2)) + Cost.of_mu(0.3)])
def test_a_line_of_other_noise_does_not_say_how_much_gaussian_noise_it_pays_for(cost: Cost) -> None:
    with pytest.raises(PrivacyError, match="not for Gaussian noise alone"):
        Plan((Planned("bits", cost),)).noise("bits", sensitivity=1)


def test_other_noise_is_not_released_in_parts() -> None:
    """There is no proof for it: half the epsilon of pure events does not add up like their pairs."""
    ledger, plan = budget(), Plan((Planned("bits", Cost.of(PureEvent(0.2)), 2), Planned("counts", Cost.of_mu(0.1))))
    with ledger.reserve(plan) as reserved:
        for _ in range(2):
            reserved.release(COUNTS, 1, Laplace(5.0), "bits")
        with pytest.raises(PrivacyError, match="used up"):
            reserved.release(COUNTS, 1, Laplace(5.0), "bits")
        with pytest.raises(PrivacyError, match="more than the plan"):
            reserved.release(COUNTS, 1, Laplace(10.0), "counts")


def test_a_fit_that_fails_returns_what_it_did_not_release() -> None:
    ledger, plan = budget(), plan_of()
    with pytest.raises(RuntimeError, match="out of memory"), ledger.reserve(plan) as reserved:
        reserved.release(COUNTS, 1, plan.noise("counts", sensitivity=1), "counts")
        raise RuntimeError("out of memory")
    assert ledger.spent.mu == pytest.approx(0.1)


def test_a_reservation_cannot_be_used_up_twice_by_forking(
    tmp_path: Path, in_fork: Callable[[Callable[[], str]], str]
) -> None:
    ledger = budget(f"sqlite:///{tmp_path}/ledger.db")
    plan = Plan.gaussian(0.2, {"all": 1.0})

    def child() -> str:
        return str(reserved.release(COUNTS, 1, plan.noise("all", sensitivity=1), "all").shape)

    with ledger.reserve(plan) as reserved:
        assert in_fork(child) == "(3,)"
        with pytest.raises(PrivacyError, match="used up"):
            reserved.release(COUNTS, 1, plan.noise("all", sensitivity=1), "all")
    assert ledger.spent.mu == pytest.approx(0.2)


def test_a_reservation_is_what_the_record_says(tmp_path: Path) -> None:
    """Nothing is released by one made by hand, one whose plan was swapped, or one whose ledger is gone."""
    from discreet.privacy import Reservation

    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger, loud = budget(url), Plan.gaussian(3.0, {"a": 1.0})
    with pytest.raises(PrivacyError, match="none with the id"):
        Reservation(ledger, loud, "made up").release([1], 1, Gaussian(0.4), "a")
    with ledger.reserve(Plan.gaussian(0.1, {"a": 1.0})) as reserved:
        reserved.plan = loud
        with pytest.raises(PrivacyError, match="set aside"):
            reserved.release([1], 1, Gaussian(0.4), "a")
    gone = pytest.raises(PrivacyError, match="not the one that was opened")
    with gone, ledger.reserve(Plan.gaussian(0.1, {"a": 1.0})) as reserved:
        (tmp_path / "ledger.db").unlink()
        budget(url)
        reserved.release([1], 1, Gaussian(100.0), "a")
    assert budget(url).events == []


def test_closing_twice_changes_nothing_and_an_unknown_reservation_is_an_error() -> None:
    ledger = budget()
    with ledger.reserve(plan_of()) as reserved:
        pass
    entries = ledger.entries
    ledger.close(reserved.id)
    assert ledger.entries == entries
    with pytest.raises(PrivacyError, match="reservation"):
        ledger.close("nonsense")


# -- records


def test_a_ledger_outlives_its_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    budget(url).release(COUNTS, 1, Gaussian(8.0), "monday")
    for again in (Ledger(url), budget(url)):
        assert again.epsilon == 1
        assert again.spent.mu == 1 / 8
    for wrong in ({"epsilon": 2}, {"delta": 1e-5}, {"unit": "entry"}, {"adjacency": "replace"}, {"notion": "dp"}):
        with pytest.raises(PrivacyError, match=next(iter(wrong))):
            Ledger(url, **wrong)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="no ledger called 'other'"):
        Ledger(url, name="other", create=False)
    with pytest.raises(PrivacyError, match="create=True"):
        Ledger(url, name="typo")
    other = Ledger(url, name="other", epsilon=5, delta=1e-7)
    assert other.spent.epsilon == 0


def test_settings_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    for wrong in (
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"delta": "small"},
        {"delta": 1.0},
        {"delta": -1},
        {"unit": "x"},
        {"adjacency": "swap"},
        {"filter": "x"},
        {"epsilon": 201},
        {"epsilon": 0.01, "delta": 1e-9, "filter": "renyi"},
    ):
        with pytest.raises(PrivacyError):
            Ledger(url, **{"epsilon": 1, "delta": 1e-6, **wrong})  # type: ignore[arg-type]
    assert not (tmp_path / "ledger.db").exists()
    with pytest.raises(PrivacyError, match="delta"):
        Ledger(url, epsilon=1)
    with pytest.raises(PrivacyError, match="delta"):
        Ledger(epsilon=1)
    assert Ledger(url, epsilon=1, delta=1e-6).events == []


def test_a_wrong_path_is_an_error_and_not_an_unlimited_budget(tmp_path: Path) -> None:
    for create in (None, False):
        with pytest.raises(PrivacyError, match="no file"):
            Ledger(f"sqlite:///{tmp_path}/typo.db", create=create)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(PrivacyError, match=r"unable to open.*folder exists"):
        budget(f"sqlite:///{tmp_path}/nowhere/ledger.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(PrivacyError, match="no ledger in this database"):
        Ledger(f"sqlite:///{tmp_path}/empty.db", create=False)
    free = Ledger(f"sqlite:///{tmp_path}/free.db", create=True)
    assert free.epsilon is None
    for name in ("", None):
        with pytest.raises(PrivacyError, match="name"):
            Ledger(name=name)  # type: ignore[arg-type]


def test_numbers_of_every_type() -> None:
    from decimal import Decimal
    from fractions import Fraction

    for one, tiny in (
        (np.float64(1), np.float32(1e-6)),
        (Fraction(1), Decimal("1e-6")),
        (np.array(1.0), np.array(1e-6)),
    ):
        ledger = Ledger(epsilon=one, delta=tiny)  # type: ignore[arg-type]
        ledger.release(COUNTS, one, Gaussian(np.int64(9), symmetric=np.bool_(False)), "x")  # type: ignore[arg-type]
        assert json.dumps(ledger.to_json())
        assert Plan.gaussian(0.1, {"a": (1.0, np.int64(2))}).lines[0].count == 2  # type: ignore[dict-item]
    for wrong in (np.True_, True, "1", None, 10**400, np.array([1.0, 2.0])):
        with pytest.raises(PrivacyError, match="sensitivity"):
            ledger.release(COUNTS, wrong, 9.0, "x")  # type: ignore[arg-type]
    assert account(mu=0.1, delta=1e-6, releases=np.int64(4)).mu == pytest.approx(0.2)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["ledger.db", "mysql://localhost/x"])
def test_bad_urls(bad: str) -> None:
    with pytest.raises(PrivacyError, match="url"):
        Ledger(bad)


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(*_: object, **__: object) -> None:
        raise ImportError("psycopg")

    monkeypatch.setattr(sa, "create_engine", no_driver)
    with pytest.raises(MissingExtra, match=r"discreet\[postgres\]"):
        Ledger("postgresql://localhost/x")


def test_a_table_for_people() -> None:
    ledger = budget(epsilon=4)
    assert "Nothing has been released" in str(ledger)
    ledger.release(COUNTS, 1, Gaussian(8.0), "clicks per item")
    ledger.release(COUNTS, 1, Laplace(8.0), "plays")
    with ledger.reserve(plan_of()) as reserved:
        text = str(ledger)
    for part in (
        "clicks per item",
        "gaussian std 8",
        "0.125",
        "plays",
        "budget epsilon = 4",
        f"open reservations: {reserved.id}",
    ):
        assert part in text
    free = Ledger()
    free.release(COUNTS, 1, Gaussian(8.0), "x")
    assert "budget none" in str(free)


def test_export_is_json_and_complete() -> None:
    ledger = budget()
    ledger.release(COUNTS, 1, Gaussian(8.0), "x")
    data = json.loads(json.dumps(ledger.to_json(), allow_nan=False))
    assert [entry["kind"] for entry in data["entries"]] == ["open", "release"]
    assert data["spent"]["mu"] == 1 / 8


@pytest.mark.parametrize(
    "tamper",
    [
        "update discreet_ledger_entry set body = replace(body, '8.0', '80.0') where seq = 2",
        "delete from discreet_ledger_entry where seq = 2",
        "delete from discreet_ledger_entry where seq = 3",
        "update discreet_ledger set seq = 4",
    ],
)
def test_an_edited_record_is_found(tamper: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = budget(url)
    ledger.release(COUNTS, 1, Gaussian(8.0), "one")
    ledger.release(COUNTS, 1, Gaussian(80.0), "two")
    ledger.verify()
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        assert connection.exec_driver_sql(tamper).rowcount == 1
    for look in (ledger.verify, lambda: Ledger(url)):
        with pytest.raises(PrivacyError, match="damaged"):
            look()


def test_a_copy_of_a_ledger_could_spend_twice_so_there_is_none() -> None:
    with pytest.raises(PrivacyError, match="pickled"):
        pickle.dumps(budget())


@pytest.mark.parametrize("url", [None, "sqlite://", "sqlite:///:memory:"])
def test_a_ledger_in_memory_does_not_cross_a_fork(
    url: str | None, in_fork: Callable[[Callable[[], str]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = budget(url)

    def child() -> str:
        try:
            ledger.release(COUNTS, 1, 8.0, "again")
        except PrivacyError as error:
            return str(error)
        return "released"

    assert "forked" in in_fork(child)
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as a child would see it
    assert "forked" in child()


def test_a_source_that_is_not_plainly_secure_is_insecure() -> None:
    class Vague(InsecureSeededNoise):
        secure = 0  # type: ignore[assignment]

    ledger = budget(noise_source=Vague(0))
    ledger.release(COUNTS, 1, 8.0, "x")
    assert not ledger.spent.holds


@pytest.mark.parametrize("setting", [{"adjacency": "swap"}, {"filter": "none"}, {"unit": "item"}])
def test_a_ledger_with_settings_that_are_not_known_is_not_opened(setting: dict[str, str], tmp_path: Path) -> None:
    """As one of a later version may have."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    budget(url)
    with sa.create_engine(url).begin() as connection:
        body = json.loads(connection.execute(sa.text("select body from discreet_ledger_entry")).scalar_one())
        body["settings"] |= setting
        values = {"body": json.dumps(body), "digest": Entry(1, "open", body, "").chained("")}
        connection.execute(sa.text("update discreet_ledger_entry set body = :body, digest = :digest"), values)
        connection.execute(sa.text("update discreet_ledger set digest = :digest"), values)
    with pytest.raises(PrivacyError, match=next(iter(setting))):
        Ledger(url)


def test_an_entry_of_an_unknown_kind_has_no_known_cost() -> None:
    with pytest.raises(PrivacyError, match="unknown kind 'gift'"):
        State().after(Entry(1, "gift", {}, ""))


def test_seeded_noise_stamps_everything_it_touches(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    first = budget(url, noise_source=InsecureSeededNoise(1)).release(COUNTS, 1, 8.0, "x")
    second = budget(url, name="b", noise_source=InsecureSeededNoise(1)).release(COUNTS, 1, 8.0, "x")
    assert (first == second).all()
    reopened = Ledger(url)
    assert not reopened.spent.holds
    assert str(reopened.spent).startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in str(reopened.statement())
    assert not reopened.preview(plan_of(0.01)).after.holds
