"""What one person writes, or a file that is damaged, must not change what is read of others. Each of these once did."""

from __future__ import annotations

import datetime as dt
import gzip
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import zstandard

import discreet
from discreet.data.catalogue import Ids
from discreet.errors import DataError

HEADER = "user,item,rating\n"


def written(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Text


def test_a_date_of_one_person_does_not_turn_those_of_others(tmp_path: Path) -> None:
    """02/01 and 01/03 are two days; whether the month comes first was guessed from all dates."""
    people = "".join(f"u{n},x,5,02/01/2020\nu{n},x,1,01/03/2020\n" for n in range(200))
    header = "user,item,rating,date\n"
    for one_more in ("", "evil,x,3,01/13/2020\n"):
        path = written(tmp_path / "r.csv", header + people + one_more)
        with pytest.raises(DataError, match=r"row 1 holds '02/01/2020'.*time_format="):
            discreet.read(path)
        ratings = discreet.read(path, time_format="%m/%d/%Y")
        assert {ratings.history(f"u{n}")["x"] for n in range(200)} == {5.0}
    with pytest.raises(DataError, match=r"row 401 holds '01/13/2020'"):
        discreet.read(path, time_format="%d/%m/%Y")
    european = discreet.read(path, time_format="%d/%m/%Y", on_invalid="drop")
    assert european.users.to_list() == sorted(f"u{n}" for n in range(200))
    assert {european.history(f"u{n}")["x"] for n in range(200)} == {1.0}


@pytest.mark.parametrize("before", [0, 21_000])
def test_quotes_are_quotes_wherever_they_come(before: int, tmp_path: Path) -> None:
    lines = "".join(f"u{n % 50},x{n},5\n" for n in range(before))
    ratings = discreet.read(written(tmp_path / "r.csv", HEADER + lines + '"u1",y,5\nu1,z,4\n"a,""b""",y,3\n'))
    assert ratings.history("u1") | {"y": 5.0, "z": 4.0} == ratings.history("u1")
    assert ratings.history('a,"b"') == {"y": 3.0}


@pytest.mark.parametrize(("one", "other"), [("'a'", "a"), (r"\\7", "7"), (r"\\7", r"\7"), ("a ", "a"), ("A", "a")])
def test_ids_that_are_written_differently_are_two(one: str, other: str, tmp_path: Path) -> None:
    ratings = discreet.read(written(tmp_path / "r.csv", HEADER + f'"{one}",x,1\n{other},x,2\n'))
    assert sorted(ratings.users) == sorted([one, other])


SWALLOWED = HEADER + 'evil,"\nann,x,5\nbob,y,4\n",3\n'


def test_two_lines_of_one_person_do_not_swallow_those_between(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", SWALLOWED)
    with pytest.raises(DataError, match=r"line 2 of .*quote that is not closed on the same line"):
        discreet.read(path)
    assert discreet.read(path, on_invalid="drop").users.to_list() == ["ann", "bob"]


@pytest.mark.parametrize(
    "line", ['"evil,x,5', 'ev"il,x,5', '"evil"x,x,5', "evil,x,5,6", "evil,x", "evil\r,x,5", "\ufeff"]
)
def test_a_line_that_cannot_be_divided_stops_the_reading_or_nothing(line: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + f'ann,x,5\n{line}\n"bob",y,4\n')
    with pytest.raises(DataError, match=r"line 3 of"):
        discreet.read(path)
    ratings = discreet.read(path, on_invalid="drop")
    assert (ratings.users.to_list(), ratings.report.dropped, ratings.report.rows) == (["ann", "bob"], 1, 3)


def test_the_type_of_an_id_does_not_depend_on_others(tmp_path: Path) -> None:
    for others in ("", "abc,x,5\n", "-1,x,5\n"):
        ratings = discreet.read(written(tmp_path / "r.csv", HEADER + "007,x,5\n7,y,4\n" + others))
        assert ratings.history("007") == {"x": 5.0}
        assert ratings.history("7") == ratings.history(7) == {"y": 4.0}


def test_ids_of_json_do_not_depend_on_others(tmp_path: Path) -> None:
    rows = '{"user": 5, "item": 1, "rating": 2}\n'
    for others in ("", '{"user": -5, "item": -1, "rating": 2}\n'):
        ratings = discreet.read(written(tmp_path / "r.jsonl", rows + others))
        assert ratings.history("5") == {"1": 2.0}


def test_keys_of_json_are_not_guessed_from_the_first_row(tmp_path: Path) -> None:
    """A person whose row came first, with other keys, changed which column was the rating of all."""
    rows = '{"user": "ann", "item": "x", "rating": 2, "stars": 5}\n'
    for first in ("", '{"user": "evil", "item": "x", "stars": 1}\n'):
        ratings = discreet.read(written(tmp_path / "r.jsonl", first + rows), on_invalid="drop")
        assert ratings.history("ann") == {"x": 2.0}


def test_the_keys_of_mappings_are_those_of_all() -> None:
    rows = [{"user": "ann", "item": "x", "rating": 5, "time": 2}, {"user": "ann", "item": "x", "rating": 1, "time": 1}]
    with pytest.raises(DataError, match="row 2 is"):
        discreet.read([{"user": "evil", "item": "x", "rating": 5}, *rows])


def test_a_separator_is_that_of_the_header_or_declared(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "user;item;rating\na,b;x;1\n")
    assert discreet.read(path).history("a,b") == {"x": 1.0}
    path = written(tmp_path / "r.csv", "user^item^rating\na^x^1\n")
    assert discreet.read(path, separator="^").history("a") == {"x": 1.0}
    for wrong in ("", "::", '"', "a", "é", "\n", 5):
        with pytest.raises(DataError, match="separator: "):
            discreet.read(path, separator=wrong)  # type: ignore[arg-type]
    for source in ([("a", "x", 1.0)], written(tmp_path / "r.jsonl", "{}\n")):
        with pytest.raises(DataError, match="separator: "):
            discreet.read(source, separator=",")


def test_joined_files_may_repeat_their_header(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + "ann,x,5\n" + HEADER + "bob,y,4\n")
    assert discreet.read(path).users.to_list() == ["ann", "bob"]


# Names of files and columns


@pytest.mark.parametrize("name", ["r[1].csv", "r*.csv", "r?.csv", "[r].csv"])
def test_a_file_by_its_literal_name(name: str, tmp_path: Path) -> None:
    for other in ("r1.csv", "rx.csv", "r.csv"):
        written(tmp_path / other, HEADER + "other,x,1\n")
    assert discreet.read(written(tmp_path / name, HEADER + "ann,x,5\n")).users.to_list() == ["ann"]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_name_of_a_folder_is_no_column(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "user=zed"
    path = folder / f"r.{kind}"
    if kind == "parquet":
        folder.mkdir()
        pq.write_table(pa.table({"user": ["ann"], "item": ["x"], "rating": [5.0]}), path)
    else:
        row = HEADER + "ann,x,5\n" if kind == "csv" else '{"user": "ann", "item": "x", "rating": 5}\n'
        written(path, row)
    for source in (path, str(tmp_path / "*" / f"r.{kind}")):
        assert discreet.read(source).users.to_list() == ["ann"]
    if kind == "parquet":
        with pytest.raises(DataError, match="hive_partitioning = false"):
            discreet.read(f"SELECT * FROM '{path}'")
        select = f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)"
        assert discreet.read(select).users.to_list() == ["ann"]


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "user,item,rating,rating\nann,x,5,1\n")
    with pytest.raises(DataError, match="more than one column is called 'rating'"):
        discreet.read(path)
    table = pa.table([["ann"], ["x"], [5.0], [1.0]], names=["user", "item", "rating", "rating"])
    pq.write_table(table, tmp_path / "r.parquet")
    for source in (tmp_path / "r.parquet", table):
        with pytest.raises(DataError, match="more than one column is called 'rating'"):
            discreet.read(source)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT * FROM '{}'",
        "FROM read_csv('{}')",
        "SELECT * FROM read_csv_auto('{}')",
        "FROM read_csv('{}', header = true)",
    ],
)
def test_a_select_does_not_guess_either(select: str, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + "ann,x,5\n")
    with pytest.raises(DataError, match="would guess types and separators"):
        discreet.read(select.format(path))


