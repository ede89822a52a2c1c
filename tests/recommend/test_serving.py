"""Recommending: filters, batches, files, memory."""

import itertools
import os
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from threadpoolctl import threadpool_limits

import discreet
from discreet.errors import DataError, DiscreetError, UnknownItem
from discreet.models.als import ALS
from discreet.models.baselines import Popularity
from discreet.models.fold_in import RidgeFoldIn
from discreet.parallel import blas_libraries
from discreet.recommend import serving
from tests.recommend.conftest import MODELS, N_ITEMS

numbers = st.sets(st.integers(0, N_ITEMS - 1))


@given(
    name=st.sampled_from(list(MODELS)),
    seen=numbers,
    allow=st.none() | numbers,
    deny=st.none() | numbers,
    exclude_seen=st.booleans(),
    n=st.integers(1, N_ITEMS + 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_filters_mean_what_they_say(models, ids, name, seen, allow, deny, exclude_seen, n):
    model = models[name]
    history = {ids[i]: 1.0 + i % 5 for i in seen}
    found = model.recommend(
        history,
        n,
        exclude_seen=exclude_seen,
        allow=None if allow is None else [ids[i] for i in allow],
        deny=None if deny is None else {ids[i] for i in deny},
    )
    may = (set(range(N_ITEMS)) if allow is None else allow) - (deny or set()) - (seen if exclude_seen else set())
    assert len(found) == len(set(found.items)) == min(n, len(may))
    assert set(found.items) <= {ids[i] for i in may}
    assert np.isfinite(found.scores).all()
    assert list(found.scores) == sorted(found.scores, reverse=True)
    everything = dict(model.recommend(history, N_ITEMS, exclude_seen=False))
    best = sorted((everything[ids[i]] for i in may), reverse=True)[:n]
    np.testing.assert_allclose(found.scores, best, atol=1e-5)


def test_fewer_are_the_first_of_more(model, history):
    fewer, more = model.recommend(history, 4), model.recommend(history, 9)
    assert fewer.items == more.items[:4]
    np.testing.assert_array_equal(fewer.scores, more.scores[:4])


def test_every_item_seen(model, ids):
    assert len(model.recommend(ids)) == 0
    assert len(model.recommend(ids, N_ITEMS, exclude_seen=False)) == N_ITEMS
    assert model.recommend(ids[1:]).items == ids[:1]
    assert model.recommend(ids).to_frame("pandas").shape == (0, 3)
    assert "rank" in repr(model.recommend(ids))


FORMS = [list, tuple, set, iter, np.array, pl.Series, pa.array, pd.Index, dict.fromkeys]


@pytest.mark.parametrize("form", [*FORMS, lambda items: pd.Series(items, index=[7, 8, 9])])
def test_forms_of_allow_and_deny(als, ids, history, form):
    three = ids[:3]
    assert set(als.recommend(history, allow=form(three), exclude_seen=False).items) == set(three)
    assert not set(als.recommend(history, N_ITEMS, deny=form(three)).items) & set(three)
    with pytest.raises(UnknownItem, match="'x'"):
        als.recommend(history, allow=form([*ids[:2], "x"]))


@pytest.mark.parametrize("argument", ["allow", "deny"])
def test_unknown_items_in_filters(als, ids, history, argument):
    with pytest.raises(UnknownItem, match=f"{argument}: the model does not know 'x'; .*on_unknown='ignore'"):
        als.recommend(history, **{argument: [ids[0], "x"]})
    with pytest.warns(UserWarning, match=f"{argument}: left out .* 'x'") as said:
        warned = als.recommend(history, **{argument: [ids[0], "x"]}, on_unknown="warn")
    assert [warning.filename for warning in said] == [__file__]
    assert warned.items == als.recommend(history, **{argument: [ids[0]]}).items
    assert len(als.recommend(history, allow=["x"], on_unknown="ignore")) == 0
    for wrong in ("film 1", 5, [["film 1"]], [1]):
        with pytest.raises(DataError, match=argument):
            als.recommend(history, **{argument: wrong})


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", True, None, [3]])
def test_wrong_n(als, history, n):
    for call in (als.recommend, als.recommend_blocks):
        with pytest.raises(DataError, match=r"^n must be a whole number >= 1"):
            call(history, n)
    with pytest.raises(DataError, match=r"^n must be"):
        als.similar_items("film 1", n)


def test_n_of_numpy(als, history):
    assert len(als.recommend(history, np.int64(3))) == 3


def test_an_empty_history_says_so(model):
    found = model.recommend({})
    assert found.note.startswith("no history: ranked by ")
    assert found.note in repr(found)
    assert len(found) == 10


# Many


def test_a_batch_is_the_same_as_one_by_one(model, ratings):
    """To the last bit."""
    batch = model.recommend(ratings, 5)
    assert len(batch) == ratings.n_users
    for user, together in batch:
        alone = model.recommend(ratings.history(user), 5)
        assert alone.items == together.items == batch[user].items
        np.testing.assert_array_equal(alone.scores, together.scores)
    for user, vector in zip(ratings.users, model.embed(ratings), strict=True):
        np.testing.assert_array_equal(model.embed(ratings.history(user)), vector)


@pytest.mark.parametrize("ask", ["recommend", "predict", "embed", "explain"])
def test_one_thread_of_blas_whatever_others_do(monkeypatch, als, ids, history, ask):
    """More threads cut sums into other parts, and how many there are depends on who else is being served."""
    threads = []

    def noted(function):
        def wrapped(*given):
            threads.extend(library.get_num_threads() for library in blas_libraries())
            return function(*given)

        return wrapped

    monkeypatch.setattr(RidgeFoldIn, "contributions", noted(RidgeFoldIn.contributions))
    monkeypatch.setattr(RidgeFoldIn, "fold_in", noted(RidgeFoldIn.fold_in))
    with threadpool_limits(2, "blas"):
        {
            "recommend": lambda: als.recommend(history),
            "predict": lambda: als.predict(history, ids),
            "embed": lambda: als.embed(history),
            "explain": lambda: als.explain(history, ids[0]),
        }[ask]()
    assert set(threads) == {1}


def test_users_without_ratings_in_a_batch(model, ratings):
    some = ratings.where(ratings.user_numbers() % 3 != 0)
    batch = model.recommend(some, 5)
    np.testing.assert_array_equal(batch.cold, np.arange(60) % 3 == 0)
    cold = batch[some.users[0]]
    assert cold.note
    assert cold.items == model.recommend({}, 5).items
    assert not batch[some.users[1]].note
    assert f"{batch.cold.sum()} without a history" in repr(batch)


def test_no_users(model, ratings):
    none = ratings.of_users(np.zeros(0, int))
    batch = model.recommend(none)
    assert len(batch) == len(batch.numbers) == 0
    assert batch.to_arrow().column_names == ["user", "item", "score", "rank"]
    assert sum(map(len, model.recommend_blocks(none))) == 0
    assert model.embed(none).shape[0] == 0
    assert model.predict(none, []).shape == (0,)


@pytest.mark.parametrize("users", [1, 7, 59, 60, 1000])
@pytest.mark.parametrize("options", [{}, {"exclude_seen": False, "deny": ["film 3"]}, {"allow": ["film 1", "film 2"]}])
def test_blocks_and_files_agree_with_all_at_once(monkeypatch, tmp_path, als, ratings, users, options):
    whole = als.recommend(ratings, 4, **options).to_arrow()
    monkeypatch.setattr(serving, "USERS", users)
    parts = list(als.recommend_blocks(ratings, 4, **options))
    assert max(map(len, parts)) <= users
    assert pa.concat_tables([part.to_arrow() for part in parts]).equals(whole)
    assert als.recommend(ratings, 4, **options).to_arrow().equals(whole)
    als.recommend_to_parquet(tmp_path / "found.parquet", ratings, 4, **options)
    assert parquet.read_table(tmp_path / "found.parquet").equals(whole)
    assert os.listdir(tmp_path) == ["found.parquet"]


def test_thread_independence(als, ratings, monkeypatch):
    monkeypatch.setattr(serving, "USERS", 17)
    found = []
    for n_jobs in (1, 2, 3, 7):
        als_copy = ALS(rank=4, n_steps=3, n_jobs=n_jobs).fit(ratings)
        found.append(als_copy.recommend(ratings, 5))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].numbers, other.numbers)
        np.testing.assert_array_equal(found[0].scores, other.scores)


