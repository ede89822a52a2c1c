"""OneBit: the model, its interface, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import discreet
from discreet.models.base import Model
from discreet.testing import InsecureSeededNoise, ModelConformance


def ledger(seed: int = 3, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(
        noise_source=InsecureSeededNoise(seed), **{"unit": "entry", "adjacency": "flip", "delta": 0.0, **settings}
    )


class Bits(ModelConformance):
    """Of single entries; the checks run in its subclasses."""

    implicit = False
    n_items_large = 4_000

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=ledger())


class TestOneBit(Bits):
    def model(self, **params: Any) -> Model:
        return discreet.OneBit(**{"epsilon": 8, "threshold": 3, "tau": 80.0, "n_jobs": 2, **params})


class TestOneBitByFactors(Bits):
    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"solver": "factored", "rank": 4, "alpha": 4.0, "epsilon": 8, "threshold": 3, "n_jobs": 2, **params}
        )


class TestOneBitNotPrivate(ModelConformance):
    implicit = False
    n_items_large = 4_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"mechanism": None, "link": "probit", "threshold": 3, "tau": 80.0, "n_jobs": 2, **params}
        )


@pytest.mark.parametrize(
    "params",
    [
        {"mechanism": "objective"},
        {"mechanism": "gradient"},
        {"mechanism": "output", "noise": "gaussian", "delta": 1e-6},
        {"mechanism": "objective", "link": "probit"},
    ],
)
def test_other_mechanisms_have_the_same_interface(params: dict[str, Any], tmp_path: Path) -> None:
    """Small matrices are enough for these: all mechanisms serve with the same code, which the suites test."""
    likes = discreet.datasets.one_bit(30, 20, alpha=3.0, observed=0.9, random_state=0)
    book = ledger(delta=params.get("delta", 0.0))
    model = discreet.OneBit(**{"epsilon": 150.0, "tau": 60.0, "alpha": 3.0, "n_jobs": 2, **params})
    alone = clone(model).set_params(n_jobs=1).fit(likes, ledger=ledger(delta=params.get("delta", 0.0)))
    model.fit(likes, ledger=book)
    assert np.array_equal(model.item_factors_, alone.item_factors_)
    model.save(tmp_path / "model")
    again, history, targets = discreet.load(tmp_path / "model"), {3: 1.0, 5: -1.0}, list(range(20))
    chances = model.predict_proba(history, targets)
    assert len(set(chances)) > 10
    assert np.array_equal(model.predict_sign(history, targets), np.where(chances >= 0.5, 1, -1))
    assert np.array_equal(again.predict_proba(history, targets), chances)
    assert model.recommend(history, n=3).items == again.recommend(history, n=3).items
    assert set(model.recommend(history, n=18).items).isdisjoint(history)
    assert again.statement().certificate == model.statement().certificate
    assert model.guarantee_.epsilon <= 150


def answers(n_users: int, easy: np.ndarray, seed: int = 0) -> tuple[discreet.Interactions, discreet.Interactions]:
    """Answers to questions, right or wrong: some are easy, and some people know more. A tenth are held out."""
    rng = np.random.default_rng(seed)
    chance = 1 / (1 + np.exp(-(easy + rng.standard_normal((n_users, 1)))))
    table = rng.random((n_users, len(easy))) < chance
    rows = [(user, item, float(value)) for (user, item), value in np.ndenumerate(table)]
    data = discreet.read(rows, items=list(range(len(easy))), value_range=(0, 1))
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.1, random_state=0)
    return train, test


def log_loss(chances: np.ndarray, test: discreet.Interactions) -> float:
    """The mean over test entries."""
    right = np.where(test.values > 0.5, chances, 1 - chances)
    return float(-np.log(np.maximum(right, 1e-9)).mean())


@pytest.mark.parametrize("mechanism", ["input", "objective", "gradient", "output", "objective, probit"])
@pytest.mark.parametrize(
    ("n_users", "easy"),
    [(400, np.linspace(-2, 2, 12)), (300, np.linspace(-5.5, -3.5, 10)), (2_000, np.array([1.5]))],
    ids=["mixed", "1% yes", "one item"],
)
def test_no_mechanism_is_worse_than_shares_of_yes(mechanism: str, n_users: int, easy: np.ndarray) -> None:
    """The share of each item, from the same data without noise; nor does the loss rise with epsilon."""
    train, test = answers(n_users, easy)
    ones, n = (np.bincount(train.indices, w, train.n_items) for w in (train.values, np.ones(len(train))))
    share = ((ones + 1) / (n + 2))[test.indices]
    mechanism, _, link = mechanism.partition(", ")
    losses, delta = [], 1e-6 if link else 0.0
    for epsilon in (4.0, 50.0):
        model = discreet.OneBit(mechanism, link or "logistic", epsilon=epsilon, delta=delta)  # type: ignore[arg-type]
        fits = (model.fit(train, ledger=ledger(seed, delta=delta)) for seed in range(2))
        losses.append(np.mean([log_loss(fit.predict_proba(train, test), test) for fit in fits]))
    assert max(losses) < 1.04 * log_loss(share, test)
    assert losses[1] < 1.01 * losses[0]
    if len(easy) > 1 and easy.max() > 0:
        assert losses[0] < 0.97 * log_loss(share, test)


def test_hardly_any_epsilon_leaves_item_effects() -> None:
    """Each bit says nothing at epsilon .2, their sums do."""
    train, test = answers(1_000, np.linspace(-2, 2, 8))
    share = (np.bincount(train.indices, train.values) / np.bincount(train.indices))[test.indices]
    for mechanism in ("input", "objective", "gradient"):
        model = discreet.OneBit(mechanism, epsilon=0.2).fit(train, ledger=ledger())  # type: ignore[arg-type]
        assert log_loss(model.predict_proba(train, test), test) < log_loss(share, test)


@pytest.mark.parametrize("mechanism", ["input", "objective", "gradient", "output"])
def test_ten_people_at_a_small_epsilon_are_predicted_about_as_by_a_coin(mechanism: Any) -> None:
    """Noise hides how many ones there are: the level stays near the middle, and nothing overflows."""
    train, test = answers(10, np.linspace(-1, 1, 8))
    fits = (discreet.OneBit(mechanism, epsilon=0.1).fit(train, ledger=ledger(seed)) for seed in range(6))
    losses = [log_loss(fit.predict_proba(train, test), test) for fit in fits]
    assert np.mean(losses) < 1.15 * np.log(2)
