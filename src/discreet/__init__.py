"""Recommendations learned from everyone, revealing no one.

Matrix completion and recommendation under user-level joint differential privacy. The names below are
imported when first used, so that ``import discreet`` stays quick and needs no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet import errors

if TYPE_CHECKING:
    from discreet import audit, datasets, privacy, spark, splits, testing, tune
    from discreet.data import Catalogue, Interactions, observed_items_are_public, read
    from discreet.evaluate import module as evaluate
    from discreet.models.als import ALS, DPALS, PublishedDPALS, private_regressions
    from discreet.models.baselines import MeanRating, Popularity
    from discreet.models.frank_wolfe import DPFrankWolfe, FrankWolfe, PublishedDPFrankWolfe
    from discreet.models.gradient import DPSGD, DPGradientDescent, GradientDescent, PublishedDPGradientDescent
    from discreet.models.one_bit import OneBit
    from discreet.models.recommender import Recommender
    from discreet.models.spectral import DPSVD, SVD, DPCleansedSVD, PublishedDPCleansedSVD, PublishedDPSVD
    from discreet.models.spectral.pca import DPPCA
    from discreet.models.storage import load
    from discreet.privacy import Gaussian, Guarantee, L2Laplace, Laplace, Ledger, Plan, RandomizedResponse
    from discreet.privacy.account import account
    from discreet.privacy.statement import Statement

__version__ = "0.1.0.dev0"

_HOME = {
    "ALS": "discreet.models.als",
    "Catalogue": "discreet.data",
    "DPALS": "discreet.models.als",
    "DPCleansedSVD": "discreet.models.spectral",
    "DPFrankWolfe": "discreet.models.frank_wolfe",
    "DPGradientDescent": "discreet.models.gradient",
    "DPPCA": "discreet.models.spectral.pca",
    "DPSGD": "discreet.models.gradient",
    "DPSVD": "discreet.models.spectral",
    "FrankWolfe": "discreet.models.frank_wolfe",
    "Gaussian": "discreet.privacy",
    "GradientDescent": "discreet.models.gradient",
    "Guarantee": "discreet.privacy",
    "Interactions": "discreet.data",
    "L2Laplace": "discreet.privacy",
    "Laplace": "discreet.privacy",
    "Ledger": "discreet.privacy",
    "MeanRating": "discreet.models.baselines",
    "OneBit": "discreet.models.one_bit",
    "Plan": "discreet.privacy",
    "Popularity": "discreet.models.baselines",
    "PublishedDPALS": "discreet.models.als",
    "PublishedDPCleansedSVD": "discreet.models.spectral",
    "PublishedDPFrankWolfe": "discreet.models.frank_wolfe",
    "PublishedDPGradientDescent": "discreet.models.gradient",
    "PublishedDPSVD": "discreet.models.spectral",
    "RandomizedResponse": "discreet.privacy",
    "Recommender": "discreet.models.recommender",
    "SVD": "discreet.models.spectral",
    "Statement": "discreet.privacy.statement",
    "account": "discreet.privacy.account",
    "load": "discreet.models.storage",
    "observed_items_are_public": "discreet.data",
    "private_regressions": "discreet.models.als",
    "read": "discreet.data",
}
_MODULES = ("audit", "datasets", "evaluate", "privacy", "spark", "splits", "testing", "tune")

__all__ = [
    "ALS",
    "DPALS",
    "DPPCA",
    "DPSGD",
    "DPSVD",
    "SVD",
    "Catalogue",
    "DPCleansedSVD",
    "DPFrankWolfe",
    "DPGradientDescent",
    "FrankWolfe",
    "Gaussian",
    "GradientDescent",
    "Guarantee",
    "Interactions",
    "L2Laplace",
    "Laplace",
    "Ledger",
    "MeanRating",
    "OneBit",
    "Plan",
    "Popularity",
    "PublishedDPALS",
    "PublishedDPCleansedSVD",
    "PublishedDPFrankWolfe",
    "PublishedDPGradientDescent",
    "PublishedDPSVD",
    "RandomizedResponse",
    "Recommender",
    "Statement",
    "account",
    "audit",
    "datasets",
    "errors",
    "evaluate",
    "load",
    "observed_items_are_public",
    "privacy",
    "private_regressions",
    "read",
    "spark",
    "splits",
    "testing",
    "tune",
]


if not TYPE_CHECKING:  # so that type checkers see the names above, and no others

    def __getattr__(name: str) -> Any:
        """Import a public name from its home on first use."""
        if name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        elif name in _MODULES:
            value = import_module(f"discreet.{name}")
        else:
            raise AttributeError(f"module 'discreet' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
