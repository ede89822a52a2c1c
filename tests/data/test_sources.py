"""Every source gives the same table; which column is which; odd files and frames."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import logging
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import sqlalchemy as sa
import zstandard

import discreet
from discreet.data import sources
from discreet.errors import DataError
from tests.data.conftest import HEADER, written

N_USERS, N_ITEMS = 40, 25
rng = np.random.default_rng(20)
cells = rng.permutation(N_USERS * N_ITEMS)[:300]
cells = np.concatenate([cells, np.setdiff1d(np.arange(N_USERS) * N_ITEMS, cells)])  # every user has a row
ROWS = [(int(cell // N_ITEMS), int(cell % N_ITEMS), float(rng.integers(1, 11)) / 2) for cell in cells]
COLUMNS = {"userId": [r[0] for r in ROWS], "movieId": [r[1] for r in ROWS], "rating": [r[2] for r in ROWS]}
PUBLIC: dict[str, Any] = {"items": list(range(N_ITEMS)), "value_range": (0.5, 5)}


def csv_text(separator: str = ",") -> str:
    lines = [separator.join(COLUMNS), *(separator.join(map(str, row)) for row in ROWS)]
    return "\n".join(lines) + "\n"


def json_lines() -> str:
    return "".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) + "\n" for row in ROWS)


def packed(path: Path, text: str) -> str:
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return str(path)


def globbed(folder: Path) -> str:
    table = pa.table(COLUMNS)
    for part in range(3):
        pq.write_table(table.slice(part * 120, 120), folder / f"part-{part}.parquet")
    return str(folder / "part-*.parquet")


def parquet_file(folder: Path) -> str:
    pq.write_table(pa.table(COLUMNS), folder / "ratings.parquet")
    return str(folder / "ratings.parquet")


def duckdb_file(folder: Path) -> str:
    path = str(folder / "ratings.duckdb")
    with duckdb.connect(path) as connection:
        frame = pa.table(COLUMNS)
        connection.register("frame", frame)
        connection.execute("CREATE TABLE ratings AS SELECT * FROM frame")
    return path


def sqlite_url(folder: Path) -> str:
    connection = sqlite3.connect(folder / "ratings.db")
    connection.execute('CREATE TABLE ratings ("userId" INTEGER, "movieId" INTEGER, rating REAL)')
    connection.executemany("INSERT INTO ratings VALUES (?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    return f"sqlite:///{folder / 'ratings.db'}"


def sparse(kind: Any) -> Any:
    return kind((COLUMNS["rating"], (COLUMNS["userId"], COLUMNS["movieId"])), shape=(N_USERS, N_ITEMS))


SELECT = 'SELECT "userId", "movieId", rating FROM ratings'
SOURCES = {
    "csv": lambda folder: packed(folder / "r.csv", csv_text()),
    "csv path": lambda folder: Path(packed(folder / "r.csv", csv_text())),
    "csv with semicolons": lambda folder: packed(folder / "r.csv", csv_text(";")),
    "csv.gz": lambda folder: packed(folder / "r.csv.gz", csv_text()),
    "csv.zst": lambda folder: packed(folder / "r.csv.zst", csv_text()),
    "tsv": lambda folder: packed(folder / "r.tsv", csv_text("\t")),
    "tsv.gz": lambda folder: packed(folder / "r.tsv.gz", csv_text("\t")),
    "json lines": lambda folder: packed(folder / "r.jsonl", json_lines()),
    "json.gz": lambda folder: packed(folder / "r.json.gz", json_lines()),
    "json.zst": lambda folder: packed(folder / "r.json.zst", json_lines()),
    "parquet": parquet_file,
    "glob of parquet": globbed,
    "list of paths": lambda folder: sorted(Path(globbed(folder)).parent.glob("part-*.parquet")),
    "SELECT over a file": lambda folder: f"SELECT * FROM '{parquet_file(folder)}'",
    "SELECT with a comment": lambda folder: f"-- ratings\nWITH t AS (FROM '{parquet_file(folder)}') SELECT * FROM t;",
    "pandas": lambda folder: pd.DataFrame(COLUMNS),
    "pandas categories": lambda folder: pd.DataFrame(COLUMNS).astype({"movieId": "category"}),
    "polars": lambda folder: pl.DataFrame(COLUMNS),
    "polars lazy": lambda folder: pl.DataFrame(COLUMNS).lazy(),
    "arrow table": lambda folder: pa.table(COLUMNS),
    "arrow batch": lambda folder: pa.RecordBatch.from_pydict(COLUMNS),
    "arrow reader": lambda folder: pa.table(COLUMNS).to_reader(max_chunksize=50),
    "duckdb relation": lambda folder: duckdb.connect(duckdb_file(folder)).table("ratings"),
    "scipy csr array": lambda folder: sparse(scipy.sparse.csr_array),
    "scipy coo matrix": lambda folder: sparse(scipy.sparse.coo_matrix),
    "scipy csc array": lambda folder: sparse(scipy.sparse.csc_array),
    "tuples": lambda folder: ROWS,
    "lists": lambda folder: [list(row) for row in ROWS],
    "generator of tuples": lambda folder: (row for row in ROWS),
    "dictionaries": lambda folder: [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
}


@pytest.fixture(scope="module")
def expected() -> discreet.Interactions:
    """The same data, put together independently of the reader."""
    matrix = sparse(scipy.sparse.csr_array)
    matrix.sort_indices()
    return discreet.Interactions(
        users=discreet.data.catalogue.Ids(np.arange(N_USERS)),
        catalogue=discreet.Catalogue(np.arange(N_ITEMS)),
        indptr=matrix.indptr.astype(np.int64),
        indices=matrix.indices.astype(np.uint8),
        values=matrix.data.astype(np.float32),
        value_range=(0.5, 5.0),
    )


def in_sqlite(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    return SELECT, sqlite_url(folder)


def in_an_engine(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    return SELECT, sa.create_engine(sqlite_url(folder), poolclass=sa.NullPool)


def in_a_connection(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    connection = sa.create_engine(sqlite_url(folder), poolclass=sa.NullPool).connect()
    request.addfinalizer(connection.close)
    return SELECT, connection


def in_a_duckdb_file(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    return SELECT, duckdb_file(folder)


def in_a_duckdb_connection(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    connection = duckdb.connect()
    request.addfinalizer(connection.close)
    connection.register("ratings", pa.table(COLUMNS))
    return SELECT, connection


def in_postgresql(folder: Path, request: pytest.FixtureRequest) -> tuple[str, Any]:
    url = request.getfixturevalue("postgres_url")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text('CREATE TABLE ratings ("userId" bigint, "movieId" integer, rating numeric(3, 1))'))
        insert = sa.text("INSERT INTO ratings VALUES (:u, :i, :v)")
        connection.execute(insert, [dict(zip("uiv", row, strict=True)) for row in ROWS])
    engine.dispose()
    return SELECT, url


# A table in Spark: tests/spark
DATABASES = [in_sqlite, in_an_engine, in_a_connection, in_a_duckdb_file, in_a_duckdb_connection, in_postgresql]


@pytest.mark.parametrize("kind", [*SOURCES, *DATABASES])
def test_every_source_gives_the_same(
    kind: Any, tmp_path: Path, request: pytest.FixtureRequest, expected: discreet.Interactions
) -> None:
    source, connection = (SOURCES[kind](tmp_path), None) if kind in SOURCES else kind(tmp_path, request)
    named = {"user": "userId", "item": "movieId"} if str(kind).startswith("json") else {}  # it has no header
    ratings = discreet.read(source, connection=connection, **PUBLIC, **named)
    assert ratings == expected
    assert ratings.indices.dtype == np.uint8
    assert ratings.indptr.dtype == np.int64
    assert ratings.values.dtype == np.float32
    is_text = str(kind).startswith(("csv", "tsv", "json"))  # which has no types: ids are as they are written
    assert ratings.users.to_list() == [str(user) if is_text else user for user in range(N_USERS)]
    assert ratings.items.to_list() == list(range(N_ITEMS))  # the catalog's
    if isinstance(connection, sa.Connection):
        assert not connection.closed  # it is the caller's


def test_row_order_does_not_matter() -> None:
    shuffled = [ROWS[at] for at in np.random.default_rng(1).permutation(len(ROWS))]
    assert discreet.read(shuffled, **PUBLIC) == discreet.read(ROWS, **PUBLIC)


def test_small_batches_give_the_same(monkeypatch: pytest.MonkeyPatch, expected: discreet.Interactions) -> None:
    """Rows of one user in many batches, and merges of the numbering in between."""
    monkeypatch.setattr(sources, "BATCH", 7)
    monkeypatch.setattr("discreet.data.assembly.MERGE_AT", 10)
    monkeypatch.setattr("discreet.data.assembly.BLOCK", 20)
    monkeypatch.setattr("discreet.data.assembly.PAGE", 8)
    assert discreet.read(ROWS, **PUBLIC) == expected
    assert discreet.read(pa.table(COLUMNS), **PUBLIC) == expected


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
    assert "taking 'stars' as value; to be sure, pass value=" in caplog.text


def test_a_wrong_column_is_named_with_those_there_are() -> None:
    with pytest.raises(DataError, match=r"item='movie': there is no such column; the columns are 'user', 'item'"):
        discreet.read(pd.DataFrame({"user": [1], "item": [2]}), item="movie")


def test_no_column_looks_like_the_user() -> None:
    with pytest.raises(DataError, match=r"user: no column has .* users or items; pass user= and item=, .*add one"):
        discreet.read(pd.DataFrame({"alpha": [1], "beta": [2]}))


def test_no_column_looks_like_the_item() -> None:
    with pytest.raises(DataError, match=r"item: no column has a usual name for items; pass item=, from the .*'beta'"):
        discreet.read(pd.DataFrame({"user": [1], "beta": [2]}))
    with pytest.raises(DataError, match="each item has a column of its own, give a table with a row for each rating"):
        discreet.read(pd.DataFrame({"user": [1], **{f"q{number}": [number] for number in range(9)}}))


def test_a_range_without_values_names_the_columns_that_may_have_them() -> None:
    with pytest.raises(DataError, match=r"Name the column with value= \('marks', 'beta'\), leave out value_range="):
        discreet.read(pd.DataFrame({"user": [1], "marks": [2], "item": [3], "beta": [4]}), value_range=(1, 5))


def test_a_catalog_without_a_column_of_the_items_name() -> None:
    table = pd.DataFrame({"user": [1], "film": [2]})
    with pytest.raises(DataError, match=r"items: none of the columns \['number'\].*; call the one with ids 'film'"):
        discreet.read(table, item="film", items=pd.DataFrame({"number": [2]}))


def test_one_column_cannot_be_two_things() -> None:
    with pytest.raises(DataError, match="different columns"):
        discreet.read(pd.DataFrame({"user": [1], "item": [2]}), user="user", item="user")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_in_the_callers_library(library: str) -> None:
    make: Any = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[library]
    frame = make({"user": ["b", "a"], "item": [1, 2], "rating": [1.0, 2.0], "timestamp": [dt.date(2020, 1, 2)] * 2})
    back = discreet.read(frame).to_frame()
    assert type(back).__module__.split(".")[0] == library
    assert list(back.columns if library != "pyarrow" else back.column_names) == ["user", "item", "rating", "timestamp"]
    assert list(map(str, back["user"])) == ["a", "b"]
    assert str(back["timestamp"][0])[:10] == "2020-01-02"


def test_no_file_matches(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file matches"):
        discreet.read(tmp_path / "none-*.csv")
    with pytest.raises(DataError, match="is a folder; give a glob"):
        discreet.read(tmp_path)
    (tmp_path / "r.xyz").write_text("x")
    with pytest.raises(DataError, match="not known by its suffix"):
        discreet.read(tmp_path / "r.xyz")
    (tmp_path / "r.csv.zip").write_text("x")
    with pytest.raises(DataError, match="is an archive; unpack it"):
        discreet.read(tmp_path / "r.csv.zip")
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


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "r.jsonl"])
def test_empty_files(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"source: .*empty file"):
        discreet.read(tmp_path / name)


@pytest.mark.parametrize(
    "source",
    [3, object(), np.ones((2, 2)), [1, 2], [(1,)], [(1, 2, 3.0), (1, 2)], [{"user": 1, "item": 2}, {"user": 1}]],
)
def test_what_is_not_a_table(source: Any) -> None:
    with pytest.raises(DataError, match="source"):
        discreet.read(source)


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["x", "y", "z"])])
def test_categories_of_polars(kind: Any) -> None:
    frame = pl.DataFrame({"user": ["y", "x", None], "item": ["x", "z", "z"]}, schema={"user": kind, "item": kind})
    items = pl.DataFrame({"item": ["z", "x"], "genre": ["x", "y"]}, schema={"item": kind, "genre": kind})
    ratings = discreet.read(frame, items=items, on_invalid="drop")
    assert ratings.to_arrow().to_pydict()["user"] == ["x", "y"]
    assert ratings.items.to_list() == ["z", "x"]
    assert ratings.catalogue.column("genre") == ["x", "y"]
    assert discreet.read(frame, items=items["item"], on_invalid="drop").items.to_list() == ["z", "x"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (pd.DataFrame({"user": [1, "a"], "item": [1, 2]}), r"'user'.*astype\(str\)"),
        (pd.DataFrame({"user": [1], "item": [2], "rating": [object()]}), r"'rating'.*astype"),
        (pd.DataFrame([[1, 2, 3.0]]), "names of columns must be text, not 0"),
        (pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"]), "more than one column is called 'user'"),
        (pa.table([[1], [2], [3]], names=["user", "user", "item"]), "more than one column is called 'user'"),
        (pd.Series([1, 2]), "Series is a single column"),
        (pl.Series([1, 2]), "Series is a single column"),
        (pl.LazyFrame({"user": [1]}).select("item"), "cannot be read"),
        (scipy.sparse.csr_array(np.array([[1j]])), "complex128"),
        (scipy.sparse.csr_array(np.array([[1.0]], dtype=np.longdouble)), "float128|longdouble"),
    ],
)
def test_frames_that_cannot_be_read(source: Any, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        discreet.read(source)
    assert str(caught.value).startswith("source: ")


def test_entries_of_a_sparse_matrix_that_repeat_are_summed() -> None:
    entries = scipy.sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 2], [1, 1, 0])), shape=(4, 3))
    ratings = discreet.read(entries)
    assert ratings.history(0) == {1: 3.0}
    assert (ratings.users.to_list(), ratings.items.to_list()) == ([0, 2], [0, 1])
    assert entries.nnz == 3  # the caller's is as it was
    assert discreet.read(entries, items=range(3)).n_items == 3


def test_the_keys_of_mappings_are_those_of_all() -> None:
    rows = [{"user": "ann", "item": "x", "rating": 5, "time": 2}, {"user": "ann", "item": "x", "rating": 1, "time": 1}]
    with pytest.raises(DataError, match="row 2 is"):
        discreet.read([{"user": "evil", "item": "x", "rating": 5}, *rows])


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


def test_dates_and_times_in_two_files_are_not_the_same_ids(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": [dt.date(2020, 1, 1)], "item": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"user": [dt.datetime(2020, 1, 1)], "item": ["y"]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'user' is date32.* give it one type"):
        discreet.read(str(tmp_path / "*.parquet"))


def test_python_objects_in_polars() -> None:
    frame = pl.DataFrame({"user": pl.Series(["b", "a"], dtype=pl.Object), "item": ["x", "y"]})
    assert discreet.read(frame).users.to_list() == ["a", "b"]
    mixed = frame.with_columns(user=pl.Series([1, "a"], dtype=pl.Object))
    with pytest.raises(DataError, match="'user' holds more than one type"):
        discreet.read(mixed)


NOON, EARLIER = dt.datetime(2020, 1, 1, 12), dt.datetime(2020, 1, 1, 11)


@pytest.mark.parametrize("first", [pa.array([dt.date(2020, 1, 1)]), pa.array([1.0], pa.float32()), pa.array([True])])
def test_the_times_of_one_file_do_not_cut_those_of_another(first: pa.Array, tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["evil"], "item": ["x"], "rating": [1.0], "time": first}), tmp_path / "1.parquet")
    table = {"user": ["ann", "ann"], "item": ["x", "x"], "rating": [5.0, 1.0], "time": [NOON, EARLIER]}
    pq.write_table(pa.table(table), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column 'time' is .* give it one type"):
        discreet.read(str(tmp_path / "*.parquet"), on_invalid="drop")


def test_categories_of_two_types() -> None:
    users = pd.Categorical(["a", b"a"])
    with pytest.raises(DataError, match="'user' holds more than one type"):
        discreet.read(pd.DataFrame({"user": users, "item": ["x", "y"]}))


def test_which_key_is_the_user_does_not_depend_on_the_first_row() -> None:
    rows = [{"user_id": "ann", "userId": "bob", "item": "x", "rating": 5}]
    first = [{"userId": "evil", "user_id": "e2", "item": "x", "rating": 1}]
    assert set(discreet.read(rows).users) < set(discreet.read(first + rows).users)


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


def test_small_integers_of_a_matrix_do_not_overflow() -> None:
    entries = (np.array([100, 100], np.int8), ([0, 0], [0, 0]))
    assert discreet.read(scipy.sparse.coo_array(entries, shape=(1, 1))).history(0) == {0: 200.0}


def test_sparse_arrays_with_repeated_entries() -> None:
    matrix = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert discreet.read(matrix, on_duplicate="raise").values.tolist() == [3.0]  # as in scipy
