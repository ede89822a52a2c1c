"""Made-up people, for replays with and without one more of them."""

from discreet.audit.neighbors import ordinary

__all__ = ["ordinary"]
