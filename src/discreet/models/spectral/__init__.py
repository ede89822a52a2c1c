"""Spectral models: eigenvectors of a second-moment matrix."""

from discreet.models.spectral.baseline import SVD
from discreet.models.spectral.cleansed import DPCleansedSVD, PublishedDPCleansedSVD
from discreet.models.spectral.model import DPSVD
from discreet.models.spectral.published import PublishedDPSVD

__all__ = ["DPSVD", "SVD", "DPCleansedSVD", "PublishedDPCleansedSVD", "PublishedDPSVD"]
