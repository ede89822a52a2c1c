"""The scorer for LensKit's pipelines passes LensKit's own tests of scorers. It needs LensKit: `make lenskit`."""

from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("lenskit", reason="run by `make lenskit`, for it brings PyTorch")

from lenskit.data import Dataset, ItemList, RecQuery, from_interactions_df
from lenskit.pipeline import topn_pipeline
from lenskit.testing import BasicComponentTests, ScorerTests

import discreet
from discreet.errors import BudgetExceeded, NotPublic
from discreet.lenskit import PrivateScorer, ScorerConfig

PRIVATE = {"params": {"epsilon": 20.0, "delta": 1e-6}, "items_are_public": True}
RANGE = (0.5, 5.0)


@pytest.fixture(scope="module")
def ml_ratings() -> Any:
    made = discreet.datasets.movielens_like(400, 150, 16_000, random_state=0).to_frame("pandas")
    made["timestamp"] = np.random.default_rng(0).integers(0, 10**9, len(made)).astype("datetime64[s]")
    return made.rename(columns={"user": "user_id", "item": "item_id"})


@pytest.fixture(scope="module")
def ml_ds(ml_ratings: Any) -> Dataset:
    return from_interactions_df(ml_ratings)


@pytest.fixture
def ml_100k(ml_ratings: Any) -> Any:
    return ml_ratings


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


class TestRatings(BasicComponentTests, ScorerTests):
    component = PrivateScorer
    configs: ClassVar = [ScorerConfig(model="ALS", params={"rank": 3}), {**PRIVATE, "value_range": RANGE}]
    config = ScorerConfig(**PRIVATE, value_range=RANGE)


class TestLists(ScorerTests):
    component = PrivateScorer
    config = ScorerConfig(**PRIVATE, value_range=RANGE, lists=True)


class TestWithoutPrivacy(ScorerTests):
    component = PrivateScorer
    config = ScorerConfig(model="ALS", params={"rank": 3, "n_steps": 3})


def test_its_lists_are_those_of_the_model(ml_ds: Dataset) -> None:
    pipeline = topn_pipeline(PrivateScorer(**PRIVATE, value_range=RANGE, lists=True), n=5)
    pipeline.train(ml_ds)
    model = pipeline.component("scorer").model_
    assert model.guarantee_.epsilon == pytest.approx(20.0)
    history = dict.fromkeys(ml_ds.items.ids()[:4].tolist(), 5.0)
    seen = ItemList(list(history), rating=list(history.values()))
    found = pipeline.run("recommender", query=RecQuery(user_items=seen))
    assert found.ids().tolist() == model.recommend(history, n=5).items


def test_what_is_public_is_declared(ml_ds: Dataset, ml_ratings: Any, tmp_path: Any) -> None:
    for given, words in (
        ({"value_range": RANGE, "items_are_public": False}, "items_are_public"),
        ({"value_range": None}, "value_range"),
    ):
        with pytest.raises(NotPublic, match=words):
            PrivateScorer(**{**PRIVATE, **given}).train(ml_ds)
    clicks = from_interactions_df(ml_ratings[["user_id", "item_id"]])
    scorer = PrivateScorer(**PRIVATE)
    scorer.train(clicks)
    assert scorer.model_.implicit_
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = discreet.Ledger(url, epsilon=25.0, delta=1e-6)
    paid = PrivateScorer(**PRIVATE, ledger=url)
    paid.train(clicks)
    assert ledger.spent.epsilon > 19
    with pytest.raises(BudgetExceeded):
        paid.train(clicks)
