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


class Bits(ModelConformance):
    """Of single entries; the checks run in its subclasses."""

    implicit = False
    n_items_large = 8_000

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=ledger())


class TestOneBit(Bits):
    def model(self, **params: Any) -> Model:
        return discreet.OneBit(**{"epsilon": 8, "threshold": 3, "tau": 80.0, "n_jobs": 2, **params})


class TestOneBitByTheObjective(Bits):
    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"mechanism": "objective", "epsilon": 8, "threshold": 3, "tau": 80.0, "n_jobs": 2, **params}
        )


class TestOneBitByFactors(Bits):
    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"solver": "factored", "rank": 4, "alpha": 4.0, "epsilon": 8, "threshold": 3, "n_jobs": 2, **params}
        )


class TestOneBitNotPrivate(ModelConformance):
    implicit = False
    n_items_large = 8_000

    def model(self, **params: Any) -> Model:
        return discreet.OneBit(
            **{"mechanism": None, "link": "probit", "threshold": 3, "tau": 80.0, "n_jobs": 2, **params}
        )
