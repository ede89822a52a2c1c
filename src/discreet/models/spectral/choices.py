"""Directions of taste from what users choose together: the releases for it, and what is learned from them.

A model gives users' histories with a nonnegative weight for each item, and popularities that it has released. It may be
one that has other releases, too: its plan has the lines that are named in `Labels`, with shares of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import dense_users
from discreet.models.spectral.contributions import Residuals
from discreet.models.spectral.estimate import Chosen, Spectrum
from discreet.privacy import GramSum, Noisy, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SECOND_MOMENT = "second moment of histories"


@dataclass(frozen=True)
class Choices:
    """What histories say about taste."""

    chosen: Chosen
    spectrum: Spectrum

    @property
    def item_factors(self) -> Array:
        """One vector for each item: the common taste, and sqrt(f_k) q_k for the chosen items."""
        factors = np.zeros((len(self.chosen.weights), 1 + self.spectrum.vectors.shape[1]))
        factors[:, 0] = self.chosen.common
        factors[self.chosen.items, 1:] = self.spectrum.vectors * np.sqrt(self.spectrum.shrinkage)
        return factors


def learn_choices(
    releaser: Releaser,
    users: Callable[[int], Blocks[UserBatch]],
    popularity: Noisy,
    most_items: int,
    label: str = SECOND_MOMENT,
) -> Choices:
    """Choose items by their popularity, and release how they are chosen together.

    Args:
        releaser: Its plan has the label.
        users: All users, at most so many in a batch; a value is the user's weight of that item, at least 0.
        popularity: Of each item, released: a sum over users of vectors of length at most 1.
        most_items: The most items that are chosen.
        label: Of the release.
    """
    chosen = Chosen.by(popularity, releaser.noise(label, GramSum(1, 1.0)).std, most_items)
    n = len(chosen.items)
    moment = releaser.release(label, GramSum(n, 1.0), users(dense_users(n)), Residuals.of(chosen))
    return Choices(chosen, Spectrum.of(moment, chosen))
