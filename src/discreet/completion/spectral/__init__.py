"""Spectral models: eigenvectors of a second-moment matrix."""

from discreet.completion.spectral.cleansed import DPCleansedSVD, PublishedCleansedSVD
from discreet.completion.spectral.private import DPSVD

__all__ = ["DPSVD", "DPCleansedSVD", "PublishedCleansedSVD"]
