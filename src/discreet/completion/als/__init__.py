"""Alternating least squares: without privacy (`plain`), with it (`private`), and as it was published (`published`)."""

from discreet.completion.als.plain import ALS
from discreet.completion.als.private import DPALS
from discreet.completion.als.published import PublishedDPALS
from discreet.completion.als.regressions import private_regressions

__all__ = ["ALS", "DPALS", "PublishedDPALS", "private_regressions"]
