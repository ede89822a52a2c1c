"""Recommendations learned from everyone, revealing no one.

Matrix completion and recommendation under user-level joint differential privacy. The names below are
imported when first used, so that ``import discreet`` stays quick and needs no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet import errors

if TYPE_CHECKING:
    from discreet import audit, datasets, privacy, spark, splits, testing, tune
    from discreet.calculator import account
    from discreet.completion.als import ALS, DPALS, PublishedDPALS, private_regressions
    from discreet.completion.baselines import MeanRating, Popularity
    from discreet.completion.frank_wolfe import DPFrankWolfe, FrankWolfe, PublishedDPFrankWolfe
    from discreet.completion.gradient import DPSGD, DPGradientDescent, GradientDescent, PublishedDPGradientDescent
    from discreet.completion.one_bit import OneBit
    from discreet.completion.recommender import Recommender
    from discreet.completion.saving import load
    from discreet.completion.spectral import DPSVD, SVD, DPCleansedSVD, PublishedDPCleansedSVD, PublishedDPSVD
    from discreet.completion.spectral.pca import DPPCA
    from discreet.data import Catalogue, Interactions, observed_items_are_public, read
    from discreet.evaluate import module as evaluate
    from discreet.privacy import Gaussian, Guarantee, L2Laplace, Laplace, Ledger, Plan, RandomizedResponse
    from discreet.statement import Statement

__version__ = "0.1.0.dev0"

_HOME = {
    "ALS": "discreet.completion.als",
    "Catalogue": "discreet.data",
    "DPALS": "discreet.completion.als",
    "DPCleansedSVD": "discreet.completion.spectral",
    "DPFrankWolfe": "discreet.completion.frank_wolfe",
    "DPGradientDescent": "discreet.completion.gradient",
    "DPPCA": "discreet.completion.spectral.pca",
    "DPSGD": "discreet.completion.gradient",
    "DPSVD": "discreet.completion.spectral",
    "FrankWolfe": "discreet.completion.frank_wolfe",
    "Gaussian": "discreet.privacy",
    "GradientDescent": "discreet.completion.gradient",
    "Guarantee": "discreet.privacy",
    "Interactions": "discreet.data",
    "L2Laplace": "discreet.privacy",
    "Laplace": "discreet.privacy",
    "Ledger": "discreet.privacy",
    "MeanRating": "discreet.completion.baselines",
    "OneBit": "discreet.completion.one_bit",
    "Plan": "discreet.privacy",
    "Popularity": "discreet.completion.baselines",
    "PublishedDPALS": "discreet.completion.als",
    "PublishedDPCleansedSVD": "discreet.completion.spectral",
    "PublishedDPFrankWolfe": "discreet.completion.frank_wolfe",
    "PublishedDPGradientDescent": "discreet.completion.gradient",
    "PublishedDPSVD": "discreet.completion.spectral",
    "RandomizedResponse": "discreet.privacy",
    "Recommender": "discreet.completion.recommender",
    "SVD": "discreet.completion.spectral",
    "Statement": "discreet.statement",
    "account": "discreet.calculator",
    "load": "discreet.completion.saving",
    "observed_items_are_public": "discreet.data",
    "private_regressions": "discreet.completion.als",
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
