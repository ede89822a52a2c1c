"""The private side of DPSVD: one row for each user, from their own items or ratings and public numbers.

A user's sums are added up in the order of their items, so that their row does not depend, to the last bit, on the rows
that are computed beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.models.centering import Centering
from discreet.models.spectral.estimate import Chosen
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array


@dataclass(frozen=True)
class Residuals:
    """Users' weighted histories without the common taste: rows of length at most 1.

    Attributes:
        place: The position of each item among the chosen ones; -1: not chosen.
        weights: A user's weight of each item; 0 where `place` is -1.
        common: The common taste, over the chosen items.
    """

    place: Array
    weights: Array
    common: Array

    @classmethod
    def of(cls, chosen: Chosen) -> Residuals:
        """For the chosen items."""
        return cls(_places(chosen.items, len(chosen.weights)), chosen.weights, chosen.common[chosen.items])

    def __call__(self, part: UserBatch) -> Array:
        """The rows of some users."""
        owners, at = part.owners, self.place[part.indices]
        own = self.weights[part.indices]
        lengths = np.sqrt(part.row_sums(own**2))
        own /= np.where(lengths > 0, lengths, 1)[owners]
        counted = at >= 0
        along = part.row_sums(np.where(counted, own * self.common[at], 0))
        rows = -along[:, None] * self.common
        rows[owners[counted], at[counted]] += own[counted]
        rows /= np.sqrt(np.maximum(1 - along**2, 0.25))[:, None]
        return rows


@dataclass(frozen=True)
class RatingRows:
    """Users' ratings of the chosen `items`, prepared by `centering`: rows of length at most L."""

    items: Array
    n_items: int
    centering: Centering

    def __call__(self, part: UserBatch) -> Array:
        """The rows of some users."""
        own = self.centering.prepare(part)
        at = _places(self.items, self.n_items)[own.indices]
        rows = np.zeros((len(own.counts), len(self.items)))
        rows[own.owners[at >= 0], at[at >= 0]] = own.values[at >= 0]
        return rows


def _places(items: Array, n_items: int) -> Array:
    """The position of each item among some; -1: it is not among them."""
    place = np.full(n_items, -1)
    place[items] = np.arange(len(items))
    return place
