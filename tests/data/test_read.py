"""What `discreet.read` makes of columns, ids, repeats, values and times, and what it says when it cannot."""

import datetime as dt
import gzip
import logging
import uuid
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.errors import DataError, NotPublic

ROWS = [("ann", "x", 4.0), ("bob", "y", 2.0), ("ann", "y", 3.0)]


# Columns


@pytest.mark.parametrize(
    "names",
    [
        ("userId", "movieId", "rating", "timestamp"),
        ("user_id", "item_id", "rating", "ts"),
        ("user", "item", "value", "time"),
        ("User-ID", "ISBN", "Book-Rating"[5:], "date"),
        ("customer_id", "product_id", "stars", "created_at"),
        ("reviewerID", "asin", "overall", "unixReviewTime"),
        ("uid", "track_id", "plays", "datetime"),
    ],
)
def test_usual_names_are_guessed_and_reported(names: tuple[str, ...], caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame([("a", "x", 1, 9), ("b", "y", 2, 8)], columns=list(names)).assign(other=3)
    with caplog.at_level(logging.WARNING, "discreet"):
        ratings = discreet.read(frame)
    assert ratings.report.guessed == ("user", "item", "value", "time")
    assert all(repr(name) in ratings.report.columns for name in names)
    plain = names in (("user", "item", "value", "time"), ("userId", "movieId", "rating", "timestamp"))
    assert plain != all(repr(name) in caplog.text for name in names)
    assert "(guessed)" in str(ratings.describe())
    assert ratings.history("b") == {"y": 2.0}


def test_names_that_are_given_are_not_guessed(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"user": ["a"], "item": ["x"], "rating": [3.0], "a": [1], "b": [2], "c": [5.0]})
    ratings = discreet.read(frame, user="a", item="b", value="c", time=None)
    assert ratings.history(1) == {2: 5.0}
    assert ratings.report.guessed == ()
    assert not caplog.records
    discreet.read(frame, user="a", item="b", value="c")  # that there are no times is no guess
    assert not caplog.records
    discreet.read(frame.rename(columns={"rating": "stars"}), user="a", item="b")
    assert "taking 'stars' as value; name" in caplog.text


def test_a_wrong_column_is_named_with_those_there_are() -> None:
    with pytest.raises(DataError, match=r"item='movie': there is no such column; the columns are 'user', 'item'"):
        discreet.read(pd.DataFrame({"user": [1], "item": [2]}), item="movie")


def test_no_column_looks_like_the_user() -> None:
    with pytest.raises(DataError, match=r"user: no column has a usual name.*pass user="):
        discreet.read(pd.DataFrame({"alpha": [1], "beta": [2]}))


def test_one_column_cannot_be_two_things() -> None:
    with pytest.raises(DataError, match="different columns"):
        discreet.read(pd.DataFrame({"user": [1], "item": [2]}), user="user", item="user")


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


# Ids

