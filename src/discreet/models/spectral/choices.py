"""Moved to `discreet.models.choices`."""

from discreet.models.choices import LABELS, Choices, choice_shares, learn_choices, with_popularity

__all__ = ["LABELS", "Choices", "choice_shares", "learn_choices", "with_popularity"]
