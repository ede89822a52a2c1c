"""Alternating least squares, without privacy (`plain`) and with it (`private`)."""

from discreet.completion.als.plain import ALS
from discreet.completion.als.private import DPALS

__all__ = ["ALS", "DPALS"]
