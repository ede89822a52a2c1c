"""Every model there is passes the shared suite."""

from typing import Any

import pytest

import discreet
from discreet.models import MODELS
from discreet.models.base import Model
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.als import test_lists, test_published  # noqa: F401
from tests.models.als import test_model as _dpals  # noqa: F401  # more suites
from tests.models.gradient import test_model as _gradient  # noqa: F401
from tests.models.gradient import test_sgd  # noqa: F401
from tests.models.one_bit import test_model as _one_bit  # noqa: F401
from tests.models.spectral import test_cleansed  # noqa: F401
from tests.models.spectral import test_published as _svd  # noqa: F401


class TestALS(ModelConformance):
    def model(self, **params: Any) -> Model:
        return discreet.ALS(**{"rank": 6, "n_steps": 6, **params})


class TestALSWithConjugateGradients(ModelConformance):
    def model(self, **params: Any) -> Model:
        return discreet.ALS(**{"rank": 6, "n_steps": 10, "solver": "cg", "dtype": "float64", **params})


class TestALSForImplicitFeedback(ModelConformance):
    explicit = False

    def model(self, **params: Any) -> Model:
        return discreet.ALS(**{"rank": 6, "n_steps": 6, **params})


class TestDPSVD(ModelConformance):
    explicit = False
    n_users = 1000

    def model(self, **params: Any) -> Model:
        return discreet.DPSVD(**{"epsilon": 50, "delta": 1e-6, **params})

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=discreet.Ledger(noise_source=InsecureSeededNoise(3), delta=1e-6))


class TestDPSVDOfGradedLikes(TestDPSVD):
    explicit = True
    implicit = False

    def model(self, **params: Any) -> Model:
        return super().model(**{"objective": "lists", **params})


class TestDPFrankWolfe(ModelConformance):
    implicit = False
    n_users = 1000

    def model(self, **params: Any) -> Model:
        return discreet.DPFrankWolfe(**{"epsilon": 50, "delta": 1e-6, **params})

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=discreet.Ledger(noise_source=InsecureSeededNoise(3), delta=1e-6))


class TestPublishedDPFrankWolfe(ModelConformance):
    implicit = False
    n_users = 1000

    def model(self, **params: Any) -> Model:
        given = {"epsilon": 25, "delta": 1e-6, "radius": 2000.0, "row_norm": 8.0, "n_steps": 6, "centre": True}
        return discreet.PublishedDPFrankWolfe(**{**given, "eigensolver": "oja", "oja_steps": 5, **params})

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=discreet.Ledger(noise_source=InsecureSeededNoise(3), delta=1e-6))


class TestFrankWolfe(ModelConformance):
    implicit = False

    def model(self, **params: Any) -> Model:
        return discreet.FrankWolfe(**{"n_steps": 8, **params})


class TestPopularity(ModelConformance):
    personal = False

    def model(self, **params: Any) -> Model:
        return discreet.Popularity(**params)


class Private(ModelConformance):
    personal = False

    def fit(self, model: Model, ratings: discreet.Interactions) -> Model:
        return model.fit(ratings, ledger=discreet.Ledger(noise_source=InsecureSeededNoise(3), delta=1e-6))


class TestDPPopularity(Private):
    def model(self, **params: Any) -> Model:
        return discreet.DPPopularity(**{"epsilon": 50, "delta": 1e-6, **params})


class TestDPMeanRating(Private):
    implicit = False

    def model(self, **params: Any) -> Model:
        return discreet.DPMeanRating(**{"epsilon": 50, "delta": 1e-6, **params})


class TestGlobalMean(ModelConformance):
    personal = False

    def model(self, **params: Any) -> Model:
        return discreet.MeanRating("global", **params)


class TestUserMean(ModelConformance):
    personal = False

    def model(self, **params: Any) -> Model:
        return discreet.MeanRating("user", **params)


class TestItemMean(ModelConformance):
    personal = False
    fresh = staticmethod(ModelConformance.fresh)  # an interpreter of its own, as in everyone else's tests

    def model(self, **params: Any) -> Model:
        return discreet.MeanRating("item", **params)


class TestBothMeans(ModelConformance):
    personal = False

    def model(self, **params: Any) -> Model:
        return discreet.MeanRating("both", **params)


def _suites(suite: type[ModelConformance]) -> list[type[ModelConformance]]:
    """All that there are, but for those that others are made from."""
    return [leaf for one in suite.__subclasses__() for leaf in _suites(one)] or [suite]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_model_is_left_out(name: str) -> None:
    tested = {type(suite().model()).__name__ for suite in _suites(ModelConformance)}
    assert name in tested
    assert getattr(discreet, name).__name__ == name