IDS: dict[str, list[Any]] = {
    "int64": [3, -(2**62), 2**63 - 1],
    "uint64": [2**64 - 1, 2**63, 0],
    "str": ["", "naïve ☃", "𝄞"],
    "bytes": [b"\x00", b"\xff", b"ab"],
    "uuid": [uuid.UUID(int=2**127), uuid.UUID(int=1), uuid.UUID(int=5)],
    "date": [dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(2000, 1, 1)],
    "datetime": [dt.datetime(2024, 1, 1, 12), dt.datetime(1960, 1, 1), dt.datetime(2000, 1, 1, 0, 0, 0, 1)],
    "bool": [True, False],
    "float": [1.5, -2.0, 1e300],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_come_back_in_their_type_and_sorted(kind: str) -> None:
    ids = IDS[kind]
    ratings = discreet.read([(one, other, 1.0) for one in ids for other in ids])
    for back in (ratings.users, ratings.items):
        assert back.to_list() == sorted(ids)
        assert {type(one) for one in back} == {type(ids[0])}
    assert set(ratings.history(ids[0])) == set(ids)
    table = ratings.to_arrow()
    assert sorted(set(table["user"].to_pylist())) == sorted(ids)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_in_the_callers_library(library: str) -> None:
    make: Any = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    frame = make({"user": ["b", "a"], "item": [1, 2], "rating": [1.0, 2.0], "timestamp": [dt.date(2020, 1, 2)] * 2})
    back = discreet.read(frame).to_frame()
    assert type(back).__module__.split(".")[0] == library
    assert list(back.columns if library != "pyarrow" else back.column_names) == ["user", "item", "rating", "timestamp"]
    assert list(map(str, back["user"])) == ["a", "b"]
    assert str(back["timestamp"][0])[:10] == "2020-01-02"


@pytest.mark.parametrize(
    "ids",
    [
        ["1", "2", "10"],  # numbers in the order of numbers
        ["-5", "0", "7", "007"],  # two ids, not one
        ["1", "9223372036854775808", "x"],
        ["99999999999999999999998", "99999999999999999999999"],
        ["2024-01-01", "2024-01-02"],
        ["1", "1.0"],
        ["a", "a ", "b"],  # a blank is a character
    ],
)
def test_ids_in_text_are_as_they_are_written(tmp_path: Path, ids: list[str]) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\n" + "".join(f"{one},i,1\n" for one in reversed(ids)))
    (tmp_path / "r.jsonl").write_text("".join(f'{{"user": "{one}", "item": "i", "rating": 1}}\n' for one in ids))
    for name in ("r.csv", "r.jsonl"):
        found = discreet.read(tmp_path / name).users.to_list()
        assert sorted(found) == sorted(ids)
        assert [one for one in found if one.lstrip("-").isdigit()] == [one for one in ids if one.lstrip("-").isdigit()]


def test_ids_of_text_and_integers_meet(tmp_path: Path) -> None:
    """A text file has no types: its 7 is the item 7 of a catalog of integers, and 007 is not."""
    (tmp_path / "r.csv").write_text("user,item,rating\n5,7,1\n6,007,1\n")
    ratings = discreet.read(tmp_path / "r.csv", items=[7, 8], on_unknown="drop")
    assert (ratings.users.to_list(), ratings.items.to_list()) == (["5"], [7, 8])
    assert ratings.history(5) == ratings.history("5") == {7: 1.0}
    assert ratings.for_users([5]) == ratings
    with pytest.raises(DataError, match="'6' is not in this table"):
        ratings.history("6")
    table = pa.table({"user": [1], "item": [7]})
    assert discreet.read(table, items=["8", "7"]).history(1) == {"7": 1.0}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_a_sample_does_not_show(kind: str, tmp_path: Path) -> None:
    """Whole numbers and integer ids for 50,000 rows, then half a star, a string, and a time."""
    rows = [(n, n % 100, 1 + n % 5) for n in range(50_000)]
    if kind == "csv":
        text = "user,item,rating\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows) + "50000,zz,4.5\n"
    else:
        text = "".join(f'{{"user": {u}, "item": {i}, "rating": {v}}}\n' for u, i, v in rows)
        text += '{"user": 50000, "item": 7, "rating": 4.5}\n'
    (tmp_path / f"r.{kind}").write_text(text)
    ratings = discreet.read(tmp_path / f"r.{kind}")
    assert ratings.history("50000") == ({"zz": 4.5} if kind == "csv" else {"7": 4.5})
    assert len(ratings) == 50_001


def test_numbers_in_a_catalogue_of_text_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("year,movieId,title\n1999,07,A\n2001,8,B\n")
    catalogue = discreet.Catalogue.read(tmp_path / "m.csv")
    assert catalogue.ids.to_list() == ["07", "8"]
    assert catalogue.column("year") == [1999, 2001]


def test_strings_in_json_stay_strings(tmp_path: Path) -> None:
    ids = ["2024-01-01", "00000000-0000-0000-0000-000000000002", "12"]
    (tmp_path / "r.jsonl").write_text("".join(f'{{"user": "{one}", "item": 1, "rating": 2}}\n' for one in ids))
    ratings = discreet.read(tmp_path / "r.jsonl")
    assert sorted(ratings.users) == sorted(ids)
    assert ratings.items.to_list() == ["1"]


def test_uuids_of_duckdb_come_back() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT uuid() AS user, uuid() AS item FROM range(3)")
        select = discreet.read("SELECT * FROM t", connection=connection)
        relation = discreet.read(connection.table("t"))
        assert select == relation
        assert {type(user) for user in (*select.users, *select.items)} == {uuid.UUID}
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)  # still the caller's