def test_a_failed_file_leaves_nothing(monkeypatch, tmp_path, als, ratings):
    path = tmp_path / "found.parquet"
    path.write_text("what was there")
    monkeypatch.setattr(serving, "USERS", 20)
    calls = itertools.count()
    user_vectors = als._user_vectors

    def broken(*given):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return user_vectors(*given)

    monkeypatch.setattr(als, "_user_vectors", broken, raising=False)
    with pytest.raises(KeyboardInterrupt):
        als.recommend_to_parquet(path, ratings)
    monkeypatch.undo()
    assert path.read_text() == "what was there"
    for wrong in ({"n": 0}, {"allow": ["x"]}):
        with pytest.raises(DiscreetError):
            als.recommend_to_parquet(path, ratings, **wrong)
    assert os.listdir(tmp_path) == ["found.parquet"]
    for bad in (tmp_path, tmp_path / "no folder" / "x.parquet"):
        with pytest.raises(DataError, match=r"path: .*give the name of a file"):
            als.recommend_to_parquet(bad, ratings)


def test_files_are_for_whom_other_files_are_for(tmp_path, als, ratings):
    als.recommend_to_parquet(tmp_path / "x.parquet", ratings)
    (tmp_path / "y").touch()
    assert (tmp_path / "x.parquet").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_memory_of_a_batch(ratings):
    """Not users x items, 160 MB here, nor anything like it."""
    n_users, n_items = 2_000, 20_000
    rng = np.random.default_rng(0)
    rows = [(u, int(i), 3.0) for u in range(n_users) for i in rng.choice(n_items, 5)]
    big = discreet.read(rows, items=list(range(n_items)), value_range=(1, 5))
    model = Popularity(n_jobs=2).fit(big)
    model.recommend({1: 3.0})
    tracemalloc.start()
    found = model.recommend(big, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.numbers) == 10 * n_users
    assert peak < 30e6


