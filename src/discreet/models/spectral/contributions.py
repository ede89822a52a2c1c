"""The private side of spectral models: what users compute from their own items or ratings and public numbers.

A user's sums are added up in the order of their items, so that their row does not depend, to the last bit, on the rows
that are computed beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, user_batches
from discreet.models.als.published_contributions import uniform
from discreet.models.centering import Centering
from discreet.models.spectral.estimate import Chosen, Cleansed, item_averages, over_weights
from discreet.privacy import GramSum, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SUMS, COUNTS = "item sums of ratings", "item counts"
COVARIANCE, WEIGHTS = "weighted covariance of ratings", "weights of the covariance"


@dataclass(frozen=True)
class Residuals:
    """Users' weighted histories without the common taste: rows of length at most 1."""

    place: Array  # the position of each item among the chosen ones; -1: not chosen
    weights: Array  # a user's weight of each item; 0 where `place` is -1
    common: Array  # the common taste, over the chosen items

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
        left = np.sqrt(np.maximum(1 - along**2, 0.25))
        rows: Array = (-along / left)[:, None] * self.common
        rows[owners[counted], at[counted]] += (own / left[owners])[counted]
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


@dataclass(frozen=True)
class Cleansing:
    """How users prepare what is added up (McSherry and Mironov 2009). Proof: docs/proofs/cleansed-svd.md.

    A user with c ratings adds c^-1/2 (y_j - middle) to the sum of an item, c^-1/2 to its count. They subtract the
    averages that follow and their own damped mean, and clamp what is left to [-clamp, clamp], r_j. With e_j = 1 on
    their items, they add r r^T / c to the covariance, where r / sqrt(c) is shortened to `spread`, and e e^T / c to the
    weights. So each contribution is bounded for any c. As published, for single entries in place of users, they add
    y_j - middle and 1, and r r^T / sqrt(c), e e^T / sqrt(c), for at most `cap` ratings.
    """

    middle: float  # of the range of ratings
    half: float  # R, half the width of that range
    clamp: float  # B
    spread: float  # the largest root mean square of r that counts
    damping: float  # ratings at the average that a user's own mean is taken with
    cap: int | None = None  # k, the most ratings of a user; None: any number, with weights for users

    @property
    def bounds(self) -> dict[str, float]:
        """The largest L2 norm of a user's contribution to each release."""
        root = 1.0 if self.cap is None else self.cap**0.5
        variance = min(self.clamp, self.spread) ** 2
        return {COUNTS: root, SUMS: root * self.half, WEIGHTS: root, COVARIANCE: root * variance}

    def run(self, releaser: Releaser, ratings: Interactions) -> Cleansed:
        """All releases, and what follows from them."""
        n, bounds = ratings.n_items, self.bounds
        users, some = self._users(ratings), self._users(ratings, max(DENSE_CELLS // n, 1))
        counts = releaser.release(COUNTS, VectorSum(n, bounds[COUNTS], cone="nonnegative"), users, self._shares)
        sums = releaser.release(SUMS, VectorSum(n, bounds[SUMS]), users, self._centered)
        averages = self.middle + item_averages(sums, counts, self.half)
        weights = releaser.release(WEIGHTS, GramSum(n, bounds[WEIGHTS]), some, self._indicators)
        residuals = partial(self._residuals, averages)
        covariance = releaser.release(COVARIANCE, GramSum(n, bounds[COVARIANCE]), some, residuals)
        ratio, edge = over_weights(covariance, weights, min(self.clamp, self.spread) ** 2)
        return Cleansed(averages, counts.values, ratio, edge)

    def _users(self, ratings: Interactions, most_users: int | None = None) -> Blocks[UserBatch]:
        return user_batches(ratings, most_users).map(self._capped)

    def _capped(self, part: UserBatch) -> UserBatch:
        if self.cap is None:
            return part
        kept = uniform(part, self.cap, seed=0)
        counts = np.bincount(part.owners[kept], minlength=len(part.counts))
        return UserBatch(np.concatenate([[0], np.cumsum(counts)]), part.indices[kept], part.values[kept])

    def _shares(self, part: UserBatch) -> Array:
        powers = np.maximum(part.counts, 1) ** (0.0 if self.cap else -0.5)
        return np.asarray(powers[part.owners])

    def _centered(self, part: UserBatch) -> Array:
        return np.clip(part.values.astype(np.float64) - self.middle, -self.half, self.half) * self._shares(part)

    def _residuals(self, averages: Array, part: UserBatch) -> Array:
        """What some users have of sqrt(w) r. Sums are over one user's ratings, in their order."""
        about = part.values.astype(np.float64) - averages[part.indices]
        about -= (part.row_sums(about) / np.maximum(part.counts + self.damping, 1))[part.owners]
        return np.clip(about, -self.clamp, self.clamp) * self._indicators(part)

    def _indicators(self, part: UserBatch) -> Array:
        """What some users have of sqrt(w) e."""
        roots = np.maximum(part.counts, 1) ** (-0.25 if self.cap else -0.5)
        return np.asarray(roots[part.owners])