def test_ids_of_mixed_type_are_refused() -> None:
    with pytest.raises(DataError, match="user: ids of one type"):
        discreet.read([(1, "x", 1.0), ("a", "x", 1.0)])
    with pytest.raises(DataError, match="64 bits"):
        discreet.read([(2**70, "x", 1.0)])


# Public inputs


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


def test_a_catalogue_may_come_afterwards() -> None:
    later = discreet.read(ROWS).with_public(items=["z", "y", "x"])
    assert later == discreet.read(ROWS, items=["z", "y", "x"])
    with pytest.raises(DataError, match="outside this catalog"):
        discreet.read(ROWS).with_public(items=["x"])


@pytest.mark.parametrize("form", ["csv", "pandas", "polars", "arrow", "parquet"])
def test_a_catalogue_brings_titles_and_other_columns(form: str, tmp_path: Path) -> None:
    films = {"movieId": [20, 10, 30], "title": ["Été", "B", "C"], "year": [2001, 2002, 2003]}
    if form == "csv":
        pd.DataFrame(films).to_csv(tmp_path / "m.csv", index=False)
    if form == "parquet":
        pq.write_table(pa.table(films), tmp_path / "m.parquet")
    items: Any = {"csv": tmp_path / "m.csv", "parquet": str(tmp_path / "m.parquet"), "pandas": pd.DataFrame(films),
                  "polars": pl.DataFrame(films), "arrow": pa.table(films)}[form]  # fmt: skip
    ratings = discreet.read([("a", 10, 1.0), ("a", 20, 2.0)], items=items)
    assert ratings.items.to_list() == [20, 10, 30]
    assert ratings.catalogue.column("title") == ["Été", "B", "C"]
    assert ratings.catalogue.names == ["title", "year"]
    assert ratings.catalogue.to_frame("pandas")["item"].tolist() == [20, 10, 30]
    assert ratings.history("a") == {20: 2.0, 10: 1.0}
    assert ratings.for_items([10]).catalogue.column("title") == ["B"]


def test_catalogues_that_cannot_be() -> None:
    with pytest.raises(DataError, match="1 ids are given more than once, for instance 'x'"):
        discreet.read(ROWS, items=["x", "y", "x"])
    with pytest.raises(DataError, match="2 ids are missing"):
        discreet.read(ROWS, items=["x", None, None])
    with pytest.raises(DataError, match="3 rows are about items outside the catalog"):
        discreet.read(ROWS, items=[1, 2])
    with pytest.raises(DataError, match="cannot be compared"):
        discreet.read(ROWS, items=[1.5, 2.5])
    with pytest.raises(DataError, match="items: none of the columns"):
        discreet.read(ROWS, items=pd.DataFrame({"alpha": ["x"]}))
    with pytest.raises(DataError, match="no rows"):
        discreet.read(ROWS, items=pd.DataFrame({"item": []}))
    with pytest.raises(DataError, match="no column 'year'"):
        discreet.Catalogue(["x"]).column("year")


@pytest.mark.parametrize("items", [np.array([1, 2], np.int32), np.array([1, 2], np.uint64), pd.Series([1, 2])])
def test_integer_ids_of_any_width_are_the_same(items: Any) -> None:
    assert len(discreet.read([(1, 1, 1.0), (1, 2, 1.0)], items=items)) == 2


def test_unknown_items_raise_or_are_dropped() -> None:
    with pytest.raises(DataError, match=r"2 rows are about items outside the catalog, for instance 'y'.*on_unknown"):
        discreet.read(ROWS, items=["x"])
    ratings = discreet.read(ROWS, items=["x"], on_unknown="drop")
    assert ratings.users.to_list() == ["ann"]  # no row of bob's is left
    assert (len(ratings), ratings.report.unknown) == (1, 2)
    with pytest.raises(DataError, match="none of the 3 rows is left"):
        discreet.read(ROWS, items=["q"], on_unknown="drop")


