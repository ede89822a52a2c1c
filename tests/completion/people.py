"""Made-up people, for replays with and without one more of them."""

from discreet.audit.people import ordinary

__all__ = ["ordinary"]
