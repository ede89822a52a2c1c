"""What a new user tries: files that are not quite tables, statements that are not quite SELECTs, odd frames."""

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import discreet
from discreet.errors import DataError

HEADER = "user,item,rating\n"
LINES = "".join(f"{n},2,{n % 5}\n" for n in range(100))


def written(folder: Path, text: str, name: str = "r.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


# Text: no line is left out silently


@pytest.mark.parametrize("before", [0, 1, 100, 60_000])
@pytest.mark.parametrize(
    "line", ["user,item,rating,timestamp\n500,3,4,5\n", "7,3,4,5\n", "7,3\n", "(100 rows)\n", "Total: 7\n"]
)
@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_line_with_other_columns_is_named(line: str, before: int, separator: str, tmp_path: Path) -> None:
    lines = "".join(f"{n},2,{n % 5}\n" for n in range(before))
    text = (HEADER + lines + line + "1,2,3\n").replace(",", separator)
    path = written(tmp_path, text, "r.csv" if separator == "," else "r.tsv")
    with pytest.raises(DataError, match=rf"(?i)line:? {before + 2}\b.*number of columns") as caught:
        discreet.read(path)
    assert "\n" not in str(caught.value)
    assert "ignore_errors" not in str(caught.value)
    assert "no header line" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        HEADER + LINES,
        HEADER + "#1,2,3\n#2,2,3\n3,4,5\n",  # not comments
        HEADER + '"a,b",2,3\n"c ""d""e",2,3\n',
        HEADER.replace(",", ";") + "1;2;3\n4;5;6\n",
        HEADER.replace(",", "|") + "1|2|3\n4|5|6\n",
        HEADER + "a,b,1",
        HEADER.replace("\n", "\r\n") + "1,2,3\r\n4,5,6\r\n",
        "\ufeff" + HEADER + "1,2,3\n",
    ],
)
def test_every_line_counts(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(text.encode())
    lines = len([line for line in text.splitlines() if line]) - 1
    assert discreet.read(path).report.rows == lines


@pytest.mark.parametrize("above", ["\n", "  \n\n"])
def test_an_empty_line_above_the_header(above: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="begins with an empty line"):
        discreet.read(written(tmp_path, above + "user,item\n1,2\n3,4\n"))


@pytest.mark.parametrize("above", ["The ratings\n", "# comment\n"])
def test_a_title_above_the_header_is_not_skipped(above: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column has a usual name"):
        discreet.read(written(tmp_path, above + HEADER + "1,2,3\n"))


def test_a_separator_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"separated by several.*'user::item::rating'.*delim"):
        discreet.read(written(tmp_path, "user::item::rating\n1::2::3\n2::2::3\n"))


def test_a_select_whose_lines_are_uneven(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "1,2,3\n1,2\n3,4,5\n")
    columns = "{'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'}"
    with pytest.raises(DataError, match=r"(?i)line: 3\b.*column"):
        discreet.read(
            f"SELECT * FROM read_csv('{path}', auto_detect = false, quote = '', header = true, columns = {columns})"
        )


def test_an_uneven_catalogue(tmp_path: Path) -> None:
    path = written(tmp_path, "item,title\n1,A\n2,B, or C\n")
    with pytest.raises(DataError, match=r"line 3 .*'2,B, or C'.*double quotes"):
        discreet.read([(1, 1, 1.0)], items=path)


def test_columns_in_another_order_in_another_file(tmp_path: Path) -> None:
    for n in range(15):
        written(tmp_path, "item,user\n5,6\n" if n == 14 else "user,item\n1,2\n", f"{n:02}.csv")
    ratings = discreet.read(tmp_path / "*.csv")
    assert set(zip(*ratings.to_arrow().to_pydict().values(), strict=True)) == {("1", "2", 1.0), ("6", "5", 1.0)}


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


# Text: cells


@pytest.mark.parametrize("word", ["NA", "NULL", "null", "None", r"\N", "", " NA"])
@pytest.mark.parametrize("before", [1, 60_000])
def test_words_for_a_missing_value(word: str, before: int, tmp_path: Path) -> None:
    lines = "".join(f"{n},2,{n % 5}\n" for n in range(before))
    path = written(tmp_path, HEADER + lines + f"a,b,{word}\nc,d,4\n")
    with pytest.raises(DataError, match=rf"value: row {before + 1} .*is missing"):
        discreet.read(path)
    ratings = discreet.read(path, on_invalid="drop")
    assert (ratings.report.dropped, len(ratings)) == (1, before + 1)


def test_a_word_for_missing_may_be_an_id(tmp_path: Path) -> None:
    assert discreet.read(written(tmp_path, HEADER + "NA,None,1\nFR,null,2\n")).users.to_list() == ["FR", "NA"]


def test_a_decimal_comma(tmp_path: Path) -> None:
    path = written(tmp_path, "user;item;rating\n1;2;3\n1;3;3,5\n")
    with pytest.raises(DataError, match=r"row 2 holds '3,5'.*decimal_separator = ','"):
        discreet.read(path)
    columns = "{'user': 'INT', 'item': 'INT', 'rating': 'DOUBLE'}"
    options = "auto_detect = false, quote = '', header = true, delim = ';', decimal_separator = ',', "
    options += f"columns = {columns}"
    assert discreet.read(f"SELECT * FROM read_csv('{path}', {options})").history(1) == {2: 3.0, 3: 3.5}


def test_blanks_after_commas(tmp_path: Path) -> None:
    """A blank is a part of an id, as everywhere in CSV; it is none of the name of a column, or of a number."""
    ratings = discreet.read(written(tmp_path, "user, item, rating\n1, 2, 3\n1, x, 4\n1,2, 5\n"))
    assert ratings.history("1") == {" 2": 3.0, " x": 4.0, "2": 5.0}


@pytest.mark.parametrize("cells", [("1", '"1"'), ('"1"', "1"), ("1", "1.5"), ("1.5", '"1.5"'), ('"true"', "true")])
@pytest.mark.parametrize("before", [1, 60_000])
def test_two_ids_of_json_are_never_merged(cells: tuple[str, str], before: int, tmp_path: Path) -> None:
    rows = [f'{{"user": {cells[0]}, "item": {n}}}\n' for n in range(before)] + [f'{{"user": {cells[1]}, "item": 0}}\n']
    path = written(tmp_path, "".join(rows), "r.jsonl")
    try:
        assert discreet.read(path, value=None).n_users == 2
    except DataError as error:
        assert "column user: some ids are" in str(error)  # noqa: PT017


def test_missing_ids_of_json(tmp_path: Path) -> None:
    path = written(tmp_path, '{"user": 1, "item": "a"}\n{"user": null, "item": "b"}\n{"user": 2}\n', "r.jsonl")
    assert discreet.read(path, value=None, on_invalid="drop").to_arrow().to_pydict()["item"] == ["a"]
    with pytest.raises(DataError, match=r"missing in row 2.*keys are user, item and rating.*value=None"):
        discreet.read(path)


# Statements and databases


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


# Frames


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


def test_a_catalogue_of_mixed_ids() -> None:
    with pytest.raises(DataError, match=r"'item'.*astype\(str\)"):
        discreet.read([(1, 2)], items=pd.DataFrame({"item": [1, "a"]}))


def test_entries_of_a_sparse_matrix_that_repeat_are_summed() -> None:
    entries = scipy.sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 2], [1, 1, 0])), shape=(4, 3))
    ratings = discreet.read(entries)
    assert ratings.history(0) == {1: 3.0}
    assert (ratings.users.to_list(), ratings.items.to_list()) == ([0, 2], [0, 1])
    assert entries.nnz == 3  # the caller's is as it was
    assert discreet.read(entries, items=range(3)).n_items == 3


@pytest.mark.parametrize("bounds", ["15", b"15", "1,5", 5, (1, 2, 3)])
def test_a_value_range_is_two_numbers(bounds: Any) -> None:
    with pytest.raises(DataError, match="value_range: two numbers"):
        discreet.read([(1, 2, 3.0)], value_range=bounds)
