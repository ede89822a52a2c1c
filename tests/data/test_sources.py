"""Every source gives the same Interactions for the same data."""

import gzip
import json
import shutil
import sqlite3
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
from tests.conftest import missing

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


def written(path: Path, text: str) -> str:
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


def parquet(folder: Path) -> str:
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
    "csv": lambda folder: written(folder / "r.csv", csv_text()),
    "csv path": lambda folder: Path(written(folder / "r.csv", csv_text())),
    "csv with semicolons": lambda folder: written(folder / "r.csv", csv_text(";")),
    "csv.gz": lambda folder: written(folder / "r.csv.gz", csv_text()),
    "csv.zst": lambda folder: written(folder / "r.csv.zst", csv_text()),
    "tsv": lambda folder: written(folder / "r.tsv", csv_text("\t")),
    "tsv.gz": lambda folder: written(folder / "r.tsv.gz", csv_text("\t")),
    "json lines": lambda folder: written(folder / "r.jsonl", json_lines()),
    "json.gz": lambda folder: written(folder / "r.json.gz", json_lines()),
    "json.zst": lambda folder: written(folder / "r.json.zst", json_lines()),
    "parquet": parquet,
    "glob of parquet": globbed,
    "list of paths": lambda folder: sorted(Path(globbed(folder)).parent.glob("part-*.parquet")),
    "SELECT over a file": lambda folder: f"SELECT * FROM '{parquet(folder)}'",
    "SELECT with a comment": lambda folder: f"-- ratings\nWITH t AS (FROM '{parquet(folder)}') SELECT * FROM t;",
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


def in_spark(folder: Path, request: pytest.FixtureRequest) -> tuple[Any, None]:
    try:
        from pyspark import sql
    except ImportError:
        missing("Spark", "pyspark is not installed: pip install 'discreet[spark]'")
    if shutil.which("java") is None:
        missing("Spark", "Java is not installed")
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    request.addfinalizer(session.stop)
    return session.createDataFrame(ROWS, list(COLUMNS)), None


DATABASES = [
    in_sqlite, in_an_engine, in_a_connection, in_a_duckdb_file, in_a_duckdb_connection, in_postgresql,
    pytest.param(in_spark, marks=pytest.mark.filterwarnings("ignore")),  # pyspark's own warnings
]  # fmt: skip


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


def test_postgresql_types_come_back(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE seen (person uuid, film text, stars int, rated_at timestamptz)"))
        connection.execute(
            sa.text(
                "INSERT INTO seen VALUES ('00000000-0000-0000-0000-000000000002', 'å', 3, '2020-01-01T00:00:00Z'), "
                "('00000000-0000-0000-0000-000000000001', 'b', 5, '2021-01-01T00:00:00Z'), "
                "('00000000-0000-0000-0000-000000000002', 'å', 4, '2019-01-01T00:00:00Z')"
            )
        )
    engine.dispose()
    ratings = discreet.read("SELECT * FROM seen", connection=postgres_url)
    assert [str(user)[-1] for user in ratings.users] == ["1", "2"]
    assert type(ratings.users[0]).__name__ == "UUID"
    assert ratings.history(ratings.users[1]) == {"å": 3.0}  # the latest, though it is not the last row


def test_ratings_and_catalogue_of_one_database(postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE films (id int, title text)"))
        connection.execute(sa.text("INSERT INTO films VALUES (7, 'A'), (3, 'B'), (5, 'C')"))
    engine.dispose()
    ratings = discreet.read(
        "SELECT 'ann' AS user, 3 AS item, 4 AS rating",
        connection=postgres_url,
        items="SELECT * FROM films",
        value_range=(1, 5),
    )
    ratings.require_public()
    assert ratings.items.to_list() == [7, 3, 5]
    assert ratings.catalogue.column("title") == ["A", "B", "C"]


def test_statements_reach_postgresql_as_they_are(postgres_url: str) -> None:
    """Casts, colons and percent signs are SQL, not parameters; the caller's connection stays as it is."""
    engine = sa.create_engine(postgres_url)
    statement = "SELECT 'a:b :c' AS user, '7'::int AS item, 2.5 AS rating WHERE 'axb' LIKE '%x%' AND 10 % 3 = 1"
    with engine.connect() as connection:
        before = dict(connection.get_execution_options())
        ratings = discreet.read(statement, connection=connection)
        assert dict(connection.get_execution_options()) == before
    engine.dispose()
    assert ratings.history("a:b :c") == {7: 2.5}


@pytest.mark.parametrize(
    "statement", ["SELEC userId FROM ratings", "SELECT nothing FROM ratings", "SELECT * FROM none"]
)
def test_postgresql_errors_are_explained(postgres_url: str, statement: str) -> None:
    with pytest.raises(discreet.errors.DataError, match="Correct the SELECT"):
        discreet.read(statement, connection=postgres_url)


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
