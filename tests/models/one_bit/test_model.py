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