# Damaged files

CONTENT = (HEADER + "".join(f"u{n},i{n % 7},{n % 5}\n" for n in range(3000))).encode()


def flips(data: bytes, n: int) -> list[bytes]:
    rng = random.Random(0)
    damaged = []
    for _ in range(n):
        copy = bytearray(data)
        copy[rng.randrange(len(copy))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(copy))
    return damaged


def as_parquet(content: bytes) -> bytes:
    rows = [line.split(",") for line in content.decode().splitlines()[1:]]
    users, items, values = zip(*rows, strict=True)
    out = pa.BufferOutputStream()
    table = pa.table({"user": users, "item": items, "rating": pa.array(values).cast(pa.float64())})
    pq.write_table(table, out, write_page_checksum=True, compression="none")
    return out.getvalue().to_pybytes()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "r.csv.gz": gzip.compress,
    "r.csv.zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "r.parquet": as_parquet,
}


@pytest.mark.parametrize("name", PACKED)
def test_a_flipped_bit_is_found_by_checksums(name: str, tmp_path: Path) -> None:
    whole = PACKED[name](CONTENT)
    expected = discreet.read(written(tmp_path / name, whole))
    for damaged in flips(whole, 60):
        try:
            ratings = discreet.read(written(tmp_path / name, damaged))
        except DataError:
            continue
        assert ratings == expected  # a bit that means nothing, such as one of a time stamp
    with pytest.raises(DataError, match=r"whole|damaged"):
        discreet.read(written(tmp_path / name, whole[:-3]))


