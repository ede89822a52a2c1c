"""Ids of any type, and catalogs of items."""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.data.catalogue import Catalogue, Ids, require_columns
from discreet.errors import DataError
from tests.data.conftest import written

ROWS = [("ann", "x", 4.0), ("bob", "y", 2.0), ("ann", "y", 3.0)]
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


def test_numbers_in_a_catalogue_of_text_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("year,movieId,title\n1999,07,A\n2001,8,B\n")
    catalogue = discreet.Catalogue.read(tmp_path / "m.csv")
    assert catalogue.ids.to_list() == ["07", "8"]
    assert catalogue.column("year") == [1999, 2001]


def test_ids_of_mixed_type_are_refused() -> None:
    with pytest.raises(DataError, match="user: ids of one type"):
        discreet.read([(1, "x", 1.0), ("a", "x", 1.0)])
    with pytest.raises(DataError, match="64 bits"):
        discreet.read([(2**70, "x", 1.0)])


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
    with pytest.raises(DataError, match="the id 'x' occurs more than once"):
        discreet.read(ROWS, items=["x", "y", "x"])
    with pytest.raises(DataError, match="2 ids are missing"):
        discreet.read(ROWS, items=["x", None, None])
    with pytest.raises(DataError, match=r"3 rows are about items .* while the catalog has ids such as 1\."):
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


def test_an_uneven_catalogue(tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv", "item,title\n1,A\n2,B, or C\n")
    with pytest.raises(DataError, match=r"line 3 .*'2,B, or C'.*double quotes"):
        discreet.read([(1, 1, 1.0)], items=path)


def test_a_catalogue_of_mixed_ids() -> None:
    with pytest.raises(DataError, match=r"'item'.*astype\(str\)"):
        discreet.read([(1, 2)], items=pd.DataFrame({"item": [1, "a"]}))


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


def test_nanoseconds_in_ids_are_not_cut() -> None:
    with pytest.raises(DataError, match="nanoseconds"):
        discreet.read([(pd.Timestamp(1_000_000_001), "x", 1.0), (pd.Timestamp(1_000_000_002), "x", 1.0)])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_extreme_integers(kind: str) -> None:
    limits = np.iinfo(kind)
    ids = np.array([limits.max, limits.min, limits.max - 1, limits.min + 1], dtype=kind)
    ratings = discreet.read(pa.table({"user": ids, "item": ids[::-1], "rating": np.arange(4.0)}))
    assert ratings.users.to_list() == sorted(ids.tolist())
    for at, one in enumerate(ids.tolist()):
        assert ratings.history(one) == {ids[::-1].tolist()[at]: float(at)}


def test_a_set_of_items_has_an_order_of_its_own() -> None:
    ratings = discreet.read([("a", "x", 1.0)], items={"z", "x", "y"})
    assert ratings.items.to_list() == ["x", "y", "z"]


@pytest.mark.parametrize("ids", [[3, 1], ["b", "a"], [uuid.UUID(int=3), uuid.UUID(int=1)], [dt.date(2020, 1, 1)]])
def test_ids_as_arrays_and_lists(ids: list[Any]) -> None:
    kept = Ids(ids)
    assert [str(one) for one in kept.to_numpy()] == [str(one) for one in ids]
    assert kept.to_list() == ids
    assert kept == Ids(ids)
    assert kept != Ids(ids[:-1])
    assert ids[0] in kept
    assert "none" not in kept
    assert "ids of type" in repr(kept)


def test_catalogues_as_a_person_sees_them() -> None:
    catalogue = discreet.Catalogue(["x", "y"], pa.table({"title": ["A", "B"]}))
    assert repr(catalogue) == "Catalogue of 2 items with title (given)"
    assert "x" in catalogue
    assert repr(discreet.read([("a", "x", 1.0)]).catalogue) == "Catalogue of 1 items (not declared public)"
    with pytest.raises(discreet.errors.DataError, match="1 rows of columns for 2 items"):
        discreet.Catalogue(["x", "y"], pa.table({"title": ["A"]}))


def test_a_frame_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = discreet.read([("a", "x", 1.0)])
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(discreet.errors.DataError, match="pip install polars"):
        ratings.to_frame("polars")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(ids=st.lists(st.one_of(TEXT), unique=True, max_size=20), others=st.lists(TEXT, max_size=20))
def test_ids_and_numbers(ids: list[str], others: list[str]) -> None:
    kept = Ids(pa.array(ids, pa.large_string()))
    assert kept.numbers(pa.array(others, pa.large_string())).tolist() == [
        ids.index(other) if other in ids else -1 for other in others
    ]
    assert [kept.number(one) for one in ids] == list(range(len(ids)))
    assert list(kept) == ids
    assert kept[: len(ids) // 2].to_list() == ids[: len(ids) // 2]


def test_a_search_ignores_case_accents_and_the_order_of_words() -> None:
    titles = ["Le fabuleux destin d'Am\u00e9lie", "Amelie from Montmartre", None, "Stra\u00dfe"]
    catalogue = Catalogue(["a", "b", "c", "d"], pa.table({"title": titles}))
    assert catalogue.search("amelie") == catalogue.search("AME\u0301LIE") == [0, 1]
    assert catalogue.search(" montmartre  amel") == [1]
    assert catalogue.search("c") == [2]  # it has no title
    assert catalogue.search("strasse") == [3]
    assert catalogue.search("") == [0, 1, 2, 3]
    assert Catalogue(range(12)).search("1") == [1, 10, 11]


def test_a_column_that_only_tells_items_apart_describes_none() -> None:
    ids = list(range(40))
    genres = [f"genre {i % 3}|own {i}" for i in ids]
    columns = {"title": [f"film {i}" for i in ids], "genres": genres, "rare": [None] * 39 + ["prize"], "year": ids}
    catalogue = Catalogue(ids, pa.table({**columns, "tags": [[f"tag {i}"] for i in ids]}))
    require_columns(
        catalogue, ["genres", "rare", "year", "tags"]
    )  # every text of genres is different, its parts are not
    with pytest.raises(DataError, match=r"share a text in 'title'.*leave it out \(columns that describe items: genres"):
        require_columns(catalogue, ["genres", "title"])
