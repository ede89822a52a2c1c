"""Every form in which a history may come, and everything that may be wrong with it."""

import uuid
import warnings
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import discreet
from discreet.data.catalogue import Catalogue
from discreet.errors import DataError, UnknownItem
from discreet.models.als import ALS
from discreet.recommend.histories import Reader
from tests.recommend.conftest import N_ITEMS, make_ratings


@pytest.fixture
def reader(als):
    return als._reader("raise")


def as_dict(table):
    assert table.n_users == 1
    return table.history(table.users[0])


MAPPINGS = {
    "dict": dict,
    "ordered": OrderedDict,
    "proxy": MappingProxyType,
    "pandas Series": pd.Series,
    "numpy values": lambda h: {k: np.float32(v) for k, v in h.items()},
    "numpy keys": lambda h: {np.str_(k): v for k, v in h.items()},
    "decimals": lambda h: {k: Decimal(str(v)) for k, v in h.items()},
    "fractions": lambda h: {k: Fraction(v) for k, v in h.items()},
    "pandas frame": lambda h: pd.DataFrame({"item": list(h), "rating": list(h.values())}),
    "polars frame": lambda h: pl.DataFrame({"movieId": list(h), "stars": list(h.values())}),
    "lazy frame": lambda h: pl.LazyFrame({"item": list(h), "rating": list(h.values())}),
    "arrow table": lambda h: pa.table({"item": list(h), "rating": list(h.values())}),
    "arrow batch": lambda h: pa.record_batch({"item": list(h), "rating": list(h.values())}),
    "categories": lambda h: pd.DataFrame({"item": pd.Categorical(list(h)), "rating": list(h.values())}),
    "odd index": lambda h: pd.DataFrame({"item": list(h), "rating": list(h.values())}, index=[9, 9, 1, 0]),
}


@pytest.mark.parametrize("form", MAPPINGS)
def test_ratings(reader, history, form):
    table, single = reader.read(MAPPINGS[form](history))
    assert single
    assert as_dict(table) == history
    assert list(table.indices) == sorted(table.indices)


LISTS = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "generator": iter,
    "keys": lambda items: dict.fromkeys(items).keys(),
    "numpy": np.array,
    "numpy objects": lambda items: np.array(items, object),
    "polars": pl.Series,
    "arrow": pa.array,
    "chunked": lambda items: pa.chunked_array([items[:2], items[2:]]),
    "pandas index": pd.Index,
    "ids": discreet.data.catalogue.Ids,
    "twice": lambda items: items + items,
    "frame": lambda items: pd.DataFrame({"item": items}),
    "lazy": lambda items: pl.LazyFrame({"item": items}),
}


@pytest.mark.parametrize("form", LISTS)
def test_liked_items_get_the_highest_rating(reader, history, form):
    table, single = reader.read(LISTS[form](list(history)))
    assert single
    assert as_dict(table) == dict.fromkeys(history, 5.0)


@pytest.mark.parametrize(
    "empty",
    [
        {},
        [],
        (),
        set(),
        iter([]),
        np.array([]),
        np.array([], str),
        pd.Series(dtype=float),
        pl.Series([], dtype=pl.Utf8),
        pa.array([], pa.string()),
        pd.DataFrame({"item": [], "rating": []}),
        pl.DataFrame({"item": [], "rating": []}),
        pa.table({"item": pa.array([], pa.string())}),
        pl.LazyFrame({"item": []}),
    ],
    ids=lambda empty: f"{type(empty).__module__.split('.')[0]}.{type(empty).__name__}",
)
def test_nothing_is_an_empty_history(als, empty):
    table, single = als._reader("raise").read(empty)
    assert single
    assert table.n_users == 1
    assert not len(table)


def frames(rows):
    columns = {"user": [r[0] for r in rows], "item": [r[1] for r in rows], "rating": [r[2] for r in rows]}
    return [pd.DataFrame(columns), pl.DataFrame(columns), pl.LazyFrame(columns), pa.table(columns)]


def test_many_users(reader, ids):
    rows = [("b", ids[1], 2.0), ("a", ids[4], 5.0), ("b", ids[0], 3.0)]
    for frame in frames(rows):
        table, single = reader.read(frame)
        assert not single
        assert table.users.to_list() == ["a", "b"]
        assert table.history("b") == {ids[0]: 3.0, ids[1]: 2.0}
    table, single = reader.read([{ids[4]: 5.0}, {}, {ids[1]: 2.0, ids[0]: 3.0}])
    assert not single
    assert table.users.to_list() == [0, 1, 2]
    assert [table.history(user) for user in range(3)] == [{ids[4]: 5.0}, {}, {ids[0]: 3.0, ids[1]: 2.0}]


def test_a_frame_of_users_without_rows_is_no_users(als):
    for frame in frames([]):
        table, single = als._reader("raise").read(frame)
        assert not single
        assert table.n_users == 0
        assert len(als.recommend(frame)) == 0


