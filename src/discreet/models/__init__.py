"""The models: one package or module for each family of algorithms, one interface for all (`base`)."""

from discreet.models.registry import MODELS

__all__ = ["MODELS"]