# Statements


@pytest.fixture
def database(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("CREATE TABLE r AS SELECT 'ann' AS user, 'x' AS item")
    connection.close()
    return f"sqlite:///{tmp_path / 's.db'}"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE r", "DELETE FROM r", "VACUUM INTO '{folder}/copy.db'", "ATTACH '{folder}/new.db' AS new",
        "SELECT * FROM r; DROP TABLE r", "INSERT INTO r VALUES ('a', 'b') RETURNING *", "PRAGMA user_version = 7",
        "WITH x AS (SELECT 1) DELETE FROM r RETURNING *", "REPLACE INTO r VALUES ('a', 'b')", "; SELECT 1", "",
        "/* SELECT */ DROP TABLE r", "EXPLAIN DELETE FROM r",
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_engine", [False, True])
def test_nothing_but_a_select_reaches_a_database(
    statement: str, as_engine: bool, database: str, tmp_path: Path
) -> None:
    reached: list[str] = []
    engine = sa.create_engine(database, poolclass=sa.NullPool)
    sa.event.listen(engine, "before_cursor_execute", lambda *about: reached.append(about[2]))
    before = (tmp_path / "s.db").read_bytes()
    with pytest.raises(DataError, match="SELECT"):
        discreet.read(statement.format(folder=tmp_path), connection=engine if as_engine else database)
    assert not reached
    assert (tmp_path / "s.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    assert discreet.read("SELECT * FROM r -- ; DROP TABLE r", connection=database).users.to_list() == ["ann"]


def test_a_select_that_writes_all_the_same(postgres_url: str) -> None:
    """A function may write; the database refuses, for the transaction may only read."""
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE log (line text)"))
        connection.execute(
            sa.text(
                "CREATE FUNCTION noted() RETURNS text LANGUAGE sql AS $$ INSERT INTO log VALUES ('x') RETURNING line $$"
            )
        )
    with pytest.raises(DataError, match="read-only"):
        discreet.read("SELECT noted() AS user, 'x' AS item", connection=postgres_url)
    for statement in ("WITH d AS (DELETE FROM log RETURNING *) SELECT * FROM d", "SELECT line INTO copied FROM log"):
        with pytest.raises(DataError, match="only reads"):
            discreet.read(statement, connection=postgres_url)
    engine.dispose()


# Rows and frames of Python


@pytest.mark.parametrize(
    "ids",
    [
        [b"a", "a"], [1, 1.5], [1, "1"], [True, 1], [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1)],
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)], [1, None, 2.0],
    ],
)  # fmt: skip
def test_ids_of_two_types_are_refused(ids: list[Any]) -> None:
    rows = [(one, "x", 1.0) for one in ids]
    with pytest.raises(DataError, match=r"one type|time zone"):
        discreet.read(rows, on_invalid="drop")
    with pytest.raises(DataError, match=r"one type|more than one type|time zone"):
        discreet.read(pd.DataFrame({"user": pd.Series(ids, dtype=object), "item": "x"}), on_invalid="drop")
    with pytest.raises(DataError, match=r"one type|time zone"):
        discreet.read([("a", "x", 1.0, one) for one in ids], on_invalid="drop")  # as times