def test_users_and_items_without_ratings_are_liked(reader, ids):
    """Not rated 1, which would be disliked."""
    frame = pd.DataFrame({"user": [1, 1, 2], "item": [ids[0], ids[1], ids[0]]})
    assert list(reader.read(frame)[0].values) == [5.0] * 3
    other = discreet.read(frame, items=ids)
    assert list(reader.read(other)[0].values) == [5.0] * 3


def test_interactions_over_another_catalogue(reader, ids):
    rows = [("b", ids[9], 2.0), ("a", ids[4], 5.0), ("b", ids[0], 3.0)]
    other = discreet.read(rows, items=[*reversed(ids), "one more"], value_range=(1, 5))
    table, single = reader.read(other)
    assert not single
    assert table.catalogue is reader.catalogue
    assert table.history("b") == {ids[0]: 3.0, ids[9]: 2.0}
    assert table.indices.tolist() == [4, 0, 9]


def test_interactions_over_the_same_catalogue_are_not_copied(reader, ratings):
    table, _ = reader.read(ratings)
    assert np.shares_memory(table.indices, ratings.indices)


def test_a_model_without_ratings_ignores_them(implicit, ids):
    for history in ({ids[2]: 77.0, ids[1]: 0}, [ids[2], ids[1]]):
        table, _ = implicit._reader("raise").read(history)
        assert list(table.values) == [1.0, 1.0]
    for odd in (np.nan, None, True, "5"):
        with pytest.raises(DataError, match="history: ratings must be"):
            implicit.recommend({ids[2]: odd})


# What is wrong


@pytest.mark.parametrize(
    "thing",
    ["film 1", b"film 1", None, 5, 5.0, object(), np.array(5), np.eye(2), csr_array(np.eye(2)), ["a", {}], [{}, "a"],
     [["film 1"], ["film 2"]], [None], [("film 1", 5.0)], [{"film 1": 4.0}, ["film 1"]]],
    ids=lambda thing: type(thing).__name__,
)  # fmt: skip
def test_what_is_no_history(als, thing):
    with pytest.raises((DataError, UnknownItem), match="history"):
        als.recommend(thing)


@pytest.mark.parametrize("rating", [np.nan, np.inf, -np.inf, 1e300, 10**400, Decimal("NaN"), np.float32("nan")])
def test_ratings_must_be_finite(als, rating):
    with pytest.raises(DataError, match="history"):
        als.recommend({"film 1": 4.0, "film 2": rating})


@pytest.mark.parametrize("rating", ["4", b"4", None, True, np.True_, [4.0], 4j, pd.NA, {}])
def test_ratings_must_be_numbers(als, rating):
    with pytest.raises(DataError, match=r"history: ratings must be numbers.*give a list"):
        als.recommend({"film 1": 4.0, "film 2": rating})


@pytest.mark.parametrize("rating", [0, 0.99, 5.01, -3, 6, 1e30])
def test_ratings_must_be_in_range(als, ids, rating):
    """The message says what is public, and not the rating."""
    for history in (
        {ids[1]: rating},
        pd.DataFrame({"item": ids[:1], "rating": [rating]}),
        pd.DataFrame({"user": [1], "item": ids[:1], "rating": [rating]}),
        discreet.read([(1, ids[0], rating)], items=ids),
    ):
        with pytest.raises(DataError, match=r"^history: (?!history).*range, 1 to 5") as error:
            als.recommend(history)
        assert f"{rating:g} " not in str(error.value).replace("1 to 5", "")


def test_the_ends_of_a_range_that_floats_cannot_hold():
    ratings = discreet.read(
        [(u, i, 0.1 + 0.8 * ((u + i) % 2)) for u in range(9) for i in range(4)], value_range=(0.1, 0.9)
    )
    model = ALS(rank=2, n_steps=1).fit(ratings)
    assert len(model.recommend({0: 0.1, 1: 0.9})) == 2


@pytest.mark.parametrize("column", [[4.0, np.nan], [4.0, None]])
def test_missing_ratings_in_frames(als, column):
    with pytest.raises(DataError, match=r"^history: (?!history)"):
        als.recommend(pd.DataFrame({"item": ["film 1", "film 2"], "rating": column}))
    with pytest.raises(DataError, match=r"^history: (?!history)"):
        als.recommend(pl.DataFrame({"user": [1, 1], "item": ["film 1", "film 2"], "rating": column}))


def test_a_frame_without_items(als):
    with pytest.raises(DataError, match=r"history: none of its columns \['foo'\].*'item'"):
        als.recommend(pd.DataFrame({"foo": [1]}))


def test_the_last_of_repeated_ratings_counts_as_in_every_table(reader, ids):
    frame = pd.DataFrame({"item": [ids[0], ids[1], ids[0]], "rating": [1.0, 2.0, 3.0]})
    assert as_dict(reader.read(frame)[0]) == {ids[0]: 3.0, ids[1]: 2.0}


