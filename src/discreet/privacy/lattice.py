"""Moved to `discreet.privacy.noise`."""

from discreet.privacy.noise import GridArray

__all__ = ["GridArray"]
