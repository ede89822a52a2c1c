"""Alternating least squares."""

from discreet.completion.als.plain import ALS

__all__ = ["ALS"]
