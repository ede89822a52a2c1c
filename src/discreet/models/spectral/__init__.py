"""Spectral models: eigenvectors of a second-moment matrix."""

from discreet.models.spectral.model import DPSVD, SVD, DPCleansedSVD
from discreet.models.spectral.published import PublishedDPCleansedSVD, PublishedDPSVD

__all__ = ["DPSVD", "SVD", "DPCleansedSVD", "PublishedDPCleansedSVD", "PublishedDPSVD"]
