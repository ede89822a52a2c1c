"""Tools for tests of models and mechanisms, the library's and its users'."""

from discreet.privacy.noise import InsecureSeededNoise
from discreet.testing.conformance import ModelConformance

__all__ = ["InsecureSeededNoise", "ModelConformance"]
