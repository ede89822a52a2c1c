"""What comes back: lists, tables, text."""

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet.errors import DataError
from discreet.models.baselines import Popularity
from discreet.recommend.results import Recommendations

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
TYPES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize("many", [False, True])
def test_frames_come_back_in_the_library_of_the_caller(als, ids, library, many):
    columns = {"item": ids[:3], "rating": [4.0, 3.0, 1.0], **({"user": ["b", "a", "b"]} if many else {})}
    found = als.recommend(FRAMES[library](columns), n=4)
    frame = found.to_frame()
    assert type(frame) is TYPES[library]
    names = ["user"] * many + ["item", "score", "rank"]
    assert list(frame.column_names if library == "pyarrow" else frame.columns) == names
    for other, kind in TYPES.items():
        assert type(found.to_frame(other)) is kind
    with pytest.raises(DataError, match="library: one of"):
        found.to_frame("excel")


def test_interactions_remember_their_library(als, ids):
    frame = pl.DataFrame({"user": [1], "item": ids[:1], "rating": [4.0]})
    assert type(als.recommend(discreet.read(frame, items=ids)).to_frame()) is pl.DataFrame
    assert type(als.recommend(pl.LazyFrame(frame)).to_frame()) is pl.DataFrame
    assert type(als.recommend({}).to_frame()) is pa.Table


def test_one(als, history):
    found = als.recommend(history, 5)
    assert len(found) == len(found.items) == len(found.scores) == 5
    assert list(found) == list(zip(found.items, found.scores.tolist(), strict=True))
    assert found.to_frame("pandas")["rank"].tolist() == [1, 2, 3, 4, 5]
    assert found.items[0] in repr(found)
    assert found == found  # noqa: PLR0124  # arrays within cannot be compared as one
    assert len({found}) == 1


def test_many(als, ratings):
    found = als.recommend(ratings, 3)
    frame = found.to_frame("pandas")
    assert frame["rank"].tolist() == [1, 2, 3] * 60
    assert frame["user"].tolist() == [user for user in ratings.users for _ in range(3)]
    assert frame["item"].tolist() == found.items.to_pylist()
    last = list(found)[-1]
    assert last[0] == ratings.users[59]
    assert last[1].items == frame["item"].tolist()[-3:]
    assert "180 for 60 users" in repr(found)
    for nobody in ("nobody", None, []):
        with pytest.raises(DataError, match=r"user: .* is not among those"):
            found[nobody]


def test_ranks_of_lists_of_different_lengths(als, ratings):
    few = ratings.items.to_list()[:4]
    found = als.recommend(ratings, 3, allow=few)
    counts = np.diff(found.indptr)
    assert len(set(counts)) > 1
    assert found.to_arrow()["rank"].to_pylist() == [rank for count in counts for rank in range(1, count + 1)]


def test_titles(ids, ratings):
    frame = pd.DataFrame({"item": ids, "Title": [None, *(f"The {item}" for item in ids[1:])]})
    model = Popularity().fit(ratings.with_public(items=frame))
    found = model.recommend({}, len(ids))
    expected = [None if item == ids[0] else f"The {item}" for item in found.items]
    assert found.titles == expected
    assert "The film 3" in repr(found)
    assert model.recommend(ratings, 2)[ratings.users[0]].titles is not None
    assert "The film 3" in repr(model.explain([ids[3]], ids[4]))
    assert model.similar_items(ids[3]).titles is not None


def test_long_titles_are_cut_on_the_screen_alone():
    joke = "A man walks into a bar,\nand " + "then " * 30
    found = Recommendations([1, 2], np.array([0.5, 0.25]), [joke, None])
    assert found.titles[0] == joke
    first = repr(found).splitlines()[1]
    assert "A man walks into a bar, and then" in first
    assert first.endswith("…")
    assert len(first) < 80


def test_an_empty_list_keeps_the_type_of_the_ids(als, ids, history):
    none, some = als.recommend(ids), als.recommend(history)
    assert none.to_frame().schema == some.to_frame().schema
    assert als.explain({}, ids[0]).to_frame().column("item").type == some.to_frame().column("item").type


def test_uuids_in_every_library():
    ids = [uuid.UUID(int=i) for i in range(5)]
    model = Popularity().fit([(u, ids[u % 4], 1.0) for u in range(9)])
    found = model.recommend({}, 4)
    assert found.to_frame("pandas")["item"].tolist() == found.items
    assert found.to_frame("polars")["item"].to_list() == [str(item) for item in found.items]
    assert found.to_frame("pyarrow")["item"].to_pylist() == found.items


def test_made_by_hand():
    made = Recommendations(["a"], np.array([1.5]), note="hello")
    assert repr(made).splitlines() == ["rank  item  score", "1     a     1.5", "(hello)"]
    assert made.to_frame().num_rows == 1


@pytest.mark.parametrize("library", TYPES)
def test_titles_are_in_tables(ids, ratings, library):
    called = {item: None if item == ids[0] else f"The {item}" for item in ids}
    frame = pd.DataFrame({"item": called.keys(), "title": called.values()})
    model = Popularity().fit(ratings.with_public(items=frame))
    one, many, why = model.recommend({}, 7), model.recommend(ratings, 2), model.explain([ids[3], ids[0]], ids[4])
    for found, before in ((one, "rank"), (many, "rank"), (why, "contribution")):
        rows = found.to_frame(library)
        table = rows if library == "pyarrow" else pa.table(rows)
        assert table.column_names[-2:] == [before, "title"]
        pairs = zip(table["item"].to_pylist(), table["title"].to_pylist(), strict=True)
        assert all(called[item] == title for item, title in pairs)
    empty = model.recommend(ids)
    assert empty.to_frame("pyarrow").schema == one.to_frame("pyarrow").schema


def test_notebooks_show_tables(ids, ratings):
    frame = pd.DataFrame({"item": ids, "title": [f"<b>{item}</b>" for item in ids]})
    model = Popularity().fit(ratings.with_public(items=frame))
    one, many, why = model.recommend({}, 3), model.recommend(ratings, 2), model.explain([ids[3]], ids[4])
    for found, heads in (
        (one, ("rank", "item", "score", "title")),
        (many, ("user", "rank", "item", "score", "title")),
        (why, ("item", "rating", "adds", "")),
    ):
        shown = found._repr_html_()
        assert "".join(f"<th>{head}</th>" for head in heads) in shown
        assert "<b>" not in shown
        assert "&lt;b&gt;film" in shown
    assert "no history" in one._repr_html_()
    assert many._repr_html_().count("<tr>") == 1 + 2 * 5
    assert "first 5 users" in many._repr_html_()
    assert "first" not in model.recommend(ratings[:2], 2)._repr_html_()
    plain = Popularity().fit(ratings).recommend({}, 3)._repr_html_()
    assert "title" not in plain
