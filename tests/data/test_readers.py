"""What `discreet.read` makes of columns, ids, repeats, values and times, and what it says when it cannot."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet
from discreet.errors import DataError, NotPublic
from tests.data.conftest import written

ROWS = [("ann", "x", 4.0), ("bob", "y", 2.0), ("ann", "y", 3.0)]


def test_without_values_every_row_counts_one() -> None:
    for ratings in (discreet.read(ROWS, value=None), discreet.read([row[:2] for row in ROWS])):
        assert ratings.implicit
        assert ratings.value_range == (0.0, 1.0)
        assert ratings.values.tolist() == [1.0, 1.0, 1.0]


def test_rows_that_are_counted() -> None:
    rows = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y")]
    counted = discreet.read(rows, on_duplicate="sum")
    assert counted.history("a") == {"x": 3.0, "y": 1.0}
    assert not counted.implicit
    assert counted.value_range is None  # the counts' range is the owner's to declare
    assert discreet.read(rows, on_duplicate="sum", value_range=(0, 2), on_invalid="clip").history("a")["x"] == 2.0
    assert discreet.read(rows).values.tolist() == [1.0, 1.0]
    assert discreet.read(rows, value_range=(0, 1)).implicit
    with pytest.raises(DataError, match=r"every row counts 1 and the range is \(0, 1\)"):
        discreet.read(rows, value_range=(1, 5))


def test_nothing_is_public_unless_said() -> None:
    ratings = discreet.read(ROWS)
    assert ratings.public_inputs == {}
    with pytest.raises(NotPublic, match=r"items=.*discreet\.observed_items_are_public.*statement"):
        ratings.require_public()
    declared = ratings.with_public(items=discreet.observed_items_are_public)
    assert "observed in the data" in declared.public_inputs["items"]
    with pytest.raises(NotPublic, match=r"value_range=\(lowest, highest\)"):
        declared.require_public()
    declared.with_public(value_range=(1, 5)).require_public()
    with pytest.raises(DataError, match="1 values lie outside"):
        declared.with_public(value_range=(2.5, 5))


def test_the_messages_hold_nothing_of_the_data() -> None:
    ratings = discreet.read([("secret-user", "secret-item", 4.25)])
    for part in (ratings, ratings.with_public(items=discreet.observed_items_are_public)):
        with pytest.raises(NotPublic) as caught:
            part.require_public()
        assert "secret" not in str(caught.value)
        assert "4.25" not in str(caught.value)


def test_public_inputs_given_to_read() -> None:
    ratings = discreet.read(ROWS, items=["z", "y", "x"], value_range=(1, 5))
    ratings.require_public()
    assert ratings.public_inputs == {"items": "3 items, given", "value_range": "1 to 5"}
    assert ratings.items.to_list() == ["z", "y", "x"]  # the catalog's own order
    observed = discreet.read(ROWS, items=discreet.observed_items_are_public, value_range=(1, 5))
    observed.require_public()
    assert "owner declares" in observed.public_inputs["items"]
    assert repr(discreet.observed_items_are_public) == "discreet.observed_items_are_public"


def test_unknown_items_raise_or_are_dropped() -> None:
    with pytest.raises(DataError, match=r"2 rows are about items outside the catalog, for instance 'y'.*on_unknown"):
        discreet.read(ROWS, items=["x"])
    ratings = discreet.read(ROWS, items=["x"], on_unknown="drop")
    assert ratings.users.to_list() == ["ann"]  # no row of bob's is left
    assert (len(ratings), ratings.report.unknown) == (1, 2)
    with pytest.raises(DataError, match="none of the 3 rows is left"):
        discreet.read(ROWS, items=["q"], on_unknown="drop")


def test_sums_stay_in_the_declared_range() -> None:
    rows = [("a", "x", 3.0), ("a", "x", 4.0), ("b", "x", 1.0)]
    with pytest.raises(DataError, match=r"1 sums lie outside value_range=\(0, 5\)"):
        discreet.read(rows, on_duplicate="sum", value_range=(0, 5))
    clipped = discreet.read(rows, on_duplicate="sum", value_range=(0, 5), on_invalid="clip")
    assert clipped.values.tolist() == [5.0, 1.0]
    assert discreet.read(rows, on_duplicate="sum", value_range=(0, 5), on_invalid="drop").values.tolist() == [1.0]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf"), 5.5, -1.0])
def test_invalid_values(value: float | None) -> None:
    rows = [("a", "x", 4.0), ("b", "y", value), ("b", "x", 1.0)]
    with pytest.raises(DataError, match=r"row 2 \(user 'b', item 'y'\) has .*on_invalid='drop'"):
        discreet.read(rows, value_range=(0, 5))
    dropped = discreet.read(rows, value_range=(0, 5), on_invalid="drop")
    assert (len(dropped), dropped.report.dropped) == (2, 1)
    clipped = discreet.read(rows, value_range=(0, 5), on_invalid="clip")
    if value is None or np.isnan(value):  # has no nearest bound
        assert clipped == dropped
    else:
        assert clipped.history("b")["y"] == (5.0 if value > 0 else 0.0)
        assert clipped.report.clipped == 1


def test_what_is_finite_passes_without_a_range_and_the_rest_does_not() -> None:
    assert discreet.read([("a", "x", -1e30)]).values.tolist() == [pytest.approx(-1e30)]
    for value in (float("inf"), 1e39):  # 1e39 is infinite in 32 bits
        with pytest.raises(DataError, match="not finite"):
            discreet.read([("a", "x", value)])
        with pytest.raises(DataError, match="nothing to clip to"):
            discreet.read([("a", "x", value)], on_invalid="clip")


@pytest.mark.parametrize("bounds", [(0.1, 0.7), (-0.1, 0.1), (1 / 3, 2 / 3), (-1e-50, 1e-50 + 1)])
def test_rounding_never_leads_out_of_the_range(bounds: tuple[float, float]) -> None:
    values = discreet.read([("a", "x", bounds[0]), ("a", "y", bounds[1])], value_range=bounds).values
    assert bounds[0] <= float(values[0])
    assert float(values[1]) <= bounds[1]


@pytest.mark.parametrize(
    "bounds", [(5, 1), (1, 1), (0, float("inf")), (float("nan"), 1), 5, ("a", "b"), (1, 1 + 1e-12)]
)
def test_ranges_that_cannot_be(bounds: Any) -> None:
    with pytest.raises(DataError, match="value_range"):
        discreet.read(ROWS, value_range=bounds)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [([True, False], [1, 0]), (["4.5", " 3"], [4.5, 3]), (pa.array([7, 8], pa.uint8()), [7, 8]),
     (pa.array(["1.5", "2.5"]).cast(pa.decimal128(5, 2)), [1.5, 2.5])],
)  # fmt: skip
def test_values_of_other_types(cells: Any, expected: list[float]) -> None:
    assert discreet.read(pa.table({"user": [1, 2], "item": [1, 2], "rating": cells})).values.tolist() == expected


def test_values_that_are_not_numbers() -> None:
    with pytest.raises(DataError, match="row 2 holds 'good', which is not a number"):
        discreet.read(pa.table({"user": [1, 2], "item": [1, 2], "rating": ["1", "good"]}))
    with pytest.raises(DataError, match="numbers are needed"):
        discreet.read(pa.table({"user": [1], "item": [1], "rating": [dt.date(2020, 1, 1)]}))


@pytest.mark.parametrize("column", ["user", "item", "timestamp"])
def test_missing_ids_and_times(column: str) -> None:
    frame: dict[str, list[Any]] = {"user": [1, 2], "item": [1, 2], "rating": [1.0, 2.0], "timestamp": [2**60 + 1, 6]}
    frame[column][1] = None
    with pytest.raises(DataError, match=r"row 2 has no .*; pass on_invalid='drop'"):
        discreet.read(pa.table(frame))
    ratings = discreet.read(pa.table(frame), on_invalid="drop")
    assert ratings.users.to_list() == [1]
    assert ratings.times is not None
    assert ratings.times.tolist() == [2**60 + 1]


@pytest.mark.parametrize(
    "times",
    [[1, 2], [1.5, 2.5], [dt.date(2020, 1, 1), dt.date(2020, 1, 2)], ["2020-01-01", "2020-01-02T10:00:00"],
     [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]],
)  # fmt: skip
def test_times_of_many_types(times: list[Any]) -> None:
    ratings = discreet.read(pa.table({"user": [1, 1], "item": [1, 1], "rating": [1.0, 2.0], "time": times[::-1]}))
    assert ratings.values.tolist() == [1.0]
    back = ratings.to_arrow()["timestamp"][0].as_py()
    if isinstance(times[1], str):  # times in text are seconds since 1970
        back = dt.datetime.fromtimestamp(back, dt.timezone.utc)
    assert str(back)[:10] == str(times[1])[:10]


def test_times_that_are_not() -> None:
    table = pa.table({"user": [1, 2], "item": [1, 1], "time": ["yesterday", "2020-01-01"]})
    with pytest.raises(DataError, match=r"time: row 1 holds 'yesterday', where a number or ISO 8601.*time_format="):
        discreet.read(table)
    assert discreet.read(table, on_invalid="drop").users.to_list() == [2]
    with pytest.raises(DataError, match=r"time: numbers, dates or timestamps.*time=None"):
        discreet.read(pa.table({"user": [1], "item": [1], "time": [b"x"]}))
    with pytest.raises(DataError, match="time_format: the times are not text"):
        discreet.read(pa.table({"user": [1], "item": [1], "time": [5]}), time_format="%Y")
    for wrong in ("%Q", "year", 5):
        with pytest.raises(DataError, match="time_format: "):
            discreet.read(table, time_format=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source",
    [[], pd.DataFrame({"user": [], "item": [], "rating": []}), pa.table({"user": pa.array([], pa.int64()), "item": []}),
     "SELECT 1 AS user, 2 AS item WHERE false"],
)  # fmt: skip
def test_empty_tables(source: Any) -> None:
    with pytest.raises(DataError, match=r"no rows|list is empty"):
        discreet.read(source)


@pytest.mark.parametrize("name", ["on_duplicate", "on_invalid", "on_unknown"])
def test_unknown_policies(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: one of .*raise.* is needed, not 'maybe'"):
        discreet.read(ROWS, **{name: "maybe"})  # type: ignore[arg-type]


def test_decimals_are_rounded_one_by_one() -> None:
    """Arrow takes one scale for all decimals of a column, by which it rounds each of them."""
    values = [Decimal(f"{n}.{n}3") / 7 for n in range(1, 200)]
    rows = [("ann", n, value) for n, value in enumerate(values)]
    alone = discreet.read(rows, value_range=(0, 1000)).history("ann")
    assert alone == {n: float(np.float32(float(value))) for n, value in enumerate(values)}
    fine = Decimal("1." + "0" * 33 + "1")
    assert discreet.read([*rows, ("evil", 0, fine)], value_range=(0, 1000)).history("ann") == alone
    with pytest.raises(DataError, match="has no value"):
        discreet.read([*rows, ("evil", 0, Decimal("sNaN"))], value_range=(0, 1000))


def test_movielens_with_its_columns_in_another_order(tmp_path: Path) -> None:
    written(tmp_path / "ml" / "movies.csv", "movieId,title,genres\n1,A (1999),Drama\n2,B (2000),Drama\n")
    written(tmp_path / "ml" / "ratings.csv", "timestamp,rating,movieId,userId\n99,4.5,2,7\n98,3.0,1,8\n")
    ratings = discreet.datasets.movielens("latest-small", source=tmp_path / "ml")
    assert (ratings.history(7), ratings.history(8)) == ({2: 4.5}, {1: 3.0})
    written(tmp_path / "ml" / "ratings.csv", "timestamp,rating,movie,userId\n99,4.5,2,7\n")
    with pytest.raises(DataError, match="no column 'movieId'"):
        discreet.datasets.movielens("latest-small", source=tmp_path / "ml")


NOON, EARLIER = dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1, 11)


def test_the_times_of_one_batch_do_not_cut_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.data.sources.BATCH", 2)
    ann = [("ann", "x", 5.0, NOON), ("ann", "x", 1.0, EARLIER)]
    for time in (dt.date(2020, 1, 1), 5, 5.0, "2020-01-01"):
        with pytest.raises(DataError, match="time: it changes from"):
            discreet.read([("evil", "x", 1.0, time)] * 2 + ann, on_invalid="drop")
    nobody: list[Any] = [("evil", "x", 1.0, None)] * 2
    assert discreet.read(nobody + ann, on_invalid="drop").history("ann") == {"x": 5.0}


@pytest.mark.parametrize("frame", [False, True])
def test_values_of_python_are_looked_at_one_by_one(frame: bool) -> None:
    def read(rows: list[Any], **options: Any) -> discreet.Interactions:
        names = ["user", "item", "rating"]
        return discreet.read(pd.DataFrame(rows, columns=names, dtype=object) if frame else rows, **options)

    ann, bob = ("ann", "x", np.float32(0.3)), ("bob", "x", 0.2)  # the first is a little more than .3
    for rows in ([ann, bob], [ann, bob, ("evil", "x", Decimal("0.1"))], [ann, bob, ("evil", "x", 10**400)]):
        kept = read(rows, value_range=(0, 0.3), on_invalid="drop").users.to_list()
        assert [user for user in kept if user != "evil"] == ["bob"]
    fine = Decimal("1." + "0" * 33 + "1")
    for rows in ([("ann", "x", Decimal("1.978"))], [("ann", "x", Decimal("1.978")), ("evil", "x", fine)]):
        assert read(rows, value_range=(0, 1.978), on_invalid="drop").history("ann") == {"x": pytest.approx(1.978)}
    with pytest.raises(DataError, match="numbers are needed"):
        read([("ann", "x", 1.0), ("evil", "x", "2")], on_invalid="drop")


def test_values_of_32_bits_stay_in_the_range() -> None:
    table = pa.table({"user": ["a", "b"], "item": ["x", "x"], "rating": pa.array([0.3, 0.1], pa.float32())})
    values = discreet.read(table, value_range=(0.1, 0.3)).values.astype(float)
    assert values.max() <= 0.3
    assert values.min() >= 0.1


def test_a_decimal_at_the_bound() -> None:
    table = pa.table({"user": ["a"], "item": ["x"], "rating": pa.array([Decimal("0.007")], pa.decimal128(38, 30))})
    assert len(discreet.read(table, value_range=(0, 0.007))) == 1


def test_clipping_needs_a_range_whatever_the_rows_are() -> None:
    for value in (1.0, None):
        with pytest.raises(DataError, match="nothing to clip to"):
            discreet.read([("a", "x", value)], on_invalid="clip")
    assert len(discreet.read([("a", "x")], on_invalid="clip")) == 1


def broken_text(cells: list[bytes]) -> pa.Array:
    return pa.array(cells, pa.binary()).view(pa.string())


TYPED = {
    "user": [broken_text([b"ann", b"\xff"]), pa.array([1, 2**63], pa.uint64()), pa.array([1, 10**9], pa.date32())],
    "rating": [broken_text([b"5", b"\xff"]), pa.array([5, 2**63], pa.uint64())],
    "time": [broken_text([b"5", b"\xff"]), pa.array([5, 2**63], pa.uint64()), pa.array([Decimal(5), Decimal("1.5")])],
}


@pytest.mark.parametrize(("column", "cells"), [(name, cells) for name, arrays in TYPED.items() for cells in arrays])
def test_no_cell_of_a_typed_column_stops_the_reading(column: str, cells: pa.Array) -> None:
    table = {"user": ["ann", "evil"], "item": ["x", "x"], "rating": [5.0, 1.0], "time": [1, 2]}
    both = pa.table(table | {column: cells})
    found = [discreet.read(one, on_invalid="drop", value_range=(0, 10)) for one in (both.slice(0, 1), both)]
    user = found[0].users[0]
    assert found[0].history(user) == found[1].history(user) == {"x": 5.0}