# Repeated pairs

REPEATS = [("a", "x", 1.0, 30), ("b", "x", 5.0, 1), ("a", "x", 4.0, 10), ("a", "x", 2.0, 20), ("a", "y", 3.0, 5)]


@pytest.mark.parametrize(
    ("policy", "by_row", "by_time"), [("last", 2.0, 1.0), ("first", 1.0, 4.0), ("mean", 7 / 3, 7 / 3), ("sum", 7, 7)]
)
def test_repeated_pairs(policy: str, by_row: float, by_time: float) -> None:
    timed = discreet.read(REPEATS, on_duplicate=policy)
    plain = discreet.read([row[:3] for row in REPEATS], on_duplicate=policy)
    for ratings, expected in ((timed, by_time), (plain, by_row)):
        assert ratings.history("a") == pytest.approx({"x": expected, "y": 3.0})
        assert ratings.history("b") == {"x": 5.0}
        assert ratings.report.repeated == 2
    assert timed.times is not None
    assert timed.times[0] == (10 if policy == "first" else 30)


def test_the_default_policy_is_last_and_raise_names_the_pair() -> None:
    assert discreet.read(REPEATS) == discreet.read(REPEATS, on_duplicate="last")
    with pytest.raises(DataError, match=r"user 'a' has item 'x' more than once.*on_duplicate='last'"):
        discreet.read(REPEATS, on_duplicate="raise")


def test_sums_stay_in_the_declared_range() -> None:
    rows = [("a", "x", 3.0), ("a", "x", 4.0), ("b", "x", 1.0)]
    with pytest.raises(DataError, match=r"1 sums lie outside value_range=\(0, 5\)"):
        discreet.read(rows, on_duplicate="sum", value_range=(0, 5))
    clipped = discreet.read(rows, on_duplicate="sum", value_range=(0, 5), on_invalid="clip")
    assert clipped.values.tolist() == [5.0, 1.0]
    assert discreet.read(rows, on_duplicate="sum", value_range=(0, 5), on_invalid="drop").values.tolist() == [1.0]


# Values and times


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf"), 5.5, -1.0])
def test_invalid_values(value: float | None) -> None:
    rows = [("a", "x", 4.0), ("b", "y", value), ("b", "x", 1.0)]
    with pytest.raises(DataError, match=r"row 2 \(user 'b', item 'y'\) is .*on_invalid='drop'"):
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
    with pytest.raises(DataError, match="missing in row 2; pass on_invalid='drop'"):
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


# Errors that say what to do


def test_no_file_matches(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file matches"):
        discreet.read(tmp_path / "none-*.csv")
    with pytest.raises(DataError, match="is a folder; give a glob"):
        discreet.read(tmp_path)
    (tmp_path / "r.xyz").write_text("x")
    with pytest.raises(DataError, match="not known by its suffix"):
        discreet.read(tmp_path / "r.xyz")
    for name in ("r.csv", "r.parquet"):
        (tmp_path / name).write_text("x")
    with pytest.raises(DataError, match="one format"):
        discreet.read([tmp_path / "r.csv", tmp_path / "r.parquet"])


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    table = pa.table({"user": np.arange(10_000), "item": np.arange(10_000) % 50, "rating": np.ones(10_000)})
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=1000)
    return tmp_path / "r.parquet"


def test_a_truncated_parquet_file(parquet: Path) -> None:
    data = parquet.read_bytes()
    parquet.write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"not a whole parquet file.*fetch it again"):
        discreet.read(parquet)


