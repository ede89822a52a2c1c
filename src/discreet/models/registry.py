"""All models, one line each: the classes of saved models, and the list that the command, audits and tests use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from discreet.models.base import Model

    M = TypeVar("M", bound=Model)

MODELS = {
    "ALS": "discreet.models.als",
    "DPALS": "discreet.models.als",
    "DPCleansedSVD": "discreet.models.spectral",
    "DPFrankWolfe": "discreet.models.frank_wolfe",
    "DPGradientDescent": "discreet.models.gradient",
    "DPMeanRating": "discreet.models.baselines",
    "DPPopularity": "discreet.models.baselines",
    "DPSGD": "discreet.models.gradient",
    "DPSVD": "discreet.models.spectral",
    "FrankWolfe": "discreet.models.frank_wolfe",
    "GradientDescent": "discreet.models.gradient",
    "MeanRating": "discreet.models.baselines",
    "OneBit": "discreet.models.one_bit",
    "Popularity": "discreet.models.baselines",
    "PublishedDPALS": "discreet.models.als",
    "PublishedDPCleansedSVD": "discreet.models.spectral",
    "PublishedDPFrankWolfe": "discreet.models.frank_wolfe",
    "PublishedDPGradientDescent": "discreet.models.gradient",
    "PublishedDPSVD": "discreet.models.spectral",
    "SVD": "discreet.models.spectral",
}


def find(name: str) -> type[Model]:
    """The class with this name; raises KeyError if there is none."""
    found: type[Model] = getattr(import_module(MODELS[name]), name)
    return found


def register(model: type[M]) -> type[M]:
    """Register your own model, so that it can be saved, loaded, exported and used by the command.

    Use it as a decorator. A saved model can be loaded only if its class is registered: a file can name no other code.

    Example:
        >>> import discreet
        >>> from discreet.models.registry import register
        >>> @register
        ... class Mine(discreet.Popularity):
        ...     pass
    """
    if MODELS.get(model.__name__, model.__module__) != model.__module__:
        raise ValueError(f"model: the name {model.__name__!r} is taken by {MODELS[model.__name__]}; choose another")
    MODELS[model.__name__] = model.__module__
    return model