def test_policies():
    with pytest.raises(DataError, match="on_unknown: one of raise, warn, ignore is needed, not 'drop'"):
        Reader(Catalogue(["a"]), (0, 1), False, "drop")


UNKNOWN = {
    "mapping": {"film 1": 4.0, "no such film": 3.0},
    "list": ["film 1", "no such film"],
    "array": np.array(["film 1", "no such film"]),
    "series": pd.Series({"film 1": 4.0, "no such film": 3.0}),
    "frame": pd.DataFrame({"item": ["film 1", "no such film"], "rating": [4.0, 3.0]}),
    "users": pd.DataFrame({"user": [1, 1], "item": ["film 1", "no such film"], "rating": [4.0, 3.0]}),
    "mappings": [{"film 1": 4.0}, {"no such film": 3.0}],
}


@pytest.mark.parametrize("form", UNKNOWN)
def test_unknown_items(als, form):
    history = UNKNOWN[form]
    with pytest.raises(UnknownItem, match=r"history: the model does not know 'no such film'; .*on_unknown='ignore'"):
        als.recommend(history)
    with pytest.warns(UserWarning, match="history: left out .* 'no such film'") as said:
        warned = als.recommend(history, on_unknown="warn")
    assert [warning.filename for warning in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ignored = als.recommend(history, on_unknown="ignore")
    np.testing.assert_array_equal(warned.scores, ignored.scores)


def test_nothing_known_is_an_empty_history(als):
    found = als.recommend({"no such film": 4.0}, on_unknown="ignore")
    assert found.note == als.recommend({}).note != ""
    assert found.items == als.recommend({}).items


@pytest.mark.parametrize("size", [1, 300])
def test_ids_of_another_type_are_told_apart_from_unknown_ones(als, size):
    for form in (list, np.array):
        with pytest.raises(DataError, match="history: ids of type"):
            als.recommend(form(list(range(size))), on_unknown="ignore")


@pytest.mark.parametrize(("own", "asked"), [(str, int), (int, str)])
def test_unknown_ids_of_a_type_that_can_be_known_are_left_out(own, asked):
    """Else a person with nothing but unknown items would be refused, unless others are asked for with them."""
    model = ALS(rank=2, n_steps=1).fit(make_ratings([own(i) for i in range(N_ITEMS)]))
    nobody = model.recommend({})
    for size in (1, 300):
        unknown = [asked(i) for i in range(1000, 1000 + size)]
        for form in (list, np.array, lambda ids: dict.fromkeys(ids, 4.0)):
            assert model.recommend(form(unknown), on_unknown="ignore").items == nobody.items
        assert len(model.recommend([asked(3), *unknown], n=N_ITEMS, on_unknown="ignore")) == N_ITEMS - 1
        assert model.predict({}, unknown, on_unknown="ignore").shape == (size,)
    with pytest.raises(DataError, match="ids of type"):
        model.recommend([asked(1000)])


@pytest.mark.parametrize("times", [1, 100])
def test_short_and_long_arrays(als, ids, times):
    assert as_dict(als._reader("raise").read(np.array(ids * times))[0]) == dict.fromkeys(ids, 5.0)
    with pytest.raises(UnknownItem, match="'x'"):
        als.recommend(np.array([*ids * times, "x"]))


IDS = {
    "int": list(range(10, 10 + N_ITEMS)),
    "negative": list(range(-N_ITEMS, 0)),
    "uuid": [uuid.UUID(int=i) for i in range(N_ITEMS)],
    "bytes": [bytes([i]) for i in range(N_ITEMS)],
    "dates": list(pd.date_range("2020-01-01", periods=N_ITEMS).date),
    "unicode": [f"Ünïcode ☃ {i}" for i in range(N_ITEMS)],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_type_come_back_in_theirs(kind):
    ids = IDS[kind]
    model = ALS(rank=2, n_steps=1).fit(make_ratings(ids))
    found = model.recommend({ids[0]: 5.0, ids[1]: 1.0}, n=N_ITEMS)
    assert sorted(found.items) == sorted(ids[2:])
    assert {type(item) for item in found.items} == {type(ids[0])}
    assert model.recommend([ids[0]], n=3, allow=ids[:2]).items == [ids[1]]
    assert model.similar_items(ids[0], n=2).to_frame("pandas")["item"].tolist()[0] in ids
    assert found.to_frame().column("item").to_pylist() == found.items
    assert model.recommend(ids).to_frame().column("item").type == found.to_frame().column("item").type


def test_numpy_integers_as_keys():
    model = ALS(rank=2, n_steps=1).fit(make_ratings(IDS["int"]))
    for kind in (np.int64, np.int32, np.uint8):
        assert model.recommend({kind(12): 4.0}).items == model.recommend({12: 4.0}).items
        assert model.recommend(np.array([12, 13], kind)).items == model.recommend([12, 13]).items
    with pytest.raises(UnknownItem, match="99"):
        model.recommend({np.int64(99): 4.0})