def test_a_corrupt_parquet_file(parquet: Path) -> None:
    data = bytearray(parquet.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    parquet.write_bytes(data)
    with pytest.raises(DataError, match=r"(?s)damaged.*fetch it again"):
        discreet.read(parquet)


CSV = "user,item,rating\n" + "".join(f"u{n},i{n % 7},{n % 5}\n" for n in range(20_000))


def test_a_truncated_gz_file(tmp_path: Path) -> None:
    data = gzip.compress(CSV.encode())
    (tmp_path / "r.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="Check that the file is whole"):
        discreet.read(tmp_path / "r.csv.gz")


def test_a_csv_file_cut_in_the_middle_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(CSV + "u7")
    with pytest.raises(DataError, match="Check that the file is whole"):
        discreet.read(tmp_path / "r.csv")


def test_a_csv_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes("user,item,rating\né,x,1\n".encode("latin-1"))
    with pytest.raises(DataError, match="UTF-8"):
        discreet.read(tmp_path / "r.csv")


def test_a_csv_file_without_header(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("196,242,3\n186,302,3\n")
    with pytest.raises(DataError, match="no header line"):
        discreet.read(tmp_path / "r.csv")


def test_broken_json(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"user": 1, "item": 2, "rating": 3}\n{"user": 1, "it')
    with pytest.raises(DataError, match=r"line 2 of .*one JSON object a line"):
        discreet.read(tmp_path / "r.jsonl")


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.jsonl"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"source: .*empty file"):
        discreet.read(tmp_path / name)


@pytest.mark.parametrize(
    "source",
    [[], pd.DataFrame({"user": [], "item": [], "rating": []}), pa.table({"user": pa.array([], pa.int64()), "item": []}),
     "SELECT 1 AS user, 2 AS item WHERE false"],
)  # fmt: skip
def test_empty_tables(source: Any) -> None:
    with pytest.raises(DataError, match=r"no rows|list is empty"):
        discreet.read(source)


def test_an_empty_csv_table(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("user,item,rating\n")
    with pytest.raises(DataError, match="no rows"):
        discreet.read(tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("statement", "connection"),
    [
        ("SELECT user item, FROM", None), ("SELECT user item, FROM", "sqlite://"),
        ("SELECT nothing FROM 'none.parquet'", None), ("SELECT nothing FROM none", "sqlite://"),
        ("SELECT 1 AS user, 1/'a' AS item", None),
    ],
)  # fmt: skip
def test_selects_that_fail(statement: str, connection: str | None) -> None:
    with pytest.raises(DataError, match="Correct the SELECT"):
        discreet.read(statement, connection=connection)


def test_connections_that_cannot_be(tmp_path: Path) -> None:
    select = "SELECT 1 AS user, 2 AS item"
    with pytest.raises(DataError, match="there is no DuckDB database"):
        discreet.read(select, connection=str(tmp_path / "none.duckdb"))
    (tmp_path / "bad.duckdb").write_text("not a database at all")
    with pytest.raises(DataError, match="Give the path of a DuckDB database"):
        discreet.read(select, connection=tmp_path / "bad.duckdb")
    with pytest.raises(DataError, match="driver"):
        discreet.read(select, connection="nosuch://host/db")
    with pytest.raises(DataError, match="connection: a SQLAlchemy URL"):
        discreet.read(select, connection=3)
    with pytest.raises(DataError, match="SELECT statement is needed"):
        discreet.read(ROWS, connection="sqlite://")
    with pytest.raises(DataError, match="a single SELECT is needed"):
        discreet.read("CREATE TABLE t (a int)", connection="sqlite://")


def test_a_select_with_a_comment_at_its_end() -> None:
    assert len(discreet.read("SELECT 1 AS user, 2 AS item -- that is all")) == 1


def test_sums_and_counts_by_duckdb_are_wide_integers() -> None:
    select = "SELECT x % 3 AS user, sum(x % 2) AS item, sum(x) AS rating FROM range(10) AS t(x) GROUP BY 1"
    assert discreet.read(select).values.tolist() == [18.0, 12.0, 15.0]


@pytest.mark.parametrize(
    "source",
    [3, object(), np.ones((2, 2)), [1, 2], [(1,)], [(1, 2, 3.0), (1, 2)], [{"user": 1, "item": 2}, {"user": 1}]],
)
def test_what_is_not_a_table(source: Any) -> None:
    with pytest.raises(DataError, match="source"):
        discreet.read(source)


@pytest.mark.parametrize("name", ["on_duplicate", "on_invalid", "on_unknown"])
def test_unknown_policies(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: one of .*raise.* is needed, not 'maybe'"):
        discreet.read(ROWS, **{name: "maybe"})  # type: ignore[arg-type]
