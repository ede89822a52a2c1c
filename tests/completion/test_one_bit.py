"""OneBit: the model, its interface, and what it refuses."""

from __future__ import annotations

from typing import Any

import discreet
from discreet.completion.base import Model
from discreet.testing import InsecureSeededNoise, ModelConformance


def ledger(seed: int = 3, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(
        noise_source=InsecureSeededNoise(seed), **{"unit": "entry", "adjacency": "flip", "delta": 0.0, **settings}
    )


class TestOneBit(ModelConformance):
    implicit = False
    n_items_large = 8_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(**{"epsilon": 8, "threshold": 3, "tau": 80.0, "n_jobs": 2, **params})

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=ledger())


class TestOneBitByTheObjective(ModelConformance):
    implicit = False
    n_items_large = 8_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"mechanism": "objective", "epsilon": 8, "threshold": 3, "tau": 80.0, "n_jobs": 2, **params}
        )

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=ledger())


class TestOneBitByFactors(ModelConformance):
    implicit = False
    n_items_large = 8_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"solver": "factored", "rank": 4, "alpha": 4.0, "epsilon": 8, "threshold": 3, "n_jobs": 2, **params}
        )

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=ledger())


class TestOneBitNotPrivate(ModelConformance):
    implicit = False
    n_items_large = 8_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"mechanism": None, "link": "probit", "threshold": 3, "tau": 80.0, "n_jobs": 2, **params}
        )