def test_dates_and_times_in_two_files_are_not_the_same_ids(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [dt.date(2020, 1, 1)], "item": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": [dt.datetime(2020, 1, 1)], "item": ["y"]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'user' is date32.* give it one type"):
        discreet.read(str(tmp_path / "*.parquet"))


def test_decimals_are_rounded_one_by_one() -> None:
    """Arrow takes one scale for all decimals of a column, by which it rounds each of them."""
    values = [Decimal(f"{n}.{n}3") / 7 for n in range(1, 200)]
    rows = [("ann", n, value) for n, value in enumerate(values)]
    alone = discreet.read(rows, value_range=(0, 1000)).history("ann")
    assert alone == {n: float(np.float32(float(value))) for n, value in enumerate(values)}
    fine = Decimal("1." + "0" * 33 + "1")
    assert discreet.read([*rows, ("evil", 0, fine)], value_range=(0, 1000)).history("ann") == alone
    with pytest.raises(DataError, match="missing"):
        discreet.read([*rows, ("evil", 0, Decimal("sNaN"))], value_range=(0, 1000))


def test_python_objects_in_polars() -> None:
    frame = pl.DataFrame({"user": pl.Series(["b", "a"], dtype=pl.Object), "item": ["x", "y"]})
    assert discreet.read(frame).users.to_list() == ["a", "b"]
    mixed = frame.with_columns(user=pl.Series([1, "a"], dtype=pl.Object))
    with pytest.raises(DataError, match="'user' holds more than one type"):
        discreet.read(mixed)


def test_a_table_made_by_hand() -> None:
    """One id on two rows would be one person who counts twice. What else is checked of such tables: test_dpals.py."""
    ratings = discreet.datasets.movielens_like(50, 20, 500, random_state=0)
    twice = np.arange(50)
    twice[7] = 6
    with pytest.raises(DataError, match="users: 1 ids are given more than once"):
        replace(ratings, users=Ids(twice))


def test_movielens_with_its_columns_in_another_order(tmp_path: Path) -> None:
    written(tmp_path / "ml" / "movies.csv", "movieId,title,genres\n1,A (1999),Drama\n2,B (2000),Drama\n")
    written(tmp_path / "ml" / "ratings.csv", "timestamp,rating,movieId,userId\n99,4.5,2,7\n98,3.0,1,8\n")
    ratings = discreet.datasets.movielens("latest-small", source=tmp_path / "ml")
    assert (ratings.history(7), ratings.history(8)) == ({2: 4.5}, {1: 3.0})
    written(tmp_path / "ml" / "ratings.csv", "timestamp,rating,movie,userId\n99,4.5,2,7\n")
    with pytest.raises(DataError, match="no column 'movieId'"):
        discreet.datasets.movielens("latest-small", source=tmp_path / "ml")