# Explaining and similar items


@pytest.mark.parametrize("which", ["some", "one", "none", "all"])
def test_contributions_add_up_to_the_score(model, ids, history, which):
    history = {"some": history, "one": {ids[5]: 2.0}, "none": {}, "all": {i: 1.0 + k % 5 for k, i in enumerate(ids)}}[
        which
    ]
    scores = dict(model.recommend(history, N_ITEMS, exclude_seen=False))
    for item in (ids[0], ids[3], ids[-1]):
        why = model.explain(history, item)
        assert why.score == pytest.approx(why.baseline + why.contributions.sum(), abs=1e-6)
        assert why.score == pytest.approx(scores[item], abs=2e-4)
        assert sorted(why.items) == sorted(history)
        assert list(np.abs(why.contributions)) == sorted(np.abs(why.contributions), reverse=True)
        assert why.to_frame().num_rows == len(history)
        assert repr(item) in repr(why)


def test_ratings_of_an_explanation_belong_to_its_items(als, history, ids):
    why = als.explain(history, ids[0])
    assert dict(zip(why.items, why.ratings.tolist(), strict=True)) == history


def test_what_cannot_be_explained(als, ratings, history):
    with pytest.raises(DataError, match="history: explain takes the history of one user"):
        als.explain(ratings, "film 1")
    with pytest.raises(UnknownItem, match="item: the model does not know 'x'; give one of"):
        als.explain(history, "x")
    with pytest.raises(UnknownItem, match="history"):
        als.explain({"x": 4.0}, "film 1")
    assert als.explain({"x": 4.0}, "film 1", on_unknown="ignore").items == []


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_similar_items(model, ids, metric):
    found = model.similar_items(ids[2], n=N_ITEMS + 3, metric=metric)
    assert len(found) == N_ITEMS - 1
    assert ids[2] not in found.items
    factors = model.item_factors_[:, model._similar_columns()].astype(np.float64)
    if not factors[2].any():  # nor is there one where biases explain all there is to explain
        assert found.note == "the model has no vectors: ranked by popularity"
        return
    likeness = factors @ factors[2]
    if metric == "cosine":
        lengths = np.linalg.norm(factors, axis=1)
        likeness = np.divide(likeness, lengths * lengths[2], out=np.zeros(N_ITEMS), where=lengths > 0)
    np.testing.assert_allclose(found.scores, [likeness[ids.index(item)] for item in found.items], atol=1e-5)
    assert found.scores.dtype == model.item_factors_.dtype


def test_an_item_without_a_vector(als, ids):
    assert not als.item_factors_[-1, als._similar_columns()].any()
    found = als.similar_items(ids[-1])
    assert found.note == "the model has no vector for this item: ranked by popularity"
    assert len(found) == 10


def test_along_one_direction_every_cosine_is_the_same(ratings):
    model = discreet.ALS(rank=1).fit(ratings)
    found = model.similar_items(ratings.items[0], n=5)
    assert found.note == "the model knows one direction of taste: ranked by the inner product"
    assert found.items == model.similar_items(ratings.items[0], n=5, metric="dot").items


def test_wrong_similar_items(als):
    with pytest.raises(DataError, match="metric: 'cosine' or 'dot' is needed, not 'euclid'"):
        als.similar_items("film 1", metric="euclid")
    with pytest.raises(UnknownItem, match=r"item: .*'x'"):
        als.similar_items("x")
    for wrong in (None, ["film 1"], 3):
        with pytest.raises((DataError, UnknownItem), match="item"):
            als.similar_items(wrong)


def test_nothing_is_said_twice(als, history):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        als.recommend({**history, "x": 3.0}, on_unknown="warn")
    assert len(said) == 1
