"""Alternating least squares: without privacy (`baseline`), with it (`model`), and as it was published (`published`)."""

from discreet.models.als.baseline import ALS
from discreet.models.als.model import DPALS
from discreet.models.als.published import PublishedDPALS
from discreet.models.als.published_training import private_regressions

__all__ = ["ALS", "DPALS", "PublishedDPALS", "private_regressions"]
