"""A user's row as the spectral methods take it: about her own mean, and no longer than a public bound.

Both are done on her side, from her own ratings and public numbers, so under joint differential privacy they cost
nothing; and both are undone on her side when something is predicted for her. What leaves is bounded again at the door:
nothing here is relied on for privacy, but that a row depends on its user alone, to the last bit.
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

SHRINKAGE = 1.0  # ratings at the centre that a user's own mean is taken with
RATINGS_PER_USER = 80  # a typical number, where the catalogue has as many items
SPREAD = 0.2  # of a rating about its user's mean, relative to the value range
SIZE = 0.5  # of a rating that is not centred, relative to the largest that there can be


@dataclass(frozen=True)
class Prepared(UserBatch):
    """Some users' rows, centred and scaled.

    Attributes:
        offsets: What was subtracted from each user's ratings.
        scales: What each user's centred row was then multiplied by: 1, or less where it was too long.
    """

    offsets: Array
    scales: Array


@dataclass(frozen=True)
class Centring:
    """How users prepare their rows: x_ij = scale_i (y_ij - offset_i), |x_i| at most `row_norm`.

    With `shrinkage` s and c = `centre`, offset_i = c + sum_j (y_ij - c) / (n_i + s), her own mean as if she had given s
    more ratings of c. Without (None) it is c for everybody.

    Attributes:
        centre: What a rating is expected to be, publicly.
        shrinkage: How strongly a user's mean is pulled to it; None: rows are not centred by users' own means.
        row_norm: L, the largest length of a row.
    """

    centre: float
    shrinkage: float | None
    row_norm: float

    @classmethod
    def public(cls, name: str, ratings: Interactions, row_norm: float | None, *, centre: bool) -> Centring:
        """That of a model, from public inputs; raises if these are no ratings, or if no bound follows from them."""
        value_range = require_ratings(name, ratings)
        norm = row_norm or public_row_norm(value_range, ratings.n_items, centre=centre)
        return cls.of(value_range, float(norm), centre=centre)

    @classmethod
    def of(cls, value_range: tuple[float, float], row_norm: float, *, centre: bool) -> Centring:
        """About users' own means, pulled to the middle of the range; or, if not `centre`, ratings as they are."""
        low, high = value_range
        return cls((low + high) / 2, SHRINKAGE, row_norm) if centre else cls(0.0, None, row_norm)

    def prepare(self, part: UserBatch) -> Prepared:
        """Some users' rows. Sums are over one user's ratings, in their order: no row depends on another."""
        about = part.values.astype(np.float64) - self.centre
        offsets = np.zeros(len(part.counts))
        if self.shrinkage is not None:
            offsets = part.row_sums(about) / np.maximum(part.counts + self.shrinkage, 1)
            about -= offsets[part.owners]
        scales = self.row_norm / np.maximum(np.sqrt(part.row_sums(about**2)), self.row_norm)
        return Prepared(part.indptr, part.indices, about * scales[part.owners], self.centre + offsets, scales)

    def prepare_all(self, histories: Interactions) -> Prepared:
        """The rows of everybody in a table, at once."""
        return self.prepare(UserBatch(histories.indptr, histories.indices.astype(np.int64), histories.values))

    def offset_shares(self, values: Array) -> Array:
        """What each of one user's ratings adds to her offset: these and `centre` add up to it."""
        if self.shrinkage is None:
            return np.zeros(len(values))
        shares: Array = (values.astype(np.float64) - self.centre) / max(len(values) + self.shrinkage, 1)
        return shares


def public_row_norm(
    value_range: tuple[float, float] | None, n_items: int, *, ratings_per_user: int | None = None, centre: bool = True
) -> float:
    """L, the length of a typical row, from public inputs alone: longer rows are scaled down.

    It is spread * sqrt(ratings per user): the spread of ratings about their user's mean is taken to be a fifth of their
    range; that of ratings which are not centred, half of the largest that they can be. On Jester, 0 to 5: 8.9.

    Args:
        value_range: The lowest and the highest rating.
        n_items: The size of the catalogue.
        ratings_per_user: A typical number of ratings; by default 80, or what the catalogue has if that is fewer.
        centre: Whether rows are centred.
    """
    low, high = value_range or (math.nan, math.nan)
    spread = SPREAD * (high - low) if centre else SIZE * max(abs(low), abs(high))
    if not 1e-30 < spread < 1e30:
        raise Unbounded(
            f"row_norm: no bound follows from a value range of {low:g} to {high:g}; give row_norm, the length of a "
            "typical user's row of ratings, as a public constant"
        )
    return spread * math.sqrt(min(ratings_per_user or RATINGS_PER_USER, n_items))
