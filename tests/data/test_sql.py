"""SELECTs: only one runs, it writes nothing, and nothing is guessed from people's rows."""

from __future__ import annotations

import sqlite3
import sys
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

import discreet
from discreet.data.sql import require_select
from discreet.errors import DataError
from tests.data.conftest import HEADER, SWALLOWED, written

ROWS = [("ann", "x", 4.0), ("bob", "y", 2.0), ("ann", "y", 3.0)]


def test_uuids_of_duckdb_come_back() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT uuid() AS user, uuid() AS item FROM range(3)")
        select = discreet.read("SELECT * FROM t", connection=connection)
        relation = discreet.read(connection.table("t"))
        assert select == relation
        assert {type(user) for user in (*select.users, *select.items)} == {uuid.UUID}
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (3,)  # still the caller's


def test_what_does_not_fit_in_memory_goes_where_nobody_else_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to a folder of a known name, which someone else may have made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    connect, folders = duckdb.connect, []

    def spied(*given: Any, **options: Any) -> Any:
        folders.extend((path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir())
        return connect(*given, **options)

    monkeypatch.setattr(duckdb, "connect", spied)  # `read` connects again, to parse the statement
    for _ in range(2):
        select = "SELECT 1 AS user, 2 AS item, current_setting('temp_directory') AS folder"
        assert discreet.read(select, value=None, items=[2]).n_users == 1
    assert not list(tmp_path.iterdir())
    assert len({name for name, _ in folders}) == 2
    assert sys.platform == "win32" or {mode for _, mode in folders} == {0o700}


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


def test_a_select_whose_lines_are_uneven(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", HEADER + "1,2,3\n1,2\n3,4,5\n")
    columns = "{'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'}"
    with pytest.raises(DataError, match=r"(?i)line: 3\b.*column"):
        discreet.read(
            f"SELECT * FROM read_csv('{path}', auto_detect = false, quote = '', header = true, columns = {columns})"
        )


def test_a_table_that_does_not_exist() -> None:
    with pytest.raises(DataError, match=r"cannot be read: Table with name ratings does not exist\. Correct"):
        discreet.read("SELECT * FROM ratings")


def test_errors_of_duckdb_are_short(tmp_path: Path) -> None:
    for source in (
        "SELECT nothing FROM 'none.parquet'",
        "SELECT usr FROM (SELECT 1 AS user)",
        "SELECT 1 user FROM FROM",
    ):
        with pytest.raises(DataError) as caught:
            discreet.read(source)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("more", ["; DROP TABLE x", "; INSERT INTO x VALUES (3, 4);", "; SELECT 1"])
def test_a_single_select_runs(more: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE x AS SELECT 1 AS user, 2 AS item")
        with pytest.raises(DataError, match="a single SELECT is needed"):
            discreet.read("SELECT * FROM x" + more, connection=connection)
        with pytest.raises(DataError, match="a single SELECT is needed"):
            discreet.read("DROP TABLE x", connection=connection)
        assert connection.execute("SELECT * FROM x").fetchall() == [(1, 2)]
        for fine in ("SELECT * FROM x;", "FROM x ; ;", "WITH y AS (FROM x) FROM y -- all; of it"):
            assert discreet.read(fine, connection=connection).history(1) == {2: 1.0}


def test_sqlite_by_path_and_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("s.db") as database:
        database.execute("CREATE TABLE r AS SELECT 1 AS user, 2 AS item")
    database.close()
    with pytest.raises(DataError, match=r"use connection='sqlite:///s.db'"):
        discreet.read("SELECT * FROM r", connection="s.db")
    assert discreet.read("SELECT * FROM r", connection="sqlite:///s.db").history(1) == {2: 1.0}
    with pytest.raises(DataError, match=r"connection: there is no file 'nope.db'"):
        discreet.read("SELECT * FROM r", connection="sqlite:///nope.db")
    assert not Path("nope.db").exists()


def test_extensions_are_not_downloaded() -> None:
    with pytest.raises(DataError, match="cannot be read") as caught:
        discreet.read("SELECT * FROM sqlite_scan('x.db', 'r')")
    assert "download" not in str(caught.value)


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
        "WITH x AS (SELECT 1) DELETE FROM r RETURNING *", "REPLACE INTO r VALUES ('a', 'b')", "",
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
    with pytest.raises(DataError, match=r"only reads|cannot be understood"):
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


SELECT = 'SELECT "userId", "movieId", rating FROM ratings'


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
