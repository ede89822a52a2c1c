"""Popularity and means, against the numbers by hand; private ones, against those without noise."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit.subjects import shipped
from discreet.audit.suite import designed
from discreet.data import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.testing import InsecureSeededNoise

ROWS = [("ann", "x", 5.0), ("ann", "y", 3.0), ("bob", "x", 4.0), ("bob", "z", 1.0), ("cat", "x", 3.0)]


@pytest.fixture
def ratings() -> Interactions:
    return discreet.read(ROWS, items=["x", "y", "z", "w"], value_range=(1, 5))


def test_popularity(ratings: Interactions) -> None:
    found = discreet.Popularity().fit(ratings).recommend(["y"], n=4)
    assert found.items == ["x", "z", "w"]  # y is seen
    assert np.allclose(found.scores, [1, 1 / 3, 0])
    assert discreet.Popularity().fit(ratings).recommend({}, n=1).items == ["x"]


def test_means_without_shrinkage(ratings: Interactions) -> None:
    mean = 16 / 5
    expected = {"global": [mean, mean, mean], "user": [4.0, 4.0, 4.0], "item": [4.0, 3.0, 1.0]}
    for by, values in expected.items():
        model = discreet.MeanRating(by, shrinkage=0).fit(ratings)  # type: ignore[arg-type]
        assert np.allclose(model.predict({"x": 5.0, "y": 3.0}, ["x", "y", "z"]), values, atol=1e-6), by


def test_means_of_both_are_the_least_squares_fit(ratings: Interactions) -> None:
    model = discreet.MeanRating("both", shrinkage=0.5, n_steps=200).fit(ratings)
    users, items = ["ann", "bob", "cat"], ["x", "y", "z", "w"]
    mean = 16 / 5
    A = np.zeros((5 + 7, 7))
    y = np.zeros(12)
    for row, (user, item, value) in enumerate(ROWS):
        A[row, users.index(user)] = A[row, 3 + items.index(item)] = 1
        y[row] = value - mean
    A[5:] = np.sqrt(0.5) * np.eye(7)
    solution = np.linalg.lstsq(A, y, rcond=None)[0]
    assert np.allclose(model.item_bias_, solution[3:], atol=1e-5)
    predicted = model.predict(ratings, [("bob", "y")])
    assert np.allclose(predicted, mean + solution[1] + solution[4], atol=1e-5)


def test_shrinkage_pulls_to_the_global_mean(ratings: Interactions) -> None:
    model = discreet.MeanRating("item", shrinkage=1e9).fit(ratings)
    assert np.allclose(model.predict({}, ["x", "y", "z", "w"]), 16 / 5, atol=1e-5)


@pytest.mark.parametrize("settings", [{"by": "film"}, {"shrinkage": -1}, {"shrinkage": float("nan")}, {"n_steps": 0}])
def test_bad_parameters_are_named(ratings: Interactions, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        discreet.MeanRating(**settings).fit(ratings)


def test_a_mean_needs_no_declared_range() -> None:
    model = discreet.MeanRating("user").fit([("ann", "x", 2.0), ("bob", "x", 7.0)])
    assert model.value_range_ == (2.0, 7.0)
    with pytest.raises(DataError, match="range"):
        model.recommend({"x": 8.0})


# -- private ones


def noisy(model: Any, ratings: Interactions) -> Any:
    return model.fit(ratings, ledger=discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(1)))


@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith(("DPPopularity", "DPMeanRating"))])
def test_private_baselines_reach_their_bounds(name: str) -> None:
    findings = designed(shipped()[name])[1]
    assert all(finding.ok for finding in findings), [finding.words for finding in findings if not finding.ok]
    moved = [finding.figures["share"] for finding in findings if finding.check == "worst case"]
    assert min(moved) > 0.95


def test_private_popularity_is_almost_popularity() -> None:
    liked = discreet.datasets.movielens_like(2000, 60, 40_000, random_state=0)
    weights = np.repeat(1 / np.sqrt(np.maximum(np.diff(liked.indptr), 1)), np.diff(liked.indptr))
    model = noisy(discreet.DPPopularity(epsilon=100, delta=1e-6), liked)
    expected = np.bincount(liked.indices, weights, minlength=60)
    assert np.allclose(model.item_bias_, expected, atol=1)
    assert model.recommend([], n=5).items == [liked.items[j] for j in np.argsort(-model.popularity_)[:5]]


def test_private_means_are_almost_as_good_as_exact_ones() -> None:
    train, _, test = discreet.splits.holdout(discreet.datasets.movielens_like(3000, 60, 60_000, random_state=0))
    models = {
        "private": noisy(discreet.DPMeanRating(epsilon=20, delta=1e-6), train),
        "exact": discreet.MeanRating("both").fit(train),
        "own": discreet.MeanRating("user").fit(train),
    }
    errors = {name: discreet.evaluate(model, test, history=train)["rmse"] for name, model in models.items()}
    assert errors["private"] < errors["exact"] + 0.02
    assert errors["private"] < errors["own"] - 0.02


def test_private_baselines_refuse_before_they_spend(ratings: Interactions) -> None:
    for settings in ({"epsilon": 0, "delta": 1e-6}, {"epsilon": 1, "delta": 1}):
        for kind in (discreet.DPPopularity, discreet.DPMeanRating):
            with pytest.raises((DataError, PrivacyError), match=r"epsilon|delta"):
                kind(**settings).fit(ratings)
    with pytest.raises(DataError, match="DPMeanRating"):
        discreet.DPMeanRating(epsilon=1, delta=1e-6).fit(ratings.to_implicit())
