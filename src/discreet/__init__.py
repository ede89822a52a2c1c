"""Recommendations learned from everyone, revealing no one.

Matrix completion and recommendation under user-level joint differential privacy. The names below are
imported when first used, so that ``import discreet`` stays quick and needs no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet import errors as errors
from discreet.models.registry import MODELS
from discreet.version import __version__ as __version__

if TYPE_CHECKING:  # for type checkers; each family lists its models itself
    from discreet import audit as audit
    from discreet import datasets as datasets
    from discreet import privacy as privacy
    from discreet import spark as spark
    from discreet import splits as splits
    from discreet import testing as testing
    from discreet import tune as tune
    from discreet import web as web
    from discreet.data import Catalogue as Catalogue
    from discreet.data import Interactions as Interactions
    from discreet.data import observed_items_are_public as observed_items_are_public
    from discreet.data import read as read
    from discreet.evaluate import CallableModule
    from discreet.models.als import *
    from discreet.models.baselines import DPMeanRating as DPMeanRating
    from discreet.models.baselines import DPPopularity as DPPopularity
    from discreet.models.baselines import MeanRating as MeanRating
    from discreet.models.baselines import Popularity as Popularity
    from discreet.models.frank_wolfe import *
    from discreet.models.gradient import *
    from discreet.models.one_bit import OneBit as OneBit
    from discreet.models.private_items import select_items as select_items
    from discreet.models.recommender import Recommender as Recommender
    from discreet.models.spectral import *
    from discreet.models.spectral.pca import DPPCA as DPPCA
    from discreet.models.storage import load as load
    from discreet.parallel import on_progress as on_progress
    from discreet.privacy import Gaussian as Gaussian
    from discreet.privacy import Guarantee as Guarantee
    from discreet.privacy import L2Laplace as L2Laplace
    from discreet.privacy import Laplace as Laplace
    from discreet.privacy import Ledger as Ledger
    from discreet.privacy import Plan as Plan
    from discreet.privacy import RandomizedResponse as RandomizedResponse
    from discreet.privacy.guarantee import account as account
    from discreet.privacy.statement import Statement as Statement

    evaluate: CallableModule


_HOME = {
    **MODELS,
    "Catalogue": "discreet.data",
    "DPPCA": "discreet.models.spectral.pca",
    "Gaussian": "discreet.privacy",
    "Guarantee": "discreet.privacy",
    "Interactions": "discreet.data",
    "L2Laplace": "discreet.privacy",
    "Laplace": "discreet.privacy",
    "Ledger": "discreet.privacy",
    "Plan": "discreet.privacy",
    "RandomizedResponse": "discreet.privacy",
    "Recommender": "discreet.models.recommender",
    "Statement": "discreet.privacy.statement",
    "account": "discreet.privacy.guarantee",
    "load": "discreet.models.storage",
    "observed_items_are_public": "discreet.data",
    "on_progress": "discreet.parallel",
    "private_regressions": "discreet.models.als",
    "read": "discreet.data",
    "select_items": "discreet.models.private_items",
}
_MODULES = ("audit", "datasets", "evaluate", "privacy", "spark", "splits", "testing", "tune", "web")

__all__ = sorted({*_HOME, *_MODULES, "errors"})  # noqa: PLE0605  # type checkers read the imports above


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
