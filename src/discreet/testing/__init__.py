"""Tools to test models and mechanisms: the library's and your own."""

from discreet.privacy.noise import InsecureSeededNoise
from discreet.testing.conformance import ModelConformance

__all__ = ["InsecureSeededNoise", "ModelConformance"]
