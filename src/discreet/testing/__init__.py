"""Tools for tests of models and mechanisms, the library's and its users'."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet.privacy.noise import InsecureSeededNoise

if TYPE_CHECKING:
    from discreet.testing.conformance import ModelConformance

__all__ = ["InsecureSeededNoise", "ModelConformance"]


def __getattr__(name: str) -> Any:
    """The suite is imported when it is asked for: a seeded ledger has no use for it."""
    if name == "ModelConformance":
        return import_module("discreet.testing.conformance").ModelConformance
    raise AttributeError(f"module 'discreet.testing' has no attribute {name!r}")
