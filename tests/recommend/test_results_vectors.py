"""Vectors for other search engines."""

import builtins
import os
import uuid

import numpy as np
import pytest
from pyarrow import parquet

from discreet.data.catalogue import Catalogue
from discreet.errors import DataError, DiscreetError, MissingExtra
from discreet.models.als import ALS
from discreet.models.baselines import Popularity
from discreet.recommend.results import AnnIndex
from tests.recommend.conftest import N_ITEMS, make_ratings


def test_inner_products_order_items_as_scores_do(model, ids, history):
    names, vectors = model.export_vectors()
    assert names.tolist() == ids
    products = vectors.astype(np.float64) @ model.query_vector(history)
    scores = dict(model.recommend(history, N_ITEMS, exclude_seen=False))
    expected = np.array([scores[item] for item in ids])
    np.testing.assert_allclose(products - products[0], expected - expected[0], atol=1e-4)


def test_queries_of_many(als, ratings):
    queries = als.query_vector(ratings)
    assert queries.shape == (60, als.export_vectors()[1].shape[1])
    np.testing.assert_array_equal(queries[4], als.query_vector(ratings.history(ratings.users[4])))
    rank = als.item_factors_.shape[1]
    assert als.embed(ratings).shape == (60, rank)
    assert als.embed({}).shape == (rank,)
    assert not als.embed({}).any()


@pytest.mark.parametrize("kind", ["string", "int", "uuid"])
def test_every_format(tmp_path, kind):
    ids = {
        "string": [f"ü {i}" for i in range(N_ITEMS)],
        "int": list(range(N_ITEMS)),
        "uuid": [uuid.UUID(int=i) for i in range(N_ITEMS)],
    }[kind]
    model = ALS(rank=3, n_steps=1).fit(make_ratings(ids))
    names, vectors = model.export_vectors()
    assert names.tolist() == ids
    table = model.export_vectors("arrow")
    assert table["item"].to_pylist() == ids
    np.testing.assert_array_equal(np.array(table["vector"].to_pylist(), np.float32), vectors)
    assert model.export_vectors("parquet", tmp_path / "v.parquet") is None
    assert parquet.read_table(tmp_path / "v.parquet").equals(table)
    model.export_vectors("npz", tmp_path / "v")
    with np.load(tmp_path / "v", allow_pickle=False) as file:
        assert file["item"].tolist() == (ids if kind == "int" else list(map(str, ids)))
        np.testing.assert_array_equal(file["vector"], vectors)
    assert sorted(os.listdir(tmp_path)) == ["v", "v.parquet"]


def test_wrong_exports(als, tmp_path):
    with pytest.raises(DataError, match="format: one of numpy, arrow, parquet, npz is needed, not 'csv'"):
        als.export_vectors("csv")
    with pytest.raises(DataError, match="path: format='parquet' writes a file, so say where"):
        als.export_vectors("parquet")
    with pytest.raises(DataError, match="path: format='numpy' writes none"):
        als.export_vectors("numpy", "x")
    with pytest.raises(DataError, match=r"path: .*folder that exists"):
        als.export_vectors("npz", tmp_path / "no" / "x")


def test_exported_vectors_are_the_callers_own(als):
    als.export_vectors()[1][:] = 0
    assert als.item_factors_.any()


def test_index(model, ids, ratings):
    """So small a graph finds everything."""
    index = model.ann_index()
    queries = model.query_vector(ratings)
    found = index.search(queries, 5)
    assert found.shape == (60, 5)
    vectors = model.export_vectors()[1]
    products = queries @ vectors.T
    best = -np.sort(-products, axis=1)[:, :5]
    np.testing.assert_allclose(np.take_along_axis(products, found, axis=1), best, atol=1e-3)
    assert index.search(queries[0], 5).shape == (1, 5)
    assert index.search(queries, 1000).shape == (60, N_ITEMS)
    assert index.search(queries[:0], 3).shape == (0, 3)


def test_recall_where_lengths_differ_much():
    """As they do between popular and other items, at a rank where directions alone say little."""
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(0, 0.5, (3000, 1))
    vectors = (rng.standard_normal((3000, 64)) * lengths).astype(np.float32)
    queries = (rng.standard_normal((100, 64)) + 0.5).astype(np.float32)
    found = AnnIndex.build(Catalogue(range(3000)), vectors, 32, 128).search(queries, 20)
    exact = np.argsort(-queries @ vectors.T, axis=1)[:, :20]
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, exact, strict=True)]) / 20 > 0.95


def test_places_that_are_not_found_are_not_made_up(als, monkeypatch):
    class Half:
        ndim = als.export_vectors()[1].shape[1]

        def search(self, queries, n):
            self.keys = np.zeros((len(queries), n), np.uint64)
            self.counts = [n // 2] * len(queries)
            return self

    found = AnnIndex(als.catalogue_, Half()).search(als.query_vector({}), 4)
    assert found.tolist() == [[0, 0, -1, -1]]


def test_wrong_searches(als):
    index = als.ann_index()
    with pytest.raises(DataError, match=rf"queries: vectors of length {als.item_factors_.shape[1] + 1} are needed"):
        index.search(als.embed({}))
    with pytest.raises(DiscreetError, match="n must be"):
        index.search(als.query_vector({}), 0)


def test_an_index_of_equal_items():
    model = Popularity().fit([(u, i, 1.0) for u in range(4) for i in range(6)])
    assert sorted(model.ann_index().search(model.query_vector({}), 6)[0]) == list(range(6))


def test_without_usearch(als, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("usearch"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"discreet\[ann\]"):
        als.ann_index()
