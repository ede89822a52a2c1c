"""Predictions, in all forms of histories and targets."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet.errors import DataError, UnknownItem
from tests.recommend.conftest import N_ITEMS


def test_one_history(model, ids, history):
    found = model.predict(history, ids)
    assert found.shape == (N_ITEMS,)
    scores = dict(model.recommend(history, N_ITEMS, exclude_seen=False))
    expected = np.array([scores[item] for item in ids])
    if not model.implicit_:
        expected = np.clip(expected, 1, 5)
    np.testing.assert_allclose(found, expected, atol=1e-5)


FORMS = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "keys": lambda items: dict.fromkeys(items).keys(),
    "set": set,
    "numpy": np.array,
    "polars": pl.Series,
    "arrow": pa.array,
    "pandas": lambda items: pd.Series(items, index=[5, 7]),
    "frame": lambda items: pd.DataFrame({"item": items}),
    "lazy": lambda items: pl.LazyFrame({"item": items}),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_items(als, ids, history, form):
    targets = FORMS[form]([ids[9], ids[0]])
    asked = list(targets) if form == "set" else [ids[9], ids[0]]
    np.testing.assert_array_equal(als.predict(history, targets), als.predict(history, asked))


def test_items_may_be_asked_for_twice(als, ids, history):
    found = als.predict(history, [ids[9], ids[0], ids[9]])
    assert found[0] == found[2] != found[1]


WRONG_ITEMS = ["film 1", None, 5, {"film 1": 3.0}, [["film 1"]], [1], pd.DataFrame({"foo": ["film 1"]})]
WRONG_PAIRS = ["ab", ["ab", "cd"], None, 5, [1, 2], [("a",)], [("a", "b", 3.0)], {"a": "b"}]


@pytest.mark.parametrize("targets", WRONG_ITEMS, ids=lambda thing: type(thing).__name__)
def test_wrong_items(als, history, targets):
    with pytest.raises(DataError, match="targets"):
        als.predict(history, targets)


def test_interactions_as_targets_of_one_history(als, history, ratings):
    with pytest.raises(DataError, match="targets: with one history, give a list of items, not Interactions"):
        als.predict(history, ratings)


def pairs_of(ratings):
    table = ratings.to_arrow()
    return list(zip(table["user"].to_pylist(), table["item"].to_pylist(), strict=True))


def test_many_histories(model, ratings):
    pairs = pairs_of(ratings)[::7]
    users, items = (list(column) for column in zip(*pairs, strict=True))
    found = model.predict(ratings, pairs)
    for targets in (
        np.array(pairs),
        [list(pair) for pair in pairs],
        iter(pairs),
        pd.DataFrame({"user": users, "item": items}),
        pl.DataFrame({"item": items, "userId": users, "rating": 1.0}),
        pl.LazyFrame({"user": users, "item": items}),
        pa.table({"user": users, "item": items}),
    ):
        np.testing.assert_array_equal(model.predict(ratings, targets), found)
    for (user, item), value in list(zip(pairs, found, strict=True))[::5]:
        assert model.predict(ratings.history(user), [item])[0] == pytest.approx(value, abs=1e-5)
    np.testing.assert_array_equal(model.predict(ratings, ratings)[::7], found)


@pytest.mark.parametrize("targets", WRONG_PAIRS, ids=lambda thing: type(thing).__name__)
def test_wrong_pairs(als, ratings, targets):
    with pytest.raises(DataError, match="targets: with many histories, give pairs"):
        als.predict(ratings, targets)


def test_frames_of_pairs_without_users(als, ratings):
    with pytest.raises(DataError, match="targets: columns named user and item are needed"):
        als.predict(ratings, pd.DataFrame({"item": ["film 1"]}))


def test_targets_over_another_catalogue(als, ratings, ids):
    rows = [("user 5", ids[8], 3.0), ("user 2", ids[1], 2.0), ("user 2", ids[20], 2.0)]
    targets = discreet.read(rows, items=[*reversed(ids), "never rated"])
    expected = [als.predict(ratings, [pair])[0] for pair in pairs_of(targets)]
    np.testing.assert_allclose(als.predict(ratings, targets), expected, rtol=1e-6)


def test_unknown_items(model, ratings, ids, history):
    mean = 0.0 if model.implicit_ else np.mean(list(history.values()))
    targets = [ids[0], "x", ids[1]]
    with pytest.raises(UnknownItem, match=r"targets: the model does not know 'x'; .*on_unknown"):
        model.predict(history, targets)
    with pytest.warns(UserWarning, match="targets: .*'x'") as said:
        found = model.predict(history, targets, on_unknown="warn")
    assert [warning.filename for warning in said] == [__file__]
    assert found[1] == pytest.approx(mean)
    np.testing.assert_array_equal(found[[0, 2]], model.predict(history, [ids[0], ids[1]]))
    np.testing.assert_array_equal(model.predict(history, targets, on_unknown="ignore"), found)
    pairs = [("user 3", "x"), ("user 3", ids[0])]
    own = 0.0 if model.implicit_ else np.mean(list(ratings.history("user 3").values()))
    assert model.predict(ratings, pairs, on_unknown="ignore")[0] == pytest.approx(own)
    nobody = 0.0 if model.implicit_ else model.global_mean_
    assert model.predict({}, ["x"], on_unknown="ignore")[0] == pytest.approx(nobody)


def test_users_without_a_history(model, ratings, ids):
    pairs = [("nobody", ids[0]), ("user 3", ids[0]), ("nobody", "x")]
    with pytest.raises(DataError, match=r"targets: some of their users have no history; .*on_unknown='ignore'"):
        model.predict(ratings, pairs[:2])
    with pytest.warns(UserWarning, match="targets: some of their users have no history") as said:
        found = model.predict(ratings, pairs[:2], on_unknown="warn")
    assert [warning.filename for warning in said] == [__file__]
    assert found[0] == pytest.approx(model.predict({}, [ids[0]])[0], abs=1e-6)
    assert found[1] == pytest.approx(model.predict(ratings, pairs[1:2])[0], abs=1e-6)
    nobody = 0.0 if model.implicit_ else model.global_mean_
    assert model.predict(ratings, pairs[::2], on_unknown="ignore")[1] == pytest.approx(nobody)


def test_users_with_an_empty_history(model, ratings, ids):
    some = ratings.where(ratings.user_numbers() != 0)
    pairs = [(some.users[0], item) for item in ids]
    np.testing.assert_allclose(model.predict(some, pairs), model.predict({}, ids), atol=1e-6)


def test_predictions_stay_in_range(model, ids):
    for value in (1.0, 5.0):
        found = model.predict(dict.fromkeys(ids, value), ids)
        assert np.isfinite(found).all()
        if not model.implicit_:
            assert found.min() >= 1
            assert found.max() <= 5


def test_no_targets(model, ratings, history):
    assert model.predict(history, []).shape == (0,)
    assert model.predict(ratings, []).shape == (0,)


@pytest.mark.parametrize("share", [1, 29, 30, 31, 60])
def test_predictions_are_the_same_for_any_part_of_the_targets(model, ratings, share):
    """To the last bit: whether few of the users are asked about, or most of them."""
    pairs = pairs_of(ratings)
    whole = dict(zip(pairs, model.predict(ratings, pairs), strict=True))
    some = [pair for pair in reversed(pairs) if int(pair[0].split()[1]) < share]
    assert [whole[pair] for pair in some] == model.predict(ratings, some).tolist()
    user, item = some[0]
    assert model.predict(ratings.history(user), [item, item]).tolist() == [whole[user, item]] * 2
