"""What becomes of a line, a cell or a row depends on nothing else: not on its block, its batch, or another's type."""

from __future__ import annotations

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import discreet
from discreet.data.sql import require_select
from discreet.errors import DataError
from tests.data.test_read_hostile import HEADER, SWALLOWED, written

# Lines


@pytest.mark.parametrize("size", [20, 21, 22, 1 << 23])
def test_a_byte_order_mark_is_a_character_but_at_the_start_of_a_file(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a block of lines begins, an id may begin with one."""
    monkeypatch.setattr("discreet.data.texts.BLOCK", size)
    for lines in ("\ufeffann,x,1\nann,y,5\n", "ann,y,5\n\ufeffann,x,1\n", "bob,y,5\n\ufeffann,x,1\nann,y,5\n"):
        path = written(tmp_path / "r.csv", "\ufeff" + HEADER + lines)
        assert discreet.read(path).history("ann") == {"y": 5.0}
        assert discreet.read(path).history("\ufeffann") == {"x": 1.0}


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_line_stops_nothing(quote: str, tmp_path: Path) -> None:
    long = quote + "x" * 3_000_000 + quote
    path = written(tmp_path / "r.csv", HEADER + f"ann,x,5\n{long},x,3\nbob,x,4\n")
    assert len(discreet.read(path).users) == 3


@pytest.mark.parametrize("n", [150, 1200])
def test_many_columns(n: int, tmp_path: Path) -> None:
    header = ",".join(["user", "item", "rating", *(f"c{k}" for k in range(n))])
    rest = ",".join("1" for _ in range(n))
    lines = f'{header}\n"ann",x,5,{rest}\nbob,x,4,{rest}\nevil,x,4\nev"il,x,5,{rest}\n'
    ratings = discreet.read(written(tmp_path / "r.csv", lines), on_invalid="drop", time=None)
    assert ratings.users.to_list() == ["ann", "bob"]


def test_words_that_duckdb_takes_for_times(tmp_path: Path) -> None:
    words = ["infinity", "epoch", "NA", "-infinity"]
    lines = "user,item,rating,date\n" + "".join(f"{n},x,1,{word}\n" for n, word in enumerate(words))
    path = written(tmp_path / "r.csv", lines + "ann,x,1,31/12/2020\n")
    assert discreet.read(path, time_format="%d/%m/%Y", on_invalid="drop").users.to_list() == ["ann"]


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2020-01-02T03:04:05+0000", 1577934245.0),
        ("2020-01-02 03:04:05 UTC", 1577934245.0),
        ("2020-01-02T05:04:05+02", 1577934245.0),
        ("2020-01-02T02:34:05.25-00:30", 1577934245.25),
        ("2020-01-02", 1577923200.0),
        ("1577923200", 1577923200.0),
    ],
)
def test_times_of_iso_8601(time: str, seconds: float, tmp_path: Path) -> None:
    ratings = discreet.read(written(tmp_path / "r.csv", f"user,item,time\nann,x,{time}\n"))
    assert ratings.times is not None
    assert ratings.times.tolist() == [seconds]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("r.json", '[{"user": 1, "item": 2, "rating": 3}]\n', "JSON array; write one object a line"),
        ("r.csv", gzip.compress(b"user,item\n", mtime=0), "packed by gzip; rename it"),
        ("r.csv", "sep=;\nuser;item\n", "remove it, and pass separator="),
        ("r.csv", "user,item\né,x\n".encode("latin-1"), "iconv"),
        ("r.csv", 'user,item\na, "x"\n', "follows a blank"),
    ],
)
def test_mistakes_are_named(name: str, content: str | bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        discreet.read(written(tmp_path / name, content))


# Queries

HIDDEN = """
SELECT * FROM read_csv('{}') -- auto_detect = false, quote = ''
SELECT *, 'auto_detect = false, quote = ''''' AS z FROM read_csv('{}')
FROM read_csv('{}', auto_detect = true /* auto_detect = false */)
FROM query('FROM ''{}''')
FROM query_table('{}')
WITH t AS (FROM '{}') SELECT * FROM (SELECT * FROM t)
SELECT * FROM (VALUES (1, 2)) AS v(user, item) WHERE user IN (SELECT 1 FROM read_json('{}'))
FROM read_csv('{}', auto_detect = false, columns = {{'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'}})
"""


@pytest.mark.parametrize("select", HIDDEN.strip().splitlines())
def test_a_select_that_hides_a_text_file(select: str, tmp_path: Path) -> None:
    """In the last one two lines could still swallow those between them: a quote must be a character like any other."""
    with pytest.raises(DataError, match=r"would guess types|cannot be checked"):
        discreet.read(select.format(written(tmp_path / "r.csv", SWALLOWED)))


def test_the_rows_of_a_query_have_no_order() -> None:
    """DISTINCT and joins give rows in an order that depends on all of them."""
    made = "CREATE TABLE r AS SELECT 'ann' AS user, 'i' || (i % 50) AS item, i::DOUBLE AS rating FROM range(200) t(i)"

    def history(select: str, others: int) -> dict[Any, float]:
        with duckdb.connect() as connection:
            connection.execute(made)
            connection.execute("CREATE TABLE m AS SELECT 'i' || i AS item FROM range(1000) t(i)")
            connection.execute(f"INSERT INTO r SELECT 'evil', 'i' || i, i FROM range({others}) t(i)")
            return discreet.read(select, connection=connection).history("ann")

    for select in ("SELECT DISTINCT user, item, rating FROM r", "SELECT r.* FROM r JOIN m USING (item)"):
        for others in (0, 1, 1000):
            assert history(select, others) == {f"i{n}": 150.0 + n for n in range(50)}  # the highest, for want of times


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1 AS a EXEC('DROP TABLE r')", "SELECT 1 SHUTDOWN", "SELECT 1 AS a KILL 5", "SELECT * INTO b FROM r",
        "SELECT 1 BACKUP DATABASE d TO DISK = 'x'",
    ],
)  # fmt: skip
def test_statements_of_t_sql_need_no_semicolon(statement: str) -> None:
    with pytest.raises(DataError, match="only reads"):
        require_select(statement, "mssql")


def test_comments_that_mysql_runs() -> None:
    with pytest.raises(DataError, match="comment that MySQL runs"):
        require_select("SELECT 1 /*!50000 INTO OUTFILE '/x' */", "mysql")


@pytest.mark.parametrize(
    ("statement", "database"),
    [
        ("SELECT TRUNCATE(rating, 1) FROM r", "mysql"),
        ("SELECT [update], r.[into] FROM r ORDER BY x OFFSET 1 ROWS", "mssql"),
        ("SELECT TOP 10 a.x FROM a INNER JOIN b ON a.x = b.x", "mssql"),
        ("SELECT copy, created_at, data ->> 'x', x::int FROM r WHERE y LIKE '%into%' LIMIT 3", "postgresql"),
        ("WITH a AS (SELECT 1 AS x), b AS (SELECT x, row_number() OVER (ORDER BY x) FROM a) SELECT * FROM b", "sqlite"),
        ("(SELECT 1) UNION ALL (SELECT 2) -- DROP TABLE r", "mysql"),
        ("SELECT `delete` FROM r; ;", "mysql"),
    ],
)
def test_honest_selects_pass(statement: str, database: str) -> None:
    require_select(statement, database)


# Types

NOON, EARLIER = dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1, 11)


@pytest.mark.parametrize("first", [pa.array([dt.date(2020, 1, 1)]), pa.array([1.0], pa.float32()), pa.array([True])])
def test_the_times_of_one_file_do_not_cut_those_of_another(first: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["evil"], "item": ["x"], "rating": [1.0], "time": first}), tmp_path / "1.parquet")
    table = {"user": ["ann", "ann"], "item": ["x", "x"], "rating": [5.0, 1.0], "time": [NOON, EARLIER]}
    pq.write_table(pa.table(table), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'time' is .* give it one type"):
        discreet.read(str(tmp_path / "*.parquet"), on_invalid="drop")


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


def test_categories_of_two_types() -> None:
    users = pd.Categorical(["a", b"a"])
    with pytest.raises(DataError, match="'user' holds more than one type"):
        discreet.read(pd.DataFrame({"user": users, "item": ["x", "y"]}))


def test_which_key_is_the_user_does_not_depend_on_the_first_row() -> None:
    rows = [{"user_id": "ann", "userId": "bob", "item": "x", "rating": 5}]
    first = [{"userId": "evil", "user_id": "e2", "item": "x", "rating": 1}]
    assert set(discreet.read(rows).users) < set(discreet.read(first + rows).users)


def test_nanoseconds_in_ids_are_not_cut() -> None:
    with pytest.raises(DataError, match="nanoseconds"):
        discreet.read([(pd.Timestamp(1_000_000_001), "x", 1.0), (pd.Timestamp(1_000_000_002), "x", 1.0)])


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


def test_integers_of_two_widths(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": pa.array([1], pa.int32()), "item": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": pa.array([2**40], pa.int64()), "item": ["x"]}), tmp_path / "2.parquet")
    assert discreet.read(str(tmp_path / "*.parquet")).users.to_list() == [1, 2**40]
    items = pa.array([1, 2**63], pa.uint64())
    assert len(discreet.read([("a", 1, 1.0), ("b", -1, 1.0)], items=items, on_unknown="drop")) == 1


@pytest.mark.parametrize(
    "rows",
    [
        [("a", "x"), {"user": "b", "item": "y"}], [("a", "x"), "bo"], [("\ud800", "x")], [(Decimal(10**50), "x")],
        [({1}, "x")], [([1], "x")],
    ],
)  # fmt: skip
def test_odd_rows_of_python_are_errors_of_ours(rows: list[Any]) -> None:
    with pytest.raises(DataError):
        discreet.read(rows)


def test_users_without_a_row_are_no_users() -> None:
    rows = [("ann", "x", 5.0), ("ann", "x", 5.0), ("bob", "x", 3.0)]
    ratings = discreet.read(rows, on_duplicate="sum", on_invalid="drop", value_range=(0, 5))
    assert ratings.users.to_list() == ["bob"]
    huge = [("ann", "x", 3e38), ("ann", "x", 3e38), ("bob", "x", 3.0)]
    assert discreet.read(huge, on_duplicate="sum", on_invalid="drop").users.to_list() == ["bob"]
    with pytest.raises(DataError, match="sums lie outside"):
        discreet.read(huge, on_duplicate="sum")


def test_small_integers_of_a_matrix_do_not_overflow() -> None:
    entries = (np.array([100, 100], np.int8), ([0, 0], [0, 0]))
    assert discreet.read(scipy.sparse.coo_array(entries, shape=(1, 1))).history(0) == {0: 200.0}
