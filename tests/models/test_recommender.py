"""The recommender that chooses its own model."""

from pathlib import Path

import pytest
from sklearn.base import clone

import discreet
from discreet.errors import DataError, NotFitted


def test_it_chooses_by_the_kind_of_data(tmp_path: Path) -> None:
    ratings = discreet.datasets.movielens_like(400, 50, 8000, random_state=0)
    for data, name in ((ratings, "DPALS"), (ratings.to_implicit(4), "DPSVD")):
        model = discreet.Recommender(epsilon=2.0, delta=1e-6)
        assert model.fit(data) is model
        assert type(model.model_).__name__ == name
        assert model.guarantee_.epsilon <= 2
        found = model.recommend([1, 2], n=5)
        assert len(found) == 5
        model.save(tmp_path / name)
        assert type(discreet.load(tmp_path / name)).__name__ == name
        assert str(model.statement())


def test_unfitted_it_says_so_and_it_can_be_cloned() -> None:
    model = discreet.Recommender(epsilon=2.0, delta=1e-6, n_jobs=1)
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFitted, match="fit"):
        model.recommend([1])
    with pytest.raises(ValueError, match="epsilon"):
        discreet.Recommender(epsilon=-1, delta=1e-6).fit(discreet.datasets.movielens_like(50, 20, 500, random_state=0))


def test_it_learns_what_it_is_asked_for() -> None:
    ratings = discreet.datasets.movielens_like(400, 50, 8000, random_state=0)
    for objective, name, both in (("ratings", "DPALS", False), ("lists", "DPSVD", False), ("both", "DPALS", True)):
        model = discreet.Recommender(epsilon=2.0, delta=1e-6, objective=objective, n_users_hint=400).fit(ratings)
        assert type(model.model_).__name__ == name
        assert (model.model_._ranking is not model.model_._fold_in) == both
        assert model._predicts_ratings == (objective != "lists")
        measured = discreet.evaluate(model, ratings, history=ratings, exclude_seen=False)
        assert set(measured) == ({"recall@20", "ndcg@100"} if objective == "lists" else {"rmse", "mae"})
        if objective == "lists":
            with pytest.raises(DataError, match="metrics: rmse compares ratings, and this Recommender predicts none"):
                discreet.evaluate(model, ratings, history=ratings, metrics="rmse")
    with pytest.raises(DataError, match=r"objective: one of .*'lists'"):
        discreet.Recommender(epsilon=2.0, delta=1e-6, objective="list").fit(ratings)
    with pytest.raises(DataError, match="objective: without values"):
        discreet.Recommender(epsilon=2.0, delta=1e-6, objective="ratings").fit(ratings.to_implicit(4))
