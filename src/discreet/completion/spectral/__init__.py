"""Spectral models: eigenvectors of a second-moment matrix."""

from discreet.completion.spectral.cleansed import DPCleansedSVD, PublishedDPCleansedSVD
from discreet.completion.spectral.plain import SVD
from discreet.completion.spectral.private import DPSVD
from discreet.completion.spectral.published import PublishedDPSVD

__all__ = ["DPSVD", "SVD", "DPCleansedSVD", "PublishedDPCleansedSVD", "PublishedDPSVD"]
