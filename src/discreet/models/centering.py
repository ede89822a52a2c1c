"""A user's row about their own mean, and no longer than a public bound.

Users do both on their own side, from their own ratings and public numbers, so under joint differential privacy it costs
nothing; and they undo both when something is predicted for them. The release step bounds contributions again: privacy
relies only on a row depending on its user alone, to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import Unbounded
from discreet.models.base import require_ratings
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SHRINKAGE = 1.0  # ratings at the center that are added to a user's own mean
RATINGS_PER_USER = 80  # a typical number, where the catalog has as many items
SPREAD = 0.2  # of a rating about its user's mean, relative to the value range
SIZE = 0.5  # of a rating that is not centered, relative to the largest possible one


@dataclass(frozen=True)
class Prepared(UserBatch):
    """Some users' rows, centered and scaled."""

    offsets: Array  # what was subtracted from each user's ratings
    scales: Array  # the factor of each user's centered row: 1, or less where it was too long


@dataclass(frozen=True)
class Centering:
    """How users prepare their rows: x_ij = scale_i (y_ij - offset_i), |x_i| at most `row_norm`.

    With `shrinkage` s and c = `centre`, offset_i = c + sum_j (y_ij - c) / (n_i + s), the user's own mean with s more
    ratings of c, what a rating is publicly expected to be. Without (None) it is c for all users.
    """

    centre: float
    shrinkage: float | None
    row_norm: float

    @classmethod
    def public(cls, name: str, ratings: Interactions, row_norm: float | None, *, centre: bool) -> Centering:
        """That of a model, from public inputs; raises if these are not ratings, or if no bound follows from them."""
        value_range = require_ratings(name, ratings)
        norm = row_norm or public_row_norm(value_range, ratings.n_items, centre=centre)
        return cls.of(value_range, float(norm), centre=centre)

    @classmethod
    def of(cls, value_range: tuple[float, float], row_norm: float, *, centre: bool) -> Centering:
        """About users' own means, pulled to the middle of the range; or, if not `centre`, ratings as they are."""
        low, high = value_range
        return cls((low + high) / 2, SHRINKAGE, row_norm) if centre else cls(0.0, None, row_norm)

    @classmethod
    def unbounded(cls, value_range: tuple[float, float], n_items: int, *, centre: bool) -> Centering:
        """That of a model without privacy: no row is so long that it would be scaled."""
        return cls.of(value_range, 2 * max(map(abs, value_range)) * n_items**0.5, centre=centre)

    def prepare(self, part: UserBatch) -> Prepared:
        """Some users' rows. Sums are over one user's ratings, in their order: no row depends on another."""
        about = part.values.astype(np.float64) - self.centre
        offsets = np.zeros(len(part.counts))
        if self.shrinkage is not None:
            offsets = part.row_sums(about) / np.maximum(part.counts + self.shrinkage, 1)
            about -= offsets[part.owners]
        scales = self.row_norm / np.maximum(np.sqrt(part.row_sums(about**2)), self.row_norm)
        return Prepared(part.indptr, part.indices, about * scales[part.owners], self.centre + offsets, scales)

    def offset_shares(self, values: Array) -> Array:
        """What each of one user's ratings adds to their offset: these and `centre` add up to it."""
        if self.shrinkage is None:
            return np.zeros(len(values))
        return np.asarray((values.astype(np.float64) - self.centre) / max(len(values) + self.shrinkage, 1))


def public_row_norm(
    value_range: tuple[float, float] | None, n_items: int, *, ratings_per_user: int | None = None, centre: bool = True
) -> float:
    """L, the length of a typical row, from public inputs alone: longer rows are scaled down.

    It is spread * sqrt(ratings per user), 80 by default, or all items if they are fewer. The spread of ratings about
    their user's mean is taken to be a fifth of their range; that of ratings that are not centered, half of the largest
    possible one. On Jester, 0 to 5: 8.9.
    """
    low, high = value_range or (math.nan, math.nan)
    spread = SPREAD * (high - low) if centre else SIZE * max(abs(low), abs(high))
    if not 1e-30 < spread < 1e30:
        raise Unbounded(
            f"row_norm: no bound follows from a value range of {low:g} to {high:g}; give row_norm, the length of a "
            "typical user's row of ratings, as a public constant"
        )
    return spread * math.sqrt(min(ratings_per_user or RATINGS_PER_USER, n_items))
