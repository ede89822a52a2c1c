"""DPSVD for ratings: users' centred rows, of a public length at most, and the directions that they vary along."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.models.centering import RATINGS_PER_USER, Centring
from discreet.models.directions import PENALTY, Directions, noise_edge
from discreet.models.fold_in import RidgeFoldIn
from discreet.models.ridge import Penalty
from discreet.privacy import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

OFFSET_PENALTY = 1.0


@dataclass(frozen=True)
class RatingRows:
    """Users' ratings of the items that are looked at, centred by each user's own mean: rows of length at most L.

    A row is computed from the user's own ratings and public numbers (`Centring`), whoever is computed beside her.

    Attributes:
        items: The items that are looked at.
        n_items: How many there are in all.
        centring: How users prepare their ratings.
    """

    items: Array
    n_items: int
    centring: Centring

    def __call__(self, part: UserBatch) -> Array:
        """The rows of some users."""
        place = np.full(self.n_items, -1)
        place[self.items] = np.arange(len(self.items))
        own = self.centring.prepare(part)
        at = place[own.indices]
        rows = np.zeros((len(own.counts), len(self.items)))
        rows[own.owners[at >= 0], at[at >= 0]] = own.values[at >= 0]
        return rows


def rating_factors(moment: Noisy, items: Array, n_items: int, rank: int | None) -> Array:
    """One vector for each item, for users' ridge regressions; 0 for items that are not looked at.

    Rows have zeros where nothing is rated, and so vary less along a direction than ratings do, by about the share of
    the items that a typical user has rated: a public number.
    """
    n = len(items)
    columns = Directions.of(moment.values, float(noise_edge(moment.std, n)), rank).columns
    columns = columns / math.sqrt(min(RATINGS_PER_USER, n) / n)
    factors = np.zeros((n_items, columns.shape[1]))
    factors[items] = columns
    return factors


def rating_fold_in(factors: Array, base: Array, *, centre: bool) -> RidgeFoldIn:
    """How a user is folded in: their own offset, if rows are centered, and how far they go along each direction."""
    offset_penalty = OFFSET_PENALTY if centre else None
    return RidgeFoldIn(columns=factors, base=base, penalty=Penalty(PENALTY), offset_penalty=offset_penalty)
